"""Reads Spark's offset log of a query that has a clock: the offsets of its sources and of the clock in each micro-batch.

A file of ``checkpoint/offsets`` has a line for each source of the DataFrame. Our source of splits writes a line with the offsets
of
several sources by name, Spark's own sources write one each, and the last line is that of the clock (`etl.spark.clock_planner`).
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
"""The key in the JSON offset of a clock."""

NO_OFFSET = "-"
"""The line of a source that has no offset yet."""


@dataclass(frozen=True)
class LoggedOffsets:
    """The offsets at the end of a micro-batch."""

    sources: dict[tuple[int, str], Any]
    """Line number and source → its offset; only compared with others."""
    clock: dict[str, Any]
    """The offset of the clock; empty if it has none yet."""


NOTHING_LOGGED = LoggedOffsets({}, {})
"""Before the first micro-batch."""


def read_offsets(state: StateFolder, query: str, number: int, spark_reads: Sequence[str]) -> LoggedOffsets | None:
    """The offsets of a micro-batch; None if they are not logged, or not any more. ``spark_reads``: the names of the sources that
    Spark reads, in the order of its plan. If a step reads its input twice, there are more lines than sources; then each line is
    taken as the offset of all these sources."""
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
    """Add a clock without an offset to the log of a query that ran without one; Spark refuses a log with fewer sources."""
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
