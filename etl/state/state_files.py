"""State files: rows of a step's state by part and pane, written once and then mapped.

A state file is an Arrow IPC stream with a record batch for each part, followed by an index and a tail, which readers of Arrow
do not read. Within a record batch rows are sorted by pane, and within a pane by `HASH` if there is such a column: the *run* of
a part and pane is a slice of the record batch. So ten thousand panes cost 16 bytes each, and no message of their own.

| | |
|---|---|
| schema, record batches, end of stream | messages of Arrow, uncompressed, at multiples of 8 bytes |
| index | int64: of each record batch its part, bytes, CRC-32 and number of runs; of each run its pane and its rows |
| tail | sizes of schema and index, CRC-32 of the schema and of index and tail, `_MAGIC` |

A file is written under a temporary name and renamed. Schema, index and tail are checked when a file is opened, a record batch
when it is first read: a file that was cut or changed anywhere is refused.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from etl.api import ComponentError
from etl.state.key_hash import HASH

EARLIEST, LATEST = -(1 << 62), 1 << 62
"""Before the first pane and behind the last one, microseconds since the epoch."""

_MAGIC = b"SLSTATE1"
"""The last bytes; the digit is the version of the format, which includes that of the hashes of keys."""

_TAIL = struct.Struct("<qqqII8s")
"""Bytes of the schema; record batches; runs; CRC-32 of the schema; CRC-32 of the index and of the tail before it; magic."""

_END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
_REMEDY = "restore the state folder from a copy, or begin with a new one"


class DamagedStateError(ComponentError):
    """A file is not a state file, or is not as it was written."""


class StateFileStat(NamedTuple):
    """What a manifest holds of a state file."""

    rows: int
    bytes: int
    first_pane: int
    last_pane: int


class Run(NamedTuple):
    """Rows of one part and pane in one file."""

    pane: int
    rows: pa.RecordBatch


def write_state_file(path: Path, rows: pa.Table, parts: Any, panes: Any, durable: bool) -> StateFileStat | None:
    """Write rows of these parts and panes (int64[rows]) in any order; without rows nothing is written."""
    if not len(rows):
        return None
    order = _order(parts, panes, rows)
    parts, panes = parts[order], panes[order]
    ordered = _storable(rows).take(pa.array(order))
    with StateFileWriter(path, ordered.schema, durable) as writer:
        begins = np.append(np.flatnonzero(np.append(True, parts[1:] != parts[:-1])), len(parts))
        for begin, end in zip(begins[:-1].tolist(), begins[1:].tolist(), strict=True):
            writer.add(int(parts[begin]), ordered.slice(begin, end - begin), panes[begin:end])
    return writer.stat


class StateFileWriter:
    """Writes a state file part by part; the file appears when the context ends without an exception.

    ``durable`` waits until the disk has the file. Its name is on disk once the folder is synced, which writing the manifest
    does. Raises OSError, for example for a full disk, and leaves nothing behind.
    """

    stat: StateFileStat

    def __init__(self, path: Path, schema: pa.Schema, durable: bool) -> None:
        self._path, self._durable, self._schema = path, durable, schema
        self._temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
        self._batches: list[tuple[int, int, int, int]] = []
        self._panes: list[Any] = []
        self._counts: list[Any] = []

    def __enter__(self) -> StateFileWriter:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._temporary.open("wb")
        head = self._schema.serialize()
        self._head = (head.size, zlib.crc32(head))
        self._file.write(head)
        return self

    def add(self, part: int, rows: pa.Table, panes: Any) -> None:
        """Add the rows of a part, sorted by pane and `HASH`; ``panes`` (int64[rows]) are theirs. Parts come in order."""
        assert not self._batches or self._batches[-1][0] < part
        message = _one_batch(rows).serialize()
        begins = np.flatnonzero(np.append(True, panes[1:] != panes[:-1]))
        self._panes.append(panes[begins])
        self._counts.append(np.diff(np.append(begins, len(panes))))
        self._batches.append((part, message.size, zlib.crc32(message), len(begins)))
        self._file.write(message)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._finish()
            self._file.close()
            if kind is None:
                self._temporary.rename(self._path)
        except OSError:
            kind = OSError
            raise
        finally:
            if kind is not None:
                self._file.close()
                self._temporary.unlink(missing_ok=True)

    def _finish(self) -> None:
        """Write what follows the record batches."""
        batches = np.array(self._batches, np.int64).reshape(-1, 4)
        panes, counts = (np.concatenate([np.empty(0, np.int64), *arrays]) for arrays in (self._panes, self._counts))
        index = b"".join(array.astype("<i8").tobytes() for array in (batches, panes, counts))
        size, head_sum = self._head
        tail = _TAIL.pack(size, len(batches), len(panes), head_sum, 0, _MAGIC)
        checksum = zlib.crc32(tail, zlib.crc32(index))
        self._file.write(_END_OF_STREAM + index + _TAIL.pack(size, len(batches), len(panes), head_sum, checksum, _MAGIC))
        self._file.flush()
        if self._durable:
            os.fsync(self._file.fileno())
        bounds = (int(panes.min()), int(panes.max())) if len(panes) else (0, 0)
        self.stat = StateFileStat(int(counts.sum()), self._file.tell(), *bounds)


class StateFile:
    """A mapped state file. Raises DamagedStateError, also when a record batch is first read.

    The memory is the page cache, which all processes share; what was read of it can be evicted.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._whole = self._mapped()
        self._index = self._read_index()
        self.schema: pa.Schema = pa.ipc.read_schema(self._whole.slice(0, self._index.schema_size))
        self._read: dict[int, pa.RecordBatch] = {}

    @property
    def rows(self) -> int:
        """Rows of all parts."""
        return int(self._index.counts.sum())

    @property
    def bytes(self) -> int:
        """Size of the file."""
        return int(self._whole.size)

    @property
    def parts(self) -> list[int]:
        """The parts that have rows, in order."""
        return list(self._index.batches)

    def panes(self, part: int) -> Any:
        """int64[n]: the panes in which a part has rows, in order."""
        batch = self._index.batches.get(part)
        return self._index.panes[batch.first_run : batch.end_run] if batch else np.empty(0, np.int64)

    def tables(self, part: int, first: int = EARLIEST, end: int = LATEST) -> Iterator[pa.Table]:
        """The rows of a part with ``first <= pane < end``: a table for each pane, in order."""
        for run in self.runs(part, first, end):
            yield pa.Table.from_batches([run.rows])

    def runs(self, part: int, first: int = EARLIEST, end: int = LATEST) -> Iterator[Run]:
        """The runs of a part with ``first <= pane < end``, in order."""
        panes = self.panes(part)
        low, high = np.searchsorted(panes, np.array([first, end], np.int64)).tolist()
        if low == high:
            return
        begin = self._index.batches[part].first_run
        ends = np.cumsum(self._index.counts[begin : begin + len(panes)]).tolist()
        for at in range(low, high):
            row = ends[at - 1] if at else 0
            yield Run(int(panes[at]), self.part(part).slice(row, ends[at] - row))

    def part(self, part: int) -> pa.RecordBatch:
        """All rows of a part that has some: run by run, each sorted by `HASH` if there is that column."""
        if part not in self._read:
            batch = self._index.batches[part]
            message = self._whole.slice(batch.begin, batch.size)
            if zlib.crc32(message) != batch.checksum:
                raise self._damaged(f"the rows of part {part} are damaged")
            self._read[part] = pa.ipc.read_record_batch(message, self.schema)
        return self._read[part]

    def _mapped(self) -> pa.Buffer:
        try:
            with pa.memory_map(str(self.path)) as file:
                return file.read_buffer()
        except FileNotFoundError as error:
            raise self._damaged("is missing") from error

    def _read_index(self) -> _Index:
        whole = self._whole
        if whole.size < _TAIL.size:
            raise self._damaged("is incomplete")
        tail = whole.slice(whole.size - _TAIL.size).to_pybytes()
        schema_size, batches, runs, head_sum, checksum, magic = _TAIL.unpack(tail)
        if magic != _MAGIC:
            raise self._damaged("is incomplete, or no state file of this version")
        size = 8 * (4 * batches + 2 * runs)
        begin = whole.size - _TAIL.size - size
        if batches < 0 or runs < 0 or not 0 <= schema_size <= begin:
            raise self._damaged("is damaged at its end")
        data = whole.slice(begin, size)
        blank = _TAIL.pack(schema_size, batches, runs, head_sum, 0, magic)
        if zlib.crc32(blank, zlib.crc32(data)) != checksum:
            raise self._damaged("is damaged at its end")
        index = _Index.of(np.frombuffer(data, "<i8"), schema_size, batches, runs)
        end = schema_size + sum(batch.size for batch in index.batches.values())
        if end + len(_END_OF_STREAM) != begin or whole.slice(end, len(_END_OF_STREAM)).to_pybytes() != _END_OF_STREAM:
            raise self._damaged("is damaged in front of its index")
        if zlib.crc32(whole.slice(0, schema_size)) != head_sum:
            raise self._damaged("is damaged at its beginning")
        return index

    def _damaged(self, what: str) -> DamagedStateError:
        text = what if what.startswith("is") else f"is damaged: {what}"
        return DamagedStateError(f"state file {self.path} {text}; {_REMEDY}")


