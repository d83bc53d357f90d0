"""The state of many groups.

Groups that may give an alert are evaluated one by one (`groups`); in all others, events are added and removed together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.rules.correlation.columns import ROWS, EventColumns, part_of, sort_events
from etl.rules.correlation.encoding import join_name, split_name
from etl.rules.correlation.families import Family
from etl.rules.correlation.groups import Group
from etl.rules.correlation.screen import deadlines, may_alert, rows_to_keep
from etl.rules.correlation.windows import Alert, Event, WindowState

Bursts = dict[str, dict[str, list[tuple[int, int]]]]
"""Group → member → its bursts, as in `WindowState`."""

Groups = dict[str, tuple[Family, Group]]
"""By their texts."""


@dataclass
class Bucket:
    """The state of many groups."""

    rows: pa.Table = field(default_factory=ROWS.empty_table)
    """Events."""
    bursts: Bursts = field(default_factory=dict)
    due: int | None = None
    """The watermark at which to process the bucket again; None without state."""

    @classmethod
    def of(cls, state: pa.Table) -> Bucket:
        """The events and bursts of `ROWS` that `state` has given."""
        is_burst = state.column("burst_end").is_valid()
        bursts: Bursts = {}
        for row in state.filter(is_burst).to_pylist():  # few: they are of groups with an alert
            bursts.setdefault(row["group"], {}).setdefault(row["member"], []).append((row["micros"], row["burst_end"]))
        return cls(state.filter(pc.invert(is_burst)), bursts)

    def state(self) -> pa.Table:
        """`ROWS` of all events and bursts."""
        rows = [
            {"group": group, "member": member, "micros": since, "offset": 0, "order": 0, "burst_end": last}
            for group, members in self.bursts.items()
            for member, some in members.items()
            for since, last in some
        ]
        return pa.concat_tables([self.rows, pa.Table.from_pylist(rows, ROWS)])

    def advance(self, families: Mapping[str, Family], watermark: int) -> list[tuple[str, Alert]]:
        """Process all events and remove state that can no longer matter. Returns the alerts with the texts of their groups."""
        columns = sort_events(self.rows, families)
        if not columns.members:
            self.rows, self.bursts, self.due = ROWS.empty_table(), {}, None
            return []
        singly = self._groups_to_evaluate(columns, watermark)[columns.slot]
        groups = self._groups(columns, singly, families)
        rest = ~singly & rows_to_keep(columns, watermark)
        alerts = [(text, alert) for text, (family, group) in groups.items() for alert in group.advance(family, watermark)]
        self.rows = pa.concat_tables([columns.rows(rest), _rows(groups)])
        self.bursts = {text: bursts for text, (_, group) in groups.items() if (bursts := _bursts(text, group))}
        self.due = _first(
            [*deadlines(columns, rest), *(end for family, group in groups.values() for end in group.deadlines(family))]
        )
        return alerts

    def _groups_to_evaluate(self, columns: EventColumns, watermark: int) -> Any:
        """bool[slots]: the slots of groups that are evaluated one by one."""
        bursting = np.array([group in self.bursts for group, _ in columns.names], bool)
        return np.isin(columns.group, columns.group[may_alert(columns, watermark) | bursting])

    def _groups(self, columns: EventColumns, rows: Any, families: Mapping[str, Family]) -> Groups:
        """Some rows as groups."""
        picked = columns.rows(rows)
        fields = [picked.column(name).to_pylist() for name in Event._fields]
        found: Groups = {}
        states: dict[int, WindowState] = {}
        for slot, *event in zip(columns.slot[rows].tolist(), *fields, strict=True):  # few: something is due in these groups
            if slot not in states:
                text, member = columns.names[slot]
                states[slot] = WindowState(bursts=list(self.bursts.get(text, {}).get(member, ())))
                _, group = found.setdefault(text, (families[split_name(text)[0]], Group()))
                group.states[columns.members[slot].id, part_of(text, member)] = states[slot]
            states[slot].events.append(Event(*event))
        return found


def _first(ends: Sequence[tuple[bool, int]]) -> int | None:
    """The earliest end of a window; without one, the time at which all state can be removed."""
    closing = [time for is_monotonic, time in ends if not is_monotonic]
    return min(closing) if closing else max((time for _, time in ends), default=None)


def _rows(groups: Groups) -> pa.Table:
    found = [
        {"group": text, "member": member, **event._asdict()}
        for text, (_, group) in groups.items()
        for member, state in _members(text, group)
        for event in state.events
    ]
    return pa.Table.from_pylist(found, ROWS)


def _bursts(text: str, group: Group) -> dict[str, list[tuple[int, int]]]:
    return {member: state.bursts for member, state in _members(text, group) if state.bursts}


def _members(text: str, group: Group) -> Iterator[tuple[str, WindowState]]:
    """States by the texts of their members."""
    head = split_name(text)[0]
    for (member, part), state in group.states.items():
        yield join_name([member] if member == head else [member, *part]), state
