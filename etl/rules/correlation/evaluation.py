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

from etl.rules.correlation.encoding import join_escaped, split_escaped
from etl.rules.correlation.kernels import close_windows, first_distinct, measure_windows, slide
from etl.rules.correlation.member_table import PERCENTILE, VALUES, MemberTable
from etl.rules.correlation.model import Correlation
from etl.rules.correlation.reader import MAX_EVENTS
from etl.rules.correlation.slots import NAMES, ROWS, Slots, known_rows, text_codes

MAX_SHOWN = 10
"""Values and samples that an alert carries."""


@dataclass(frozen=True)
class Windows:
    """Windows over the rows of slots: each from a first row to the one in front of an end."""

    slots: Slots
    slot: Any
    firsts: Any
    ends: Any
    measures: Any

    @property
    def member(self) -> Any:
        """int64[windows]: the number of each one's member."""
        return self.slots.member[self.slot]

    def filter(self, wanted: Any) -> Windows:
        """Some of them, by a mask or by number."""
        return Windows(self.slots, self.slot[wanted], self.firsts[wanted], self.ends[wanted], self.measures[wanted])

    def column(self, name: str, first: bool = True) -> pa.Array:
        """A column of the first or last row of each."""
        rows = self.firsts if first else self.ends - 1
        return self.slots.rows.column(name).combine_chunks().take(pa.array(rows))

    def counts(self) -> Any:
        """int64[windows]: events of each: rows of the same time and offset are one."""
        if not len(self.slots.rows):
            return np.zeros(len(self.firsts), np.int64)
        micros, offset = self.slots.micros, self.slots.rows.column("offset").to_numpy()
        changes = np.append(0, np.cumsum((micros[1:] != micros[:-1]) | (offset[1:] != offset[:-1])))
        return changes[self.ends - 1] - changes[self.firsts] + 1

    def first(self, name: str) -> pa.Array:
        """The first value of a column in each that is not null."""
        found = self.distinct(name, 1)
        firsts = np.where(np.diff(found.offsets.to_numpy()) > 0, found.offsets.to_numpy()[:-1], -1)
        return found.values.take(pa.array(firsts, mask=firsts < 0))

    def distinct(self, name: str, limit: int = MAX_SHOWN) -> pa.ListArray:
        """The distinct values of a column in each, in the order of their first rows, up to ``limit`` of them."""
        column = self.slots.rows.column(name).combine_chunks()
        codes = text_codes(self.slots.rows, name)
        marks, rows = np.zeros(int(codes.max(initial=-1)) + 1, np.int64), np.empty(len(self.firsts) * limit, np.int64)
        offsets = np.empty(len(self.firsts) + 1, np.int64)
        first_distinct(self.firsts, self.ends, codes, marks, np.int64(limit), rows, offsets)
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), column.take(pa.array(rows[: offsets[-1]])))


@dataclass(frozen=True)
class Evaluated:
    """The members of a level after a micro-batch."""

    slots: Slots
    alerts: Windows
    kept: Any
    """bool[n]: rows that can still matter."""
    bursts: pa.Table
    """`ROWS` of bursts that can go on."""

    def state(self) -> pa.Table:
        """`ROWS` of all that is to be remembered."""
        return pa.concat_tables([self.slots.rows.filter(pa.array(self.kept)), self.bursts])

    def due(self) -> Iterator[tuple[bool, int]]:
        """The end of the first window that is to close, and the watermark that removes all other state; each with whether its
        condition is monotonic."""
        slots = self.slots
        times, monotonic = (slots.micros + slots.spans[slots.slot])[self.kept], slots.monotonic[slots.slot][self.kept]
        if (closing := times[~monotonic]).size:
            yield False, int(closing.min())
        if (others := times[monotonic]).size:
            yield True, int(others.max())


def evaluate(rows: pa.Table, table: MemberTable, watermark: int) -> Iterator[Evaluated]:
    """Process all events of some groups (`ROWS`), level by level: alerts of a level are events of the next ones."""
    waiting = dict(_by_level(rows, table))
    while waiting:
        level = min(waiting)
        found = _evaluated(Slots.of(waiting.pop(level), table), watermark)
        yield found
        for above, raised in _raised(found.alerts):
            waiting[above] = pa.concat_tables([waiting.get(above, ROWS.empty_table()), raised])