@dataclass(frozen=True)
class _Batch:
    """Where a record batch and its runs are."""

    begin: int
    size: int
    checksum: int
    first_run: int
    end_run: int


@dataclass(frozen=True)
class _Index:
    schema_size: int
    batches: dict[int, _Batch]
    """By part."""
    panes: Any
    """int64[runs]"""
    counts: Any
    """int64[runs]: rows."""

    @classmethod
    def of(cls, numbers: Any, schema_size: int, batches: int, runs: int) -> _Index:
        found, begin, run = {}, schema_size, 0
        for part, size, checksum, count in numbers[: 4 * batches].reshape(-1, 4).tolist():
            found[part] = _Batch(begin, size, checksum, run, run + count)
            begin, run = begin + size, run + count
        return cls(schema_size, found, numbers[4 * batches : 4 * batches + runs], numbers[4 * batches + runs :])


def find(rows: pa.RecordBatch, hashes: Any) -> tuple[Any, Any]:
    """For rows sorted by `HASH`: the first row with each of some hashes and the row behind the last (int64[n] each).

    ``hashes`` (uint64[n]) are sorted, so that neighbours are found in the same pages.
    """
    sorted_hashes = rows.column(HASH).to_numpy()
    return np.searchsorted(sorted_hashes, hashes, "left"), np.searchsorted(sorted_hashes, hashes, "right")


