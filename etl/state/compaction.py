"""Merging state files into larger ones: a step's state is few files, however many micro-batches have written some.

Files are merged by size tiers, as in Cassandra and RocksDB (universal compaction): a tier has files of similar size, and when it
has `FILES_IN_TIER` they become one file of the next tier. So there are fewer than that many files in each of log(rows) tiers, and
a row is written once in each tier. A part that is large is merged by ranges of keys, each of which goes to a file of its own: so
a merge needs the memory of one range, and gives several files, which count as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from etl.api import PANE
from etl.state.key_hash import HASH
from etl.state.manifest import StateFileEntry
from etl.state.part_rows import HashesOf, KeyRange
from etl.state.state_file_writer import StateFileWriter, sorted_rows, write_state_file
from etl.state.state_files import StateFile

FILES_IN_TIER = 8
"""Files of a tier that are merged: each look-up reads up to seven files of each tier."""

_PROMPT_ROWS = 1 << 18
"""Rows whose merge takes a quarter of a second at most."""

_PROMPT_FACTOR = 16
"""Rows that are merged for each that arrives, at most, in larger merges."""

MERGED_BYTES = 16 << 20
"""Bytes of a part's rows that are merged together: combining and sorting takes up to ten times as much. A file has 256 MiB at
most unless its keys are many in one part."""

_FEW_PANES = 64
"""Maximum number of panes of a file's part in each of which a range of keys is found by itself."""

LARGEST_BYTES = 1 << 30
"""Bytes of rows that are one record batch at most: Arrow's texts have 31 bits for them."""

_WHOLE_ROWS, _WHOLE_BYTES = 1 << 16, 8 << 20
"""Maximum number of rows and bytes of files whose parts are merged at once: a part by itself takes two milliseconds."""

_RANGE = "."
"""Between the name of a merge and the number of a further file of it."""

_SMALLEST = 4096
"""Rows of the largest file of the lowest tier: smaller files cost as much to open and to search."""


def files_to_merge(files: Sequence[StateFileEntry], arrived: int = 1 << 62) -> tuple[StateFileEntry, ...]:
    """The files that are to be merged into one now: those of the lowest tier that is full. None if no tier is.

    ``arrived`` are the rows of the micro-batch. A merge that would take much longer than a small micro-batch waits for a larger
    one, or until its tier has twice as many files.
    """
    merges: dict[str, list[StateFileEntry]] = {}
    for file in files:
        merges.setdefault(_merge_of(file.name), []).append(file)
    tiers: dict[int, list[list[StateFileEntry]]] = {}
    for own in merges.values():
        tiers.setdefault(_tier(sum(file.rows for file in own)), []).append(own)
    full = [tier for tier, own in tiers.items() if len(own) >= FILES_IN_TIER * (1 if _is_prompt(chain(*own), arrived) else 2)]
    return tuple(chain(*tiers[min(full)])) if full else ()


def _merge_of(name: str) -> str:
    """The name of the first of the files of a merge."""
    return name.partition(_RANGE)[0]


def _is_prompt(files: Iterable[StateFileEntry], arrived: int) -> bool:
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
    found = _write_parts(_merged_parts(files, combine, is_over, None), lambda number: path, durable, name)
    return found[0] if found else None


def merge_by_ranges(
    files: Sequence[StateFile],
    path: Path,
    combine: Callable[[pa.Table], pa.Table],
    is_over: Callable[[int], bool],
    hashes_of: HashesOf,
    durable: bool = True,
    parts_of: Callable[[pa.Table], Any] | None = None,
) -> tuple[StateFileEntry, ...]:
    """The same with several files, each with a range of the keys of large parts. Holds the rows of one range in memory. Those of
    a key that are more than that are not combined. With ``parts_of`` (int64[rows]) small files are merged at once."""
    if parts_of is not None and sum(file.rows for file in files) <= _WHOLE_ROWS and _bytes(files) <= _WHOLE_BYTES:
        return _merge_at_once(files, path, combine, is_over, durable, parts_of)
    merged = _merged_parts(files, combine, is_over, hashes_of)
    return tuple(_write_parts(merged, lambda number: path.with_name(f"{path.name}{_RANGE}{number}") if number else path, durable))