def _by_level(rows: pa.Table, table: MemberTable) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each level; those of correlations that no longer run are left out."""
    known, member = known_rows(rows, table)
    levels = table.levels[member]
    if not levels.any():
        yield 0, known
        return
    for level in np.unique(levels).tolist():
        yield level, known.filter(pa.array(levels == level))


def _evaluated(slots: Slots, watermark: int) -> Evaluated:
    slid = _slide(slots)
    closed, rest = _close(slots, watermark)
    alerts = Windows(slots, *(np.concatenate(pair) for pair in zip(slid.alerts, closed, strict=True)))
    kept, earliest = _kept(slots, rest, watermark)
    return Evaluated(slots, alerts, kept, slid.bursts(slots, earliest))


# ── Evaluated with each event ─────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Slid:
    """What windows that slide have given."""

    alerts: tuple[Any, Any, Any, Any]
    """As in `Windows`."""
    since: Any
    last: Any
    slot: Any
    """Of each burst."""

    def bursts(self, slots: Slots, earliest: Any) -> pa.Table:
        """`ROWS` of the bursts that an event can prolong: ``earliest`` (int64[slots]) is the first event that is not old."""
        alive = self.last + slots.spans[self.slot] > earliest[self.slot]
        since, last, slot = self.since[alive], self.last[alive], self.slot[alive]
        names = slots.rows.select(NAMES).take(pa.array(slots.starts[slot]))
        zeros = np.zeros(len(slot), np.int64)
        columns = {name: names.column(name) for name in NAMES} | {
            "micros": since,
            "burst_end": last,
            "order": zeros,
            "offset": zeros,
        }
        return pa.table([columns.get(field.name, pa.nulls(len(slot), field.type)) for field in ROWS], ROWS.names).cast(ROWS)


def _slide(slots: Slots) -> _Slid:
    """The alerts and bursts of monotonic conditions."""
    table, rows = slots.table, len(slots.rows)
    begins = np.append(0, np.cumsum(slots.burst_counts + slots.sizes))
    counts, since, last = slots.burst_counts.copy(), *np.empty((2, begins[-1]), np.int64)
    known = _spread(begins[:-1], slots.burst_counts)
    since[known], last[known] = (slots.bursts.column(name).to_numpy() for name in ("micros", "burst_end"))
    (program, program_starts), (places, place_starts) = table.program, table.places
    at, firsts = np.empty((2, rows), np.int64)
    measures = np.empty(rows, np.float64)
    found = slide(
        slots.starts,
        slots.member,
        slots.micros,
        slots.codes,
        slots.weights,
        table.spans,
        table.monotonic,
        table.kinds,
        table.words,
        table.thresholds,
        program_starts,
        program,
        place_starts,
        places,
        np.zeros(slots.most_codes, np.int64),
        np.empty(len(program) + 1, np.int64),
        np.empty(len(places) + 1, np.int64),
        begins,
        counts,
        since,
        last,
        at,
        firsts,
        measures,
    )
    alive = _spread(begins[:-1], counts)
    slot = np.repeat(np.arange(len(slots)), counts)
    alerts = (slots.slot[at[:found]], firsts[:found], at[:found] + 1, measures[:found])
    return _Slid(alerts, since[alive], last[alive], slot)


def _spread(begins: Any, counts: Any) -> Any:
    """int64: ``counts[i]`` numbers from ``begins[i]`` on, one behind the other."""
    return np.arange(counts.sum()) + np.repeat(begins - np.append(0, np.cumsum(counts)[:-1])[: len(counts)], counts)


# ── Evaluated when a window has closed ────────────────────────────────────────────────────────────


def _close(slots: Slots, watermark: int) -> tuple[tuple[Any, Any, Any, Any], Any]:
    """The windows that have closed and meet their conditions; and the first row of each slot that is in none that has closed."""
    table, rows = slots.table, len(slots.rows)
    slot, firsts, ends = np.empty((3, rows), np.int64)
    count = close_windows(
        slots.starts, slots.member, slots.micros, table.spans, table.monotonic, np.int64(watermark), slot, firsts, ends
    )
    slot, firsts, ends = slot[:count], firsts[:count], ends[:count]
    rest = slots.starts[:-1].copy()
    rest[slot] = ends
    measures, holds = measured(slots, slot, firsts, ends)
    return (slot[holds], firsts[holds], ends[holds], measures[holds]), rest


def measured(slots: Slots, slot: Any, firsts: Any, ends: Any) -> tuple[Any, Any]:
    """The measures of windows of these slots, and whether they meet the conditions."""
    table = slots.table
    program, program_starts = table.program
    measures, holds = np.empty(len(slot), np.float64), np.empty(len(slot), np.bool_)
    measure_windows(
        firsts,
        ends,
        slots.member[slot],
        slots.codes,
        slots.weights,
        _ranked(slots, slot, firsts, ends),
        table.kinds,
        table.words,
        table.thresholds,
        table.shares,
        program_starts,
        program,
        np.zeros(slots.most_codes, np.int64),
        np.empty(len(program) + 1, np.int64),
        measures,
        holds,
    )
    return measures, holds


def _ranked(slots: Slots, slot: Any, firsts: Any, ends: Any) -> Any:
    """float64[n]: the weights sorted in each window, if a percentile is asked for."""
    if not (slots.kinds[slot] == PERCENTILE).any():
        return slots.weights
    edges = np.zeros(len(slots.rows) + 1, np.int64)
    edges[firsts] = edges[ends] = 1
    return slots.weights[np.lexsort((slots.weights, np.cumsum(edges)[:-1]))]


def open_windows(slots: Slots) -> Windows:
    """The window of each slot that has events: that which ends with the latest event or, where windows follow one another, that
    which begins with the first."""
    slot = np.flatnonzero(slots.sizes)
    firsts, ends = slots.starts[slot], slots.starts[slot + 1]
    first, last = (np.repeat(slots.micros[at], slots.sizes[slot]) for at in (firsts, ends - 1))
    span = slots.spans[slots.slot]
    inside = np.where(slots.monotonic[slots.slot], slots.micros > last - span, slots.micros < first + span)
    counts = np.bincount(slots.slot[inside], minlength=len(slots))[slot]
    monotonic = slots.monotonic[slot]
    firsts, ends = np.where(monotonic, ends - counts, firsts), np.where(monotonic, ends, firsts + counts)
    return Windows(slots, slot, firsts, ends, measured(slots, slot, firsts, ends)[0])


# ── What remains ──────────────────────────────────────────────────────────────────────────────────


def _kept(slots: Slots, rest: Any, watermark: int) -> tuple[Any, Any]:
    """bool[n]: the rows that can still matter; int64[slots]: the time of each slot's first row that is not old.

    Of events before the watermark the latest `MemberTable.settled` matter, and of all the latest `MAX_EVENTS`.
    """
    slot, at = slots.slot, np.arange(len(slots.rows))
    monotonic = slots.monotonic[slot]
    young = np.where(monotonic, slots.micros > watermark - slots.spans[slot], at >= rest[slot])
    old = young & monotonic & (slots.micros < watermark)
    gone = np.bincount(slot[~young], minlength=len(slots))
    settled = np.bincount(slot[old], minlength=len(slots)) - slots.table.settled[slots.member]
    kept = young & (~old | (at - (slots.starts[:-1] + gone)[slot] >= settled[slot]))
    for full in np.flatnonzero(np.bincount(slot[kept], minlength=len(slots)) > MAX_EVENTS).tolist():
        rows = np.flatnonzero(kept & (slot == full))
        kept[rows] = _latest(slots, full, rows)
    earliest = np.full(len(slots), np.iinfo(np.int64).max)
    some = gone < slots.sizes
    earliest[some] = slots.micros[(slots.starts[:-1] + gone)[some]]
    return kept, earliest


def _latest(slots: Slots, slot: int, rows: Any) -> Any:
    """bool[rows]: the latest row of each rule or value first, then the latest, `MAX_EVENTS` in all."""
    name = "value" if slots.kinds[slot] == VALUES else "rule"
    codes = text_codes(slots.rows.take(pa.array(rows)), name)
    _, back = np.unique(codes[::-1], return_index=True)
    kept = np.zeros(len(rows), np.bool_)
    kept[np.sort(len(rows) - 1 - back)[-MAX_EVENTS:]] = True
    others = np.flatnonzero(~kept)
    kept[others[len(others) - (MAX_EVENTS - kept.sum()) :]] = True
    return kept


# ── Chains ────────────────────────────────────────────────────────────────────────────────────────


def _raised(alerts: Windows) -> Iterator[tuple[int, pa.Table]]:
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
            }
            arrays = [columns.get(field.name, pa.nulls(rows, field.type)).cast(field.type) for field in ROWS]
            yield int(table.levels[table.numbers[family.head.id, above.id]]), pa.table(arrays, schema=ROWS)


def _part(alerts: Windows, member: Correlation, above: Correlation) -> pa.Array:
    """The groups of a member of which alerts of a member are events."""
    if not above.group_by:
        return pa.repeat(pa.scalar(""), len(alerts.firsts))
    values = dict(zip(member.group_by, split_escaped(alerts.column("part"), len(member.group_by)), strict=True))
    return join_escaped([values[above.field_of(name, member.id)] for name in above.group_by])
