"""Writing state files: rows of any order at once, or part by part."""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from etl.api import PANE, ComponentError, write_advice
from etl.state.key_hash import HASH, sort_by_hash
from etl.state.manifest import StateFileEntry
from etl.state.state_file_index import END_OF_STREAM, MAGIC, SMALL_BYTES, SMALL_FILE, TAIL, name_checksum


def write_state_file(path: Path, rows: pa.Table, parts: Any, panes: Any, durable: bool) -> StateFileEntry | None:
    """Write rows of these parts and panes (int64[rows]) in any order; without rows nothing is written."""
    if not len(rows):
        return None
    order = _order(parts, panes, rows)
    parts, panes = parts[order], panes[order]
    ordered = _storable(rows).take(pa.array(order))
    with StateFileWriter(path, ordered.schema, durable) as writer:
        if len(ordered) <= SMALL_FILE and ordered.nbytes <= SMALL_BYTES:
            writer.add_parts(parts, ordered, panes)
        else:
            begins = np.append(np.flatnonzero(np.append(True, parts[1:] != parts[:-1])), len(parts))
            for begin, end in zip(begins[:-1].tolist(), begins[1:].tolist(), strict=True):
                writer.add(int(parts[begin]), ordered.slice(begin, end - begin), panes[begin:end])
    return writer.entry


class StateFileWriter:
    """Writes a state file part by part; the file appears when the context ends without an exception.

    ``durable`` waits until the disk has the file. Its name is on disk once the folder is synced, which writing the manifest
    does. Raises ComponentError, for example for a full disk, and leaves nothing behind.
    """

    entry: StateFileEntry
    """Once it is written."""

    def __init__(self, path: Path, schema: pa.Schema, durable: bool, name: str | None = None) -> None:
        """``name``: the one that it is checked for, if the file may get another."""
        self._path, self._durable, self.schema = path, durable, schema
        self._name = path.name if name is None else name
        attempt = f"{os.getpid()}-{os.urandom(4).hex()}"  # two attempts of a task may run at once, also on two hosts
        self._temporary = path.with_name(f"{path.name}.{attempt}.part")
        self._batches: list[tuple[int, int, int, int]] = []
        self._panes: list[Any] = []
        self._counts: list[Any] = []

    def __enter__(self) -> StateFileWriter:
        head = self.schema.serialize()
        self._head = (head.size, zlib.crc32(head))
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._temporary.open("wb")
        except OSError as error:
            raise self._write_error(error) from error
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

    def add_parts(self, parts: Any, rows: pa.Table, panes: Any) -> None:
        """Add the rows of all parts (int64[rows]) as one record batch, sorted by part, pane and `HASH`."""
        assert not self._batches
        message = _one_batch(rows).serialize()
        begins = np.flatnonzero(np.append(True, (parts[1:] != parts[:-1]) | (panes[1:] != panes[:-1])))
        self._panes.append(panes[begins])
        self._counts.append(np.diff(np.append(begins, len(panes))))
        own, runs = np.unique(parts[begins], return_counts=True)
        first, *others = zip(own.tolist(), runs.tolist(), strict=True)
        self._batches.append((first[0], message.size, zlib.crc32(message), first[1]))
        self._batches += [(part, 0, 0, count) for part, count in others]
        self._file.write(message)

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        if error is None:
            try:
                self._finish()
                self._file.close()
                self._temporary.rename(self._path)
                return
            except OSError as failure:
                error = failure
        with suppress(OSError):  # what is buffered may fail again
            self._file.close()
        self._temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise self._write_error(error) from error

    def _write_error(self, error: OSError) -> ComponentError:
        return ComponentError(f"state file {self._path} cannot be written: {error}; {write_advice(error)}, and start again")

    def _finish(self) -> None:
        """Write what follows the record batches."""
        batches = np.array(self._batches, np.int64).reshape(-1, 4)
        panes, counts = (np.concatenate([np.empty(0, np.int64), *arrays]) for arrays in (self._panes, self._counts))
        index = b"".join(array.astype("<i8").tobytes() for array in (batches, panes, counts))
        size, head_sum = self._head
        tail = TAIL.pack(size, len(batches), len(panes), head_sum, 0, MAGIC)
        checksum = zlib.crc32(tail, zlib.crc32(index, name_checksum(self._name)))
        self._file.write(END_OF_STREAM + index + TAIL.pack(size, len(batches), len(panes), head_sum, checksum, MAGIC))
        self._file.flush()
        if self._durable:
            os.fsync(self._file.fileno())
        bounds = (int(panes.min()), int(panes.max())) if len(panes) else (0, 0)
        self.entry = StateFileEntry(self._name, *bounds, int(counts.sum()), self._file.tell(), checksum)


def sorted_rows(rows: pa.Table) -> pa.Table:
    """The rows of one part sorted by `PANE`, and by hash if they have one."""
    panes = rows.column(PANE).to_numpy()
    return rows.take(pa.array(_order(np.zeros(len(rows), np.int64), panes, rows)))


def _order(parts: Any, panes: Any, rows: pa.Table) -> Any:
    """int64[rows]: row numbers sorted by part, pane and hash."""
    distinct, codes = np.unique(panes, return_inverse=True)
    codes = parts * len(distinct) + codes
    if codes.max() <= np.iinfo(np.uint16).max:
        codes = codes.astype(np.uint16)  # numpy sorts 16 bits in linear time
    if HASH not in rows.column_names:
        return np.argsort(codes, kind="stable")
    by_hash = sort_by_hash(rows.column(HASH).to_numpy())
    return by_hash[np.argsort(codes[by_hash], kind="stable")]


def _storable(rows: pa.Table) -> pa.Table:
    """The rows without dictionaries and views: their values are stored, so that each record batch is whole."""
    plain = [plain_type(column.type) for column in rows.columns]
    columns = [column if column.type == type_ else column.cast(type_) for column, type_ in zip(rows.columns, plain, strict=True)]
    return pa.Table.from_arrays(columns, names=rows.column_names, metadata=rows.schema.metadata)


def plain_type(type_: pa.DataType) -> pa.DataType:
    """The type in which values of dictionaries and views are stored."""
    if pt.is_dictionary(type_):
        return plain_type(type_.value_type)
    return {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(type_, type_)


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    """The rows as one record batch. Raises ComponentError if a column has more than 2 GiB of text."""
    batches = rows.combine_chunks().to_batches()
    if len(batches) != 1:
        raise ComponentError("one part of the state has more than 2 GiB of text in a field; leave out fields that are not needed")
    return batches[0]
