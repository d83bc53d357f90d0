"""Correlations over the events of many groups. Invariant: the alerts do not depend on how events are split into batches.

A monotonic condition (`Correlation.is_monotonic`) is evaluated with each event, over the window that ends with it. Any other
condition is evaluated when the watermark passes the end of a window; these windows begin with a group's first event and follow
one another. Both process events in the order of their times, including late ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from etl.api import NEVER, PANE
from etl.rules.correlation.closed_windows import close_slots
from etl.rules.correlation.encoding import join_escaped, split_escaped
from etl.rules.correlation.member_table import VALUES, MemberTable
from etl.rules.correlation.model import Correlation
from etl.rules.correlation.reader import MAX_EVENTS
from etl.rules.correlation.sliding_windows import SlotBursts, slide_windows
from etl.rules.correlation.slots import ROWS, Slots, rows_of_members
from etl.rules.correlation.windows import Windows


@dataclass(frozen=True)
class Evaluated:
    """The members of a level after a micro-batch."""

    slots: Slots
    alerts: Windows
    is_remaining: Any
    """bool[n]: events that can still matter."""
    bursts: SlotBursts
    """Those that can go on."""


def evaluate(rows: pa.Table, table: MemberTable, watermark: int) -> Iterator[Evaluated]:
    """Process all events of some groups (`ROWS`), level by level: alerts of a level are events of the next ones."""
    waiting = dict(_by_level(rows, table))
    while waiting:
        level = min(waiting)
        found = _evaluate(Slots.of(waiting.pop(level), table), watermark)
        yield found
        for above, raised in _alerts_as_events(found.alerts):
            waiting[above] = pa.concat_tables([waiting.get(above, ROWS.empty_table()), raised])


def _by_level(rows: pa.Table, table: MemberTable) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each level; those of correlations that no longer run are left out."""
    if not table.levels.any():
        yield 0, rows
        return
    known, member = rows_of_members(rows, table)
    levels = table.levels[member]
    for level in np.unique(levels).tolist() or [0]:
        yield level, known.filter(pa.array(levels == level))


def _evaluate(slots: Slots, watermark: int) -> Evaluated:
    slid, bursts = slide_windows(slots)
    closed, rest = close_slots(slots, watermark)
    is_remaining, earliest = _remaining_events(slots, rest, watermark)
    return Evaluated(slots, slid.followed_by(closed), is_remaining, bursts.alive(slots, earliest))


# ── Chains ────────────────────────────────────────────────────────────────────────────────────────


def _alerts_as_events(alerts: Windows) -> Iterator[tuple[int, pa.Table]]:
    """Alerts as events of the members that build on theirs, with the level of these. Their time is that of the last event."""
    table = alerts.slots.table
    for number in np.unique(alerts.member).tolist():
        family, member = table.members[number]
        for above in (one for one in family.above(member) if one is not member):
            found = alerts.filter(alerts.member == number)
            rows = len(found.firsts)
            columns = {
                "head": found.column("head"),
                "group": found.column("group"),
                "member": pa.repeat(pa.scalar(above.id), rows),
                "part": pa.repeat(pa.scalar(""), rows) if above is family.head else _part(found, member, above),
                "order": pa.repeat(pa.scalar(above.rules.index(member.id)), rows),
                "rule": pa.repeat(pa.scalar(member.id), rows),
                "sample": found.first("sample"),
                "micros": found.column("micros", first=False),
                "offset": pa.repeat(pa.scalar(0), rows),
                PANE: pa.repeat(pa.scalar(NEVER), rows),
            }
            arrays = [columns.get(field.name, pa.nulls(rows, field.type)).cast(field.type) for field in ROWS]
            yield int(table.levels[table.numbers[family.head.id, above.id]]), pa.table(arrays, schema=ROWS)


def _part(alerts: Windows, member: Correlation, above: Correlation) -> pa.Array:
    """The groups of a member of which alerts of a member are events."""
    if not above.group_by:
        return pa.repeat(pa.scalar(""), len(alerts.firsts))
    values = dict(zip(member.group_by, split_escaped(alerts.column("part"), len(member.group_by)), strict=True))
    return join_escaped([values[above.field_of(name, member.id)] for name in above.group_by])


# ── Events that can still matter ───────────────────────────────────────────────────────────────────


def _remaining_events(slots: Slots, rest: Any, watermark: int) -> tuple[Any, Any]:
    """bool[n]: the rows that can still matter; int64[slots]: the time of each slot's first row that is not old.

    Of events before the watermark the latest `MemberTable.settled` matter, and of all the latest `MAX_EVENTS`.
    """
    slot, at = slots.slot, np.arange(len(slots.order))
    monotonic = slots.monotonic[slot]
    young = np.where(monotonic, slots.micros > watermark - slots.spans[slot], at >= rest[slot])
    old = young & monotonic & (slots.micros < watermark)
    gone = np.bincount(slot[~young], minlength=len(slots))
    settled = np.bincount(slot[old], minlength=len(slots)) - slots.table.settled[slots.member]
    is_remaining = young & (~old | (at - (slots.starts[:-1] + gone)[slot] >= settled[slot]))
    for full in np.flatnonzero(np.bincount(slot[is_remaining], minlength=len(slots)) > MAX_EVENTS).tolist():
        rows = np.flatnonzero(is_remaining & (slot == full))
        is_remaining[rows] = _latest(slots, full, rows)
    earliest = np.full(len(slots), np.iinfo(np.int64).max)
    some = gone < slots.sizes
    earliest[some] = slots.micros[(slots.starts[:-1] + gone)[some]]
    return is_remaining, earliest


def _latest(slots: Slots, slot: int, rows: Any) -> Any:
    """bool[rows]: the latest row of each rule or value first, then the latest, `MAX_EVENTS` in all."""
    name = "value" if slots.kinds[slot] == VALUES else "rule"
    codes = slots.text_codes(name)[rows]
    _, back = np.unique(codes[::-1], return_index=True)
    is_latest = np.zeros(len(rows), np.bool_)
    is_latest[np.sort(len(rows) - 1 - back)[-MAX_EVENTS:]] = True
    others = np.flatnonzero(~is_latest)
    is_latest[others[len(others) - (MAX_EVENTS - is_latest.sum()) :]] = True
    return is_latest