def _bytes(files: Sequence[StateFile]) -> int:
    """Bytes of the rows of all parts."""
    return sum(file.bytes_of(part) for file in files for part in file.parts)


def _merge_at_once(
    files: Sequence[StateFile],
    path: Path,
    combine: Callable[[pa.Table], pa.Table],
    is_over: Callable[[int], bool],
    durable: bool,
    parts_of: Callable[[pa.Table], Any],
) -> tuple[StateFileEntry, ...]:
    """Merge all parts of files at once."""
    tables = [table for file in files for part in file.parts for table in _live_rows(file, part, is_over, None)]
    if not tables:
        return ()
    rows = combine(pa.concat_tables(tables, promote_options="default"))
    entry = write_state_file(path, rows, parts_of(rows), rows.column(PANE).to_numpy(), durable)
    return (entry,) if entry is not None else ()


def _write_parts(
    merged: Iterable[tuple[int, int, pa.Table]], path_of: Callable[[int], Path], durable: bool, name: str | None = None
) -> list[StateFileEntry]:
    """Write the rows of parts, each to the file with this number."""
    writers: list[StateFileWriter] = []
    with ExitStack() as opened:
        for part, number, rows in merged:
            if number == len(writers):
                schema = writers[0].schema if writers else rows.schema
                writers.append(opened.enter_context(StateFileWriter(path_of(number), schema, durable, name)))
            ordered = sorted_rows(rows.select(writers[0].schema.names).cast(writers[0].schema))
            writers[number].add(part, ordered, ordered.column(PANE).to_numpy())
    return [writer.entry for writer in writers]


def _merged_parts(
    files: Sequence[StateFile],
    combine: Callable[[pa.Table], pa.Table],
    is_over: Callable[[int], bool],
    hashes_of: HashesOf | None,
) -> Iterator[tuple[int, int, pa.Table]]:
    """A part, the number of a file for them, and rows: files get parts in order."""
    for part in sorted({part for file in files for part in file.parts}):
        ranges = 1 if hashes_of is None else max(1, -(-sum(file.bytes_of(part) for file in files) // MERGED_BYTES))
        number = 0
        for at in range(ranges):
            own = rows_of_part(files, part, is_over, KeyRange(at, ranges, hashes_of) if hashes_of and ranges > 1 else None)
            if not len(own):
                continue
            pieces = [combine(own)] if hashes_of is None or own.nbytes <= LARGEST_BYTES else _cut(own)
            del own
            for rows in filter(len, pieces):
                yield part, number, rows
                number += 1
        for file in files:
            file.release(part)


def _cut(rows: pa.Table) -> Iterator[pa.Table]:
    """The rows of a key that has very many, in pieces that a record batch can hold."""
    count = -(-rows.nbytes // LARGEST_BYTES)
    size = -(-len(rows) // count)
    return (rows.slice(first, size) for first in range(0, len(rows), size))


def rows_of_part(files: Sequence[StateFile], part: int, is_over: Callable[[int], bool], keys: KeyRange | None = None) -> pa.Table:
    """The rows of a part, without panes that are over, or those of some keys, for which one file after the other is in memory.
    Every file gives its columns, so that those of all parts are the same."""

    def tables() -> Iterator[pa.Table]:
        for file in files:
            yield file.no_rows
            yield from _live_rows(file, part, is_over, keys)
            if keys is not None:
                file.release(part)

    return pa.concat_tables(tables(), promote_options="default")


def _live_rows(file: StateFile, part: int, is_over: Callable[[int], bool], keys: KeyRange | None) -> Iterator[pa.Table]:
    """The rows of a part of a file, or those of some keys, without panes that are over."""
    panes = file.panes(part).tolist()
    is_sorted = keys is not None and HASH in file.schema.names and len(panes) <= _FEW_PANES
    if is_sorted or any(map(is_over, panes)):
        found = [pa.Table.from_batches([run.rows]) for run in file.runs(part) if not is_over(run.pane)]
    else:
        found = [pa.Table.from_batches([file.part(part)])] if panes else []
    if keys is None:
        yield from found
    else:
        yield from map(keys.rows_of_sorted if is_sorted else keys.rows, found)
