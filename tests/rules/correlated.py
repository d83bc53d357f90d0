"""Runs correlations over micro-batches as their operator does, in this process; the state between two is that of the files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from group_by_group import Alert, Event

from etl.api import PANE
from etl.rules.correlation.encoding import join_columns, split_columns
from etl.rules.correlation.evaluation import Evaluated, evaluate
from etl.rules.correlation.families import Family
from etl.rules.correlation.member_table import MemberTable
from etl.rules.correlation.model import Correlation
from etl.rules.correlation.reader import SECOND
from etl.rules.correlation.slots import ROWS, without_replaced
from etl.rules.correlation.state_rows import StateUpdate
from etl.rules.correlation.windows import Windows

Row = tuple[str, Event]
"""An event, and the value of its group."""


@dataclass
class Memory:
    """The state of some groups, all of which run in each micro-batch."""

    rows: pa.Table = field(default_factory=ROWS.empty_table)
    """Those of the state files."""
    levels: list[Evaluated] = field(default_factory=list)
    """Of the last micro-batch."""

    @property
    def events(self) -> list[Event]:
        """In the order of their times."""
        return sorted(event for events in self.events_by_group().values() for event in events)

    def events_by_group(self) -> dict[str, list[Event]]:
        """By the value of their group, in the order of their times."""
        found: dict[str, list[Event]] = {}
        for level in self.levels:
            for row in level.slots.events(level.is_remaining).to_pylist():
                found.setdefault(value_of(row["group"]), []).append(Event(*(row[name] for name in Event._fields)))
        return found

    @property
    def bursts(self) -> list[tuple[int, int]]:
        """When the condition first and last held."""
        pairs = [zip(level.bursts.since.tolist(), level.bursts.last.tolist(), strict=True) for level in self.levels]
        return [burst for some in pairs for burst in some]

    def run(self, families: Mapping[str, Family], rows: pa.Table, watermark: int = 0) -> list[tuple[str, Alert]]:
        """The alerts of a micro-batch with these events, each with the value of its group."""
        table = MemberTable(families)
        self.levels = list(evaluate(pa.concat_tables([self.rows, rows]), table, watermark))
        added = [StateUpdate(level, watermark, 60 * SECOND).table() for level in self.levels]
        stored = pa.concat_tables([self.rows, *added])
        self.rows = without_replaced(stored.filter(pa.array(stored.column(PANE).to_numpy() > watermark)))
        return [found for level in self.levels for found in _alerts(level.alerts.filter(table.is_head[level.alerts.member]))]


def advance(one: Correlation, memory: Memory, events: Iterable[Event], watermark: int) -> list[Alert]:
    """The alerts of a micro-batch of a correlation without groups."""
    found = memory.run({one.id: Family((one,))}, event_rows(one, [("", event) for event in events], one), watermark)
    return [alert for _, alert in found]


def event_rows(head: Correlation, rows: Iterable[Row], member: Correlation) -> pa.Table:
    """Events of one member as they come from the reading tasks; its own group has the value of the whole one."""
    found = []
    for value, event in rows:
        names = {"head": head.id, "group": name_of(value) * len(head.group_by), "member": member.id}
        found.append({**names, "part": "" if member is head else name_of(value) * len(member.group_by), **event._asdict()})
    return pa.Table.from_pylist(found, ROWS)


def name_of(*values: str) -> str:
    """The name of a group of these values."""
    name: str = join_columns([pa.array([value], pa.string()) for value in values])[0].as_py()
    return name


def value_of(name: str) -> str:
    """The value of a group of one; nothing of one without."""
    return str(split_columns(pa.array([name]), 1)[0][0].as_py()) if name else ""


def _alerts(windows: Windows) -> list[tuple[str, Alert]]:
    lists: dict[str, Any] = {
        "start_micros": windows.column("micros"),
        "last_micros": windows.column("micros", first=False),
        "count": pa.array(windows.counts()),
        "measure": pa.array(windows.measures),
        "rules": windows.distinct("rule"),
        "values": windows.distinct("value"),
        "samples": windows.distinct("sample"),
    }
    rows = pa.table({"group": windows.column("group"), **lists}).to_pylist()
    return [
        (
            value_of(row.pop("group")),
            Alert(**{name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}),
        )
        for row in rows
    ]
