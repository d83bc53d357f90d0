"""Merging state files into larger ones: a step's state is few files, however many micro-batches have written some.

Files are merged by size tiers, as in Cassandra and RocksDB (universal compaction): a tier has files of similar size, and when it
has `FILES_IN_TIER` they become one file of the next tier. So there are fewer than that many files in each of log(rows) tiers, and
a row is written once in each tier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from etl.api import PANE
from etl.state.manifest import StateFileEntry
from etl.state.state_file_writer import StateFileWriter, sorted_rows
from etl.state.state_files import StateFile

FILES_IN_TIER = 8
"""Files of a tier that are merged: each look-up reads up to seven files of each tier."""

_PROMPT_ROWS = 1 << 18
"""Rows whose merge takes a quarter of a second at most."""

_PROMPT_FACTOR = 16
"""Rows that are merged for each that arrives, at most, in larger merges."""

_SMALLEST = 4096
"""Rows of the largest file of the lowest tier: smaller files cost as much to open and to search."""


def files_to_merge(files: Sequence[StateFileEntry], arrived: int = 1 << 62) -> tuple[StateFileEntry, ...]:
    """The files that are to be merged into one now: those of the lowest tier that is full. None if no tier is.

    ``arrived`` are the rows of the micro-batch. A merge that would take much longer than a small micro-batch waits for a larger
    one, or until its tier has twice as many files.
    """
    tiers: dict[int, list[StateFileEntry]] = {}
    for file in files:
        tiers.setdefault(_tier(file.rows), []).append(file)
    full = [tier for tier, own in tiers.items() if len(own) >= FILES_IN_TIER * (1 if _is_prompt(own, arrived) else 2)]
    return tuple(tiers[min(full)]) if full else ()


def _is_prompt(files: Sequence[StateFileEntry], arrived: int) -> bool:
    """Whether merging these does not keep the results of a micro-batch waiting."""
    return sum(file.rows for file in files) <= max(_PROMPT_ROWS, _PROMPT_FACTOR * arrived)


def _tier(rows: int) -> int:
    tier = 0
    while rows > _SMALLEST * FILES_IN_TIER**tier:
        tier += 1
    return tier


def merge_files(
    files: Sequence[StateFile],
    path: Path,
    combine: Callable[[pa.Table], pa.Table],
    is_over: Callable[[int], bool],
    durable: bool = True,
    name: str | None = None,
) -> StateFileEntry | None:
    """Merge files into one, without the panes that are over; None if nothing is left. Holds the rows of one part in memory.

    ``combine`` makes fewer rows of those of a part, of any panes, that are worth the same; ``name`` as in `StateFileWriter`.
    """
    parts = sorted({part for file in files for part in file.parts})
    merged = ((part, rows) for part in parts if len(kept := rows_of_part(files, part, is_over)) and len(rows := combine(kept)))
    first = next(merged, None)
    if first is None:
        return None
    with StateFileWriter(path, first[1].schema, durable, name) as writer:
        for part, rows in (first, *merged):
            ordered = sorted_rows(rows.select(first[1].column_names).cast(first[1].schema))
            writer.add(part, ordered, ordered.column(PANE).to_numpy())
    return writer.entry


def rows_of_part(files: Sequence[StateFile], part: int, is_over: Callable[[int], bool]) -> pa.Table:
    """The rows of a part, without panes that are over; every file gives its columns, so that those of all parts are the same."""

    def tables() -> Iterator[pa.Table]:
        for file in files:
            yield file.schema.empty_table()
            yield from (pa.Table.from_batches([run.rows]) for run in file.runs(part) if not is_over(run.pane))

    return pa.concat_tables(tables(), promote_options="default")
