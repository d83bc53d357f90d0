"""What Spark has logged of a query that has a clock: the offsets of its sources and of the clock, in each micro-batch.

A file of ``checkpoint/offsets`` has a line for each read: those of splits hold the offsets of several sources by name, others are
what Spark's own sources write, and the last line is that of the clock (`etl.spark.clock_planner`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etl.api import replace_file
from etl.spark.state.checkpoint import OFFSETS_HEAD, last_number, write_checksum
from etl.spark.state.folder import StateFolder

CLOCK = "query_clock"
"""The only name in the offset of a clock."""

NO_OFFSET = "-"
"""The line of a source that has no offset yet."""


@dataclass(frozen=True)
class LoggedOffsets:
    """The offsets at the end of a micro-batch."""

    sources: dict[tuple[int, str], Any]
    """Number of a line and name of a source in it → its offset, in any form in which equal ones are equal."""
    clock: dict[str, Any]
    """That of the clock; empty if it has none yet."""


NOTHING_LOGGED = LoggedOffsets({}, {})
"""Before the first micro-batch."""


def read_offsets(state: StateFolder, query: str, number: int, spark_reads: Sequence[str]) -> LoggedOffsets | None:
    """The offsets of a micro-batch; None if they are not logged, or no longer. ``spark_reads``: the names of the sources that
    Spark reads, in the order of its plan. A step that reads its input twice makes more lines: then each stands for all."""
    try:
        lines = (_folder(state, query) / str(number)).read_text("utf-8").splitlines()[OFFSETS_HEAD:]
    except FileNotFoundError:
        return None
    *lines, clock = lines or [NO_OFFSET]
    offsets = [None if line == NO_OFFSET else line for line in lines]
    own = {at: parsed for at, line in enumerate(lines) if (parsed := _parse(line)).keys() >= {"sources", "parallelism"}}
    found = {at: parsed["sources"] for at, parsed in own.items()}
    rest = [at for at in range(len(lines)) if at not in found]
    names = [(name,) for name in spark_reads] if len(rest) == len(spark_reads) else [tuple(spark_reads)] * len(rest)
    sources = {(at, name): offset for at, known in found.items() for name, offset in known.items()}
    sources |= {(at, name): offsets[at] for at, group in zip(rest, names, strict=True) for name in group}
    return LoggedOffsets(sources, _parse(clock).get(CLOCK, {}))


def moved_sources(before: LoggedOffsets, after: LoggedOffsets) -> frozenset[str]:
    """The sources whose offset has changed."""
    return frozenset(name for (at, name), offset in after.sources.items() if offset != before.sources.get((at, name)))


def last_logged(state: StateFolder, query: str) -> int:
    """The number of the last micro-batch whose offsets are logged; -1 if there is none."""
    last = last_number(_folder(state, query))
    return -1 if last is None else last


def add_clock(state: StateFolder, query: str) -> None:
    """Add a clock that has no offset yet to the offsets of a query that had none, which Spark would refuse otherwise."""
    last = last_logged(state, query)
    for number in (last - 1, last):  # Spark reads both for a micro-batch that was interrupted
        file = _folder(state, query) / str(number)
        if not file.exists():
            continue
        text = file.read_text("utf-8")
        *_, clock = text.splitlines()
        if clock != NO_OFFSET and CLOCK not in _parse(clock):
            replace_file(file, f"{text}\n{NO_OFFSET}".encode())
            write_checksum(state, query, number)


def _folder(state: StateFolder, query: str) -> Path:
    return state.checkpoint(query) / "offsets"


def _parse(line: str) -> dict[str, Any]:
    """A line as a JSON object; empty for other lines."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
