"""The state of many groups.

Groups that may give an alert are evaluated one by one (`groups`); in all others, events are added and removed together.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from etl.rules.correlation.columns import ROWS, EventColumns, part_of, sort_events
from etl.rules.correlation.encoding import escape, join_name, split_name, unescape
from etl.rules.correlation.families import Family
from etl.rules.correlation.groups import Group
from etl.rules.correlation.screen import deadlines, may_alert, rows_to_keep
from etl.rules.correlation.windows import Alert, Event, WindowState

Bursts = dict[str, dict[str, list[tuple[int, int]]]]
"""Group → member → its bursts, as in `WindowState`."""

Groups = dict[str, tuple[Family, Group]]
"""By their texts."""

_BURSTS = b"bursts"
_LENGTH_BYTES = 8


@dataclass
class Bucket:
    """The state of many groups."""

    rows: pa.Table = field(default_factory=ROWS.empty_table)
    bursts: Bursts = field(default_factory=dict)
    due: int | None = None
    """The watermark at which to process the bucket again; None without state."""

    @classmethod
    def deserialize(cls, data: bytes) -> Bucket:
        """Read what `serialize` has written."""
        length = int.from_bytes(data[:_LENGTH_BYTES], "big")
        table = pa.ipc.open_stream(pa.decompress(data[_LENGTH_BYTES:], length, "lz4")).read_all()
        found = json.loads((table.schema.metadata or {}).get(_BURSTS, b"{}"))
        bursts = {
            group: {member: [(since, last) for since, last in some] for member, some in members.items()}
            for group, members in found.items()
        }
        return cls(table.replace_schema_metadata(None), bursts)

    def serialize(self) -> bytes:
        """The length of an Arrow stream, and the stream compressed as a whole."""
        schema = ROWS.with_metadata({_BURSTS: json.dumps(self.bursts).encode()} if self.bursts else {})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema) as out:
            out.write_table(self.rows.combine_chunks())
        stream = sink.getvalue()
        return stream.size.to_bytes(_LENGTH_BYTES, "big") + pa.compress(stream, "lz4", asbytes=True)

    def advance(self, families: Mapping[str, Family], events: pa.Table, watermark: int) -> list[tuple[str, Alert]]:
        """Process events and remove state that can no longer matter. Returns the alerts with the texts of their groups."""
        columns = sort_events(pa.concat_tables([self.rows, events]), families)
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
        fields = [picked.column(name).to_pylist() for name in ROWS.names[2:]]
        found: Groups = {}
        states: dict[int, WindowState] = {}
        for slot, *event in zip(columns.slot[rows].tolist(), *fields, strict=True):  # few: something is due in these groups
            if slot not in states:
                text, member = columns.names[slot]
                states[slot] = WindowState(bursts=list(self.bursts.get(text, {}).get(member, ())))
                _, group = found.setdefault(text, (families[split_name(text)[0]], Group()))
                group.states[columns.members[slot].id, part_of(text, member)] = states[slot]
            states[slot].events.append(Event(*event[:3], *map(unescape, event[3:])))
        return found


def _first(ends: Sequence[tuple[bool, int]]) -> int | None:
    """The earliest end of a window; without one, the time at which all state can be removed."""
    closing = [time for is_monotonic, time in ends if not is_monotonic]
    return min(closing) if closing else max((time for _, time in ends), default=None)


def _rows(groups: Groups) -> pa.Table:
    found = [
        (text, member, *event[:3], *map(escape, event[3:]))
        for text, (_, group) in groups.items()
        for member, state in _members(text, group)
        for event in state.events
    ]
    columns = list(zip(*found, strict=True)) or [()] * len(ROWS)
    return pa.table([pa.array(column, one.type) for column, one in zip(columns, ROWS, strict=True)], schema=ROWS)


def _bursts(text: str, group: Group) -> dict[str, list[tuple[int, int]]]:
    return {member: state.bursts for member, state in _members(text, group) if state.bursts}


def _members(text: str, group: Group) -> Iterator[tuple[str, WindowState]]:
    """States by the texts of their members."""
    head = split_name(text)[0]
    for (member, part), state in group.states.items():
        yield join_name([member] if member == head else [member, *part]), state
