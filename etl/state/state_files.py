"""State files: rows of a step's state by part and pane, written once and then mapped.

A state file is an Arrow IPC stream with a record batch for each part, or one for all parts of a small file, followed by an
index and a tail, which readers of Arrow do not read. The rows of a part are sorted by pane, and within a pane by their hash if
they have one: the *run* of a part and pane is a slice of the record batch. So ten thousand panes cost 16 bytes each, and no
message of their own.

| | |
|---|---|
| schema, record batches, end of stream | messages of Arrow, uncompressed, at multiples of 8 bytes |
| index | int64: of each part its number, bytes, CRC-32 and number of runs, with 0 bytes where its rows are in the record batch \
of the part before it; of each run its pane and its rows |
| tail | sizes of schema and index, CRC-32 of the schema and of the file's name, index and tail, `MAGIC` |

A file is written under a temporary name and renamed. Schema, index and tail are checked when a file is opened, a record batch
when it is first read: a file that was cut or changed anywhere is refused, and so is one that has the name of another.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from etl.api import ComponentError
from etl.state.key_hash import HASH
from etl.state.process_memory import mapped_bytes, release_pages
from etl.state.state_file_index import SMALL_FILE, BatchEntry, StateFileIndex, read_index

EARLIEST, LATEST = -(1 << 62), 1 << 62
"""Before the first pane and after the last one, microseconds since the epoch."""


_REMEDY = "restore the state folder from a copy, or begin with a new one"


_FEW_ROWS = 1 << 13
"""Maximum number of rows of a file whose rows are put in the order of panes over all parts."""


_LARGE_PART = 1 << 20
"""Bytes of a part from which on its memory is given back once it is checked: a look-up reads few of its pages."""


_CHECKED_TOGETHER = 16 << 20
"""Bytes of a part that are in memory while its checksum is computed."""


MAPPED_BYTES = 256 << 20
"""Maximum bytes of files, with libraries, that a process has in memory after a look-up in a large part. The system maps 64 KiB
around each byte that is read: without a bound, look-ups in fifty million keys map gigabytes."""


_MEASURED_TOGETHER = 32 << 20
"""Bytes of the parts in which rows have been looked up since the memory was measured, from which on it is measured again: that
takes 15 µs and more, and a small micro-batch looks up rows in many parts."""


class DamagedStateError(ComponentError):
    """A file is not a state file, or is not as it was written."""


class _ByPane(NamedTuple):
    """Rows in the order of panes."""

    rows: pa.RecordBatch
    panes: Any
    """int64[n]"""


class _Runs(NamedTuple):
    """The runs of a part."""

    panes: Any
    """int64[n], in order"""
    bounds: Any
    """int64[n + 1]: where each begins, and where the last one ends; empty without any."""
    first: int
    """The first pane."""
    last: int


_NO_BOUNDS = np.empty(0, np.int64)


class Run(NamedTuple):
    """Rows of one part and pane in one file."""

    pane: int
    rows: pa.RecordBatch


def open_state_file(path: Path) -> StateFile:
    """A state file, mapped and checked once in this process. Removed ones are unmapped. Raises DamagedStateError."""
    try:
        found = path.stat()
    except OSError:
        return StateFile(path)  # raises
    version = (found.st_ino, found.st_mtime_ns, found.st_size)
    known = _opened.get(path.parent, {}).get(path.name)
    if known is not None and known[0] == version:
        return known[1]
    files = _unmap_removed(path.parent)
    file = StateFile(path)
    files[path.name] = (version, file)
    return file


def _unmap_removed(folder: Path) -> _OpenedFiles:
    """Unmap the removed files of a folder; returns the others. Those of removed folders are unmapped when the number of folders
    has doubled, so that a process that opens files in many folders does not look at each of them every time."""
    if folder not in _opened:
        if len(_opened).bit_count() == 1:
            for other in [other for other in _opened if not other.exists()]:
                del _opened[other]
        _opened[folder] = {}
    files = _opened[folder]
    for name in files.keys() - set(os.listdir(folder)):
        del files[name]
    return files


class StateFile:
    """A mapped state file. Raises DamagedStateError, also when a record batch is first read.

    The memory is the page cache, which all processes share; what was read of it can be evicted.
    """

    def __init__(self, path: Path, name: str | None = None) -> None:
        """``name``: the one that it was written under, if it may have another now."""
        self.path = path
        self._name = path.name if name is None else name
        self._whole = self._map_file()
        self._index = self._read_index()
        self.schema: pa.Schema = pa.ipc.read_schema(self._whole.slice(0, self._index.schema_size))
        self._read: dict[int, pa.RecordBatch] = {}
        self._runs: dict[int, _Runs] = {}

    @cached_property
    def rows(self) -> int:
        """Rows of all parts."""
        return int(self._index.counts.sum())

    def check(self, rows: int, size: int, checksum: int) -> None:
        """Raise DamagedStateError unless it has this number of rows and bytes, and this checksum of its tail."""
        if (self.rows, self._whole.size, self._index.checksum) != (rows, size, checksum):
            raise self._damage_error(f"is another file than that of the manifest, which has {rows} rows in {size} bytes")

    @property
    def parts(self) -> list[int]:
        """The parts that have rows, in order."""
        return list(self._index.batches)

    def panes(self, part: int) -> Any:
        """int64[n]: the panes in which a part has rows, in order."""
        return self._runs_of(part).panes

    def size_of_panes(self, choose: Callable[[Any], Any]) -> tuple[int, int]:
        """The rows of all parts in the panes (int64[n]) that are chosen (bool[n]), and about their bytes."""
        rows = int(self._index.counts[choose(self._index.panes)].sum())
        return rows, self._whole.size * rows // max(1, self.rows)

    def rows_of(self, part: int) -> int:
        """Rows of a part."""
        batch = self._index.batches.get(part)
        return int(self._index.counts[batch.first_run : batch.end_run].sum()) if batch else 0

    def bytes_of(self, part: int) -> int:
        """Bytes of the rows of a part."""
        batch = self._index.batches.get(part)
        if batch is None:
            return 0
        return batch.size * self.rows_of(part) // self.rows if self._is_one_batch else batch.size

    def release(self, part: int) -> None:
        """Give back the memory in which a part is mapped: what is read of it later comes from the page cache, or from disk."""
        if batch := self._index.batches.get(part):
            release_pages(self._whole.address + batch.begin, batch.size)

    def release_all(self) -> None:
        """The same for all parts."""
        release_pages(self._whole.address, self._whole.size)

    def tables(self, part: int, first: int = EARLIEST, end: int = LATEST) -> Iterator[pa.Table]:
        """The rows of a part with ``first <= pane < end``: a table for each pane, in order."""
        for run in self.runs(part, first, end):
            yield pa.Table.from_batches([run.rows])

    @cached_property
    def no_rows(self) -> pa.Table:
        """A table without rows; to make one takes longer than to find that a part has none."""
        return self.schema.empty_table()

    def slice(self, part: int, first: int = EARLIEST, end: int = LATEST) -> pa.Table:
        """The rows of a part with ``first <= pane < end``, in the order of panes."""
        bounds = self._bounds(part, first, end)
        if len(bounds) < 2:
            return self.no_rows
        return pa.Table.from_batches([self.part(part).slice(int(bounds[0]), int(bounds[-1] - bounds[0]))])

    def slices(self, parts: Collection[int], first: int = EARLIEST, end: int = LATEST) -> Iterator[pa.Table]:
        """The same of several parts, a table for each: or one for all parts of a small file, if all are requested."""
        if self.rows <= _FEW_ROWS and self._index.batches.keys() <= set(parts):
            by_pane = self._by_pane
            low, high = np.searchsorted(by_pane.panes, np.array([first, end], np.int64)).tolist()
            yield pa.Table.from_batches([by_pane.rows.slice(low, max(0, high - low))])
        else:
            yield from (self.slice(part, first, end) for part in parts)

    def runs(self, part: int, first: int = EARLIEST, end: int = LATEST) -> Iterator[Run]:
        """The runs of a part with ``first <= pane < end``, in order."""
        panes, bounds = self.panes(part), self._bounds(part, first, end).tolist()
        low = int(np.searchsorted(panes, np.int64(first)))
        for at, (row, next_row) in enumerate(pairwise(bounds), low):
            yield Run(int(panes[at]), self.part(part).slice(row, next_row - row))

    def _bounds(self, part: int, first: int, end: int) -> Any:
        """int64[runs + 1]: where the runs of a part with ``first <= pane < end`` begin, and where the last one ends; empty
        without any."""
        runs = self._runs_of(part)
        if first <= runs.first and runs.last < end:
            return runs.bounds
        low, high = np.searchsorted(runs.panes, np.array([first, end], np.int64)).tolist()
        return runs.bounds[low : high + 1] if low < high else _NO_BOUNDS

    def _runs_of(self, part: int) -> _Runs:
        """The runs of a part, without their rows: a look-up needs them each time."""
        found = self._runs.get(part)
        if found is None:
            batch = self._index.batches.get(part)
            first, end = (batch.first_run, batch.end_run) if batch else (0, 0)
            panes = self._index.panes[first:end]
            bounds = np.append(0, np.cumsum(self._index.counts[first:end])) if len(panes) else _NO_BOUNDS
            found = _Runs(panes, bounds, int(panes[0]) if len(panes) else LATEST, int(panes[-1]) if len(panes) else EARLIEST)
            self._runs[part] = found
        return found

    def rows_of_keys(self, hashes: Mapping[int, Any], first: int = EARLIEST, end: int = LATEST) -> Iterator[pa.Table]:
        """The rows with ``first <= pane < end`` and one of these hashes, by part (uint64[n], sorted), in the order of panes, as
        one table. If the file has no hashes all rows of these panes, a table for each part."""
        if HASH not in self.schema.names:
            yield from filter(len, (self.slice(part, first, end) for part in hashes))
        elif self.rows <= SMALL_FILE:
            found = self._rows_of_small_file(np.sort(np.concatenate(list(hashes.values()))), first, end)
            if len(found):
                yield pa.Table.from_batches([self._by_pane.rows.take(pa.array(found))])
        elif by_part := list(filter(None, (self._rows_of_keys(part, own, first, end) for part, own in hashes.items()))):
            rows = pa.Table.from_batches([own.rows for own in by_part])
            panes = np.concatenate([own.panes for own in by_part])
            yield rows.take(pa.array(np.argsort(panes, kind="stable"))) if (panes[1:] < panes[:-1]).any() else rows

    def _rows_of_small_file(self, hashes: Any, first: int, end: int) -> Any:
        """int64[n]: the rows in the order of panes."""
        panes = self._by_pane.panes
        order, stored = self._by_hash
        rows = order[_find(hashes, stored, np.array([0, len(stored)]))]
        if first > panes[0] or end <= panes[-1]:
            low, high = np.searchsorted(panes, np.array([first, end], np.int64)).tolist()
            rows = rows[(rows >= low) & (rows < high)]
        return np.sort(rows)

    def _rows_of_keys(self, part: int, hashes: Any, first: int, end: int) -> _ByPane | None:
        bounds = self._bounds(part, first, end)
        if len(bounds) < 2:
            return None
        rows = self.part(part)
        found = _find(hashes, rows.column(HASH).to_numpy(), bounds)
        by_pane = _ByPane(rows.take(pa.array(found)), self._panes_of(part, found, bounds, first)) if len(found) else None
        if (size := self.bytes_of(part)) >= _LARGE_PART:
            limit_mapped_memory(size)
        return by_pane

    def _panes_of(self, part: int, rows: Any, bounds: Any, first: int) -> Any:
        """int64[n]: the panes of rows of a part in runs with these bounds, which begin at the first pane from ``first`` on."""
        panes = self.panes(part)
        at = int(np.searchsorted(panes, np.int64(first)))
        if len(bounds) == 2:
            return np.full(len(rows), panes[at])
        return panes[np.searchsorted(bounds, rows, "right") - 1 + at]

    @cached_property
    def _by_pane(self) -> _ByPane:
        rows = self._all_rows
        panes = np.repeat(self._index.panes, self._index.counts)
        if (panes[1:] < panes[:-1]).any():
            order = np.argsort(panes, kind="stable")
            rows, panes = rows.take(pa.array(order)), panes[order]
        return _ByPane(rows, panes)

    @property
    def _all_rows(self) -> pa.RecordBatch:
        """The rows of all parts of a small file."""
        if self._is_one_batch:
            self.part(self.parts[0])
            return next(iter(self._read.values()))
        return pa.concat_batches([self.part(part) for part in self.parts])

    @cached_property
    def _by_hash(self) -> tuple[Any, Any]:
        """int64[n] and uint64[n]: the rows in the order of panes sorted by their hashes, and these."""
        hashes = self._by_pane.rows.column(HASH).to_numpy()
        order = np.argsort(hashes, kind="stable")
        ordered = hashes[order]
        ordered.flags.writeable = False  # as those of record batches: kernels are compiled for one kind of array
        return order, ordered

    def part(self, part: int) -> pa.RecordBatch:
        """All rows of a part that has some: run by run, each sorted by their hash if they have one."""
        batch = self._index.batches[part]
        if batch.begin not in self._read:
            if self._checksum(batch) != batch.checksum:
                raise self._damage_error(f"the rows of part {part} are damaged")
            self._read[batch.begin] = pa.ipc.read_record_batch(self._whole.slice(batch.begin, batch.size), self.schema)
        whole = self._read[batch.begin]
        return whole.slice(batch.first_row, self.rows_of(part)) if self._is_one_batch else whole

    def _checksum(self, batch: BatchEntry) -> int:
        """Of the bytes of a record batch; the memory of a large one is given back."""
        found = 0
        for first in range(0, batch.size, _CHECKED_TOGETHER):
            piece = self._whole.slice(batch.begin + first, min(_CHECKED_TOGETHER, batch.size - first))
            found = zlib.crc32(piece, found)
            if batch.size >= _LARGE_PART:
                release_pages(piece.address, piece.size)
        return found

    @cached_property
    def _is_one_batch(self) -> bool:
        """Whether one record batch has the rows of all parts."""
        return len({batch.begin for batch in self._index.batches.values()}) == 1

    def _map_file(self) -> pa.Buffer:
        try:
            with pa.memory_map(str(self.path)) as file:
                return file.read_buffer()
        except FileNotFoundError as error:
            raise self._damage_error("is missing") from error
        except OSError as error:
            raise ComponentError(f"state file {self.path} cannot be read: {error}") from error

    def _read_index(self) -> StateFileIndex:
        try:
            return read_index(self._whole, self._name)
        except ValueError as error:
            raise self._damage_error(str(error)) from error

    def _damage_error(self, what: str) -> DamagedStateError:
        text = what if what.startswith("is") else f"is damaged: {what}"
        return DamagedStateError(f"state file {self.path} {text}; {_REMEDY}")


class _LookedUp:
    """Parts in which this process has looked up rows."""

    bytes_since_measuring = 0


def limit_mapped_memory(read: int = _MEASURED_TOGETHER) -> None:
    """Give back the memory of all state files of this process where files take more than `MAPPED_BYTES`, after ``read``
    further bytes of rows were looked up or read. Until the next measurement it may be `_MEASURED_TOGETHER` more."""
    _LookedUp.bytes_since_measuring += read
    if _LookedUp.bytes_since_measuring < _MEASURED_TOGETHER:
        return
    _LookedUp.bytes_since_measuring = 0
    if mapped_bytes() > MAPPED_BYTES:
        for files in list(_opened.values()):
            for _, file in list(files.values()):
                file.release_all()


def _find(hashes: Any, stored: Any, bounds: Any) -> Any:
    """int64[n]: the rows with one of some hashes, of runs from one bound to the next that are each sorted by ``stored``."""
    from etl.state.search_kernels import find_in_runs

    found = np.empty(2 * len(hashes), np.int64)
    count = find_in_runs(hashes, stored, bounds, found)
    if count > len(found):
        found = np.empty(count, np.int64)
        find_in_runs(hashes, stored, bounds, found)
    return found[:count]


_OpenedFiles = dict[str, tuple[tuple[int, int, int], StateFile]]
"""By name: inode, time of change and size of a file, and the file."""


_opened: dict[Path, _OpenedFiles] = {}
"""Files that this process has mapped, by folder: a worker reads the same files in each micro-batch."""