def _order(parts: Any, panes: Any, rows: pa.Table) -> Any:
    """int64[rows]: row numbers sorted by part, pane and hash."""
    distinct, codes = np.unique(panes, return_inverse=True)
    codes = parts * len(distinct) + codes
    if codes.max() <= np.iinfo(np.uint16).max:
        codes = codes.astype(np.uint16)  # numpy sorts 16 bits in linear time
    if HASH not in rows.column_names:
        return np.argsort(codes, kind="stable")
    by_hash = np.argsort(rows.column(HASH).to_numpy(), kind="stable")
    return by_hash[np.argsort(codes[by_hash], kind="stable")]


def _storable(rows: pa.Table) -> pa.Table:
    """The rows without dictionaries and views: their values are stored, so that each record batch is whole."""
    plain = [_plain_type(column.type) for column in rows.columns]
    columns = [column if column.type == type_ else column.cast(type_) for column, type_ in zip(rows.columns, plain, strict=True)]
    return pa.Table.from_arrays(columns, names=rows.column_names, metadata=rows.schema.metadata)


def _plain_type(type_: pa.DataType) -> pa.DataType:
    if pt.is_dictionary(type_):
        return _plain_type(type_.value_type)
    return {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(type_, type_)


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    """The rows as one record batch. Raises ComponentError if a column has more than 2 GiB of text."""
    batches = rows.combine_chunks().to_batches()
    if len(batches) != 1:
        raise ComponentError("one part of the state has more than 2 GiB of text in a field; leave out fields that are not needed")
    return batches[0]
