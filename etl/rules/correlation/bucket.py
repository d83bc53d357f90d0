"""What correlations remember of many groups: those in which something may be due are decided one by one, by
`correlation_groups`; all others only take their events and forget old ones, together.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from etl.rules.correlation.columns import ROWS, Columns, laid_out, part_of
from etl.rules.correlation.encoding import escaped, joined, parted, plain
from etl.rules.correlation.families import Family
from etl.rules.correlation.groups import Group
from etl.rules.correlation.screen import ends, kept, suspects
from etl.rules.correlation.windows import Alert, Event, Memory

Bursts = dict[str, dict[str, list[tuple[int, int]]]]
"""Group → member → its bursts, as `Memory` has them."""

Groups = dict[str, tuple[Family, Group]]
"""By their texts."""

_BURSTS = b"bursts"
_LENGTH_BYTES = 8


@dataclass
class Bucket:
    """The memory of many groups."""

    rows: pa.Table = field(default_factory=ROWS.empty_table)
    bursts: Bursts = field(default_factory=dict)
    due: int | None = None
    """The watermark at which to look again; None when nothing is remembered."""

    @classmethod
    def read(cls, data: bytes) -> Bucket:
        """The memory that `written` gave."""
        length = int.from_bytes(data[:_LENGTH_BYTES], "big")
        table = pa.ipc.open_stream(pa.decompress(data[_LENGTH_BYTES:], length, "lz4")).read_all()
        found = json.loads((table.schema.metadata or {}).get(_BURSTS, b"{}"))
        bursts = {
            group: {member: [(since, last) for since, last in some] for member, some in members.items()}
            for group, members in found.items()
        }
        return cls(table.replace_schema_metadata(None), bursts)

    def written(self) -> bytes:
        """An Arrow stream, packed as a whole, behind its length."""
        schema = ROWS.with_metadata({_BURSTS: json.dumps(self.bursts).encode()} if self.bursts else {})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema) as out:
            out.write_table(self.rows.combine_chunks())
        stream = sink.getvalue()
        return stream.size.to_bytes(_LENGTH_BYTES, "big") + pa.compress(stream, "lz4", asbytes=True)

    def advance(self, families: Mapping[str, Family], events: pa.Table, watermark: int) -> list[tuple[str, Alert]]:
        """Alerts that further events give, with the texts of their groups; forgets what cannot matter any more."""
        columns = laid_out(pa.concat_tables([self.rows, events]), families)
        if not columns.members:
            self.rows, self.bursts, self.due = ROWS.empty_table(), {}, None
            return []
        apart = self._apart(columns, watermark)[columns.place]
        groups = self._groups(columns, apart, families)
        rest = ~apart & kept(columns, watermark)
        alerts = [(text, alert) for text, (family, group) in groups.items() for alert in group.advance(family, watermark)]
        self.rows = pa.concat_tables([columns.rows(rest), _rows(groups)])
        self.bursts = {text: bursts for text, (_, group) in groups.items() if (bursts := _bursts(text, group))}
        self.due = _first([*ends(columns, rest), *(end for family, group in groups.values() for end in group.ends(family))])
        return alerts

    def _apart(self, columns: Columns, watermark: int) -> Any:
        """Places of the groups that are decided one by one, bool[places]."""
        bursting = np.array([group in self.bursts for group, _ in columns.names], bool)
        return np.isin(columns.group, columns.group[suspects(columns, watermark) | bursting])

    def _groups(self, columns: Columns, rows: Any, families: Mapping[str, Family]) -> Groups:
        """Some rows as groups with memories."""
        picked = columns.rows(rows)
        fields = [picked.column(name).to_pylist() for name in ROWS.names[2:]]
        found: Groups = {}
        memories: dict[int, Memory] = {}
        for place, *event in zip(columns.place[rows].tolist(), *fields, strict=True):  # few: something is due in these groups
            if place not in memories:
                text, member = columns.names[place]
                memories[place] = Memory(bursts=list(self.bursts.get(text, {}).get(member, ())))
                _, group = found.setdefault(text, (families[parted(text)[0]], Group()))
                group.memories[columns.members[place].id, part_of(text, member)] = memories[place]
            memories[place].events.append(Event(*event[:3], *map(plain, event[3:])))
        return found


def _first(ends: Sequence[tuple[bool, int]]) -> int | None:
    """The end of a window; without one the time when all may be forgotten at once."""
    closing = [time for rising, time in ends if not rising]
    return min(closing) if closing else max((time for _, time in ends), default=None)


def _rows(groups: Groups) -> pa.Table:
    found = [
        (text, member, *event[:3], *map(escaped, event[3:]))
        for text, (_, group) in groups.items()
        for member, memory in _members(text, group)
        for event in memory.events
    ]
    columns = list(zip(*found, strict=True)) or [()] * len(ROWS)
    return pa.table([pa.array(column, one.type) for column, one in zip(columns, ROWS, strict=True)], schema=ROWS)


def _bursts(text: str, group: Group) -> dict[str, list[tuple[int, int]]]:
    return {member: memory.bursts for member, memory in _members(text, group) if memory.bursts}


def _members(text: str, group: Group) -> Iterator[tuple[str, Memory]]:
    """Memories by the texts of their members."""
    head = parted(text)[0]
    for (member, part), memory in group.memories.items():
        yield joined([member] if member == head else [member, *part]), memory
