"""Real systems of loghub through the recipes: every row is read, and its columns equal the published table.

A recipe is not a copy of the table: its events have a time where the table has its parts, and so on. A row of `ROWS` says how
an event is written as the table writes it. The table has contents without the blanks at their ends.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from filebeat_case import Row, events_of

Event = Mapping[str, Any]


@dataclass(frozen=True)
class System:
    """A system's recipe, and how each column of the table is written from an event."""

    recipe: str
    columns: Mapping[str, Callable[[Event], str]]
    env: Mapping[str, str] = field(default_factory=dict)
    exceptions: Mapping[int, str] = field(default_factory=dict)
    """Rows that differ on purpose, by LineId, and why; they are read all the same."""


def name(field: str) -> Callable[[Event], str]:
    """A field as text; null is empty."""
    return lambda event: str(event.get(field, "")).strip()


def time(form: str) -> Callable[[Event], str]:
    """The event's time; its own year may be another one than the table's."""
    return lambda event: datetime.fromisoformat(event["timestamp"]).strftime(form)


def millis(separator: str) -> Callable[[Event], str]:
    """The time of day with three digits of a second."""
    return lambda event: time("%H:%M:%S")(event) + separator + time("%f")(event)[:3]


def with_mark(mark: str, field: str) -> Callable[[Event], str]:
    """The message as it was written, with the mark before it that has become a field."""
    return lambda event: (f"[{mark} {event[field]}] " if field in event else "") + name("message")(event)


def zookeeper(part: int) -> Callable[[Event], str]:
    """Thread, class and line, which the table cuts at the first colon and at the at sign."""

    def write(event: Event) -> str:
        place = f"{name('process.thread.name')(event)}:{event['log.logger']}"
        return (*place.split(":", 1), str(event["log.origin.file.line"]))[part]

    return write


LOG = {"Level": name("log.level"), "Component": name("log.logger"), "Content": name("message")}

SYSLOG = {"Time": time("%H:%M:%S"), "Content": name("message")}

ROWS: Mapping[str, System] = {
    "Apache": System(
        "apache-error",
        {
            "Time": time("%a %b %d %H:%M:%S %Y"),
            "Level": name("log.level"),
            "Content": with_mark("client", "source.address"),
        },
    ),
    "HDFS": System("hadoop-hdfs", {**LOG, "Date": time("%y%m%d"), "Time": time("%H%M%S"), "Pid": name("process.pid")}),
    "Hadoop": System(
        "hadoop-hdfs", {**LOG, "Date": time("%Y-%m-%d"), "Time": millis(","), "Process": name("process.thread.name")}
    ),
    "OpenStack": System(
        "openstack",
        {
            **LOG,
            "Content": with_mark("instance:", "openstack.instance.id"),
            "Logrecord": name("log.file.name"),
            "Date": time("%Y-%m-%d"),
            "Time": millis("."),
            "Pid": name("process.pid"),
            "ADDR": name("openstack.context"),
        },
    ),
    "Zookeeper": System(
        "zookeeper",
        {
            **LOG,
            "Date": time("%Y-%m-%d"),
            "Time": millis(","),
            "Node": zookeeper(0),
            "Component": zookeeper(1),
            "Id": zookeeper(2),
        },
    ),
    "Linux": System(
        "linux-syslog",
        {
            **SYSLOG,
            "Month": time("%b"),
            "Date": lambda event: time("%d")(event).lstrip("0"),
            "Level": name("host.hostname"),
            "Component": name("process.name"),
            "PID": name("process.pid"),
        },
    ),
    "OpenSSH": System(
        "sshd",
        {
            **SYSLOG,
            "Date": time("%b"),
            "Day": lambda event: time("%d")(event).lstrip("0"),
            "Component": name("host.hostname"),
            "Pid": name("process.pid"),
        },
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("system", ROWS)
def test_every_row_is_read_and_equals_the_table(acceptance: Path, system: str) -> None:
    folder, row = acceptance / "loghub" / system, ROWS[system]
    with (folder / f"{system}_2k.log_structured.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))

    events = [event for _, event in sorted(events_of(Row("", row.recipe, env=row.env), folder / f"{system}_2k.log"))]

    assert len(table) == len(events) == 2000
    wrong = {
        int(truth["LineId"]): (column, truth[column], write(event))
        for truth, event in zip(table, events, strict=True)
        for column, write in row.columns.items()
        if truth[column] != write(event)
    }
    unlisted = {line: what for line, what in wrong.items() if line not in row.exceptions}
    assert dict(list(unlisted.items())[:5]) == {}, f"{len(unlisted)} rows differ"
    assert {*row.exceptions} <= {*wrong}, "rows listed as exceptions are equal now"
