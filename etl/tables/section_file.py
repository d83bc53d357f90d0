"""A file of named arrays that is written once and then mapped: numbers, bytes and Arrow columns, each at a multiple of 64.

The first line names the format; the second is JSON: the position and checksum of each array, and metadata of the writer. A file
is written under a temporary name and renamed, so that a reader always sees a complete file. Kernels trust the arrays of a file:
a run checks a file that an earlier run has written before its workers map it (`SectionFile.verify`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from etl.api import ComponentError
from etl.tables.hash_kernel import hash_texts

_ALIGNED = 64
_NAME = b"sluice-table "
_MAGIC = _NAME + b"6\n"
"""The first line; the number is that of the format, which includes what the arrays depend on: the hash of texts
(`byte_runs.hash_bytes`), and the tables of literals (`literal_tables`) with the hashes of their keys. Runs build a file of
another format again."""


def write(path: Path, about: Mapping[str, Any], arrays: Mapping[str, Any], columns: Mapping[str, pa.Array]) -> None:
    """Write a file of named numpy arrays and Arrow arrays."""
    parts: dict[str, memoryview] = {name: np.ascontiguousarray(array).data.cast("B") for name, array in arrays.items()}
    parts |= {name: memoryview(_ipc(column)) for name, column in columns.items()}
    sections, at = {}, 0
    for name, data in parts.items():
        kind = str(arrays[name].dtype) if name in arrays else "arrow"
        sections[name] = (kind, at, len(data), _checksum(data))
        at += _pad(len(data))
    head = _MAGIC + json.dumps({"about": about, "places": sections}).encode() + b"\n"
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        _write(temporary, head, parts.values())
        temporary.rename(path)
    except OSError:  # for example a full disk: the incomplete file is removed
        temporary.unlink(missing_ok=True)
        raise


def _write(path: Path, head: bytes, parts: Iterable[memoryview]) -> None:
    with path.open("wb") as file:
        file.write(head.ljust(_pad(len(head)), b"\n"))
        for data in parts:
            file.write(data)
            file.write(b"\0" * (_pad(len(data)) - len(data)))
        file.flush()
        os.fsync(file.fileno())


_REMOVE = ": remove it, and the next run builds it again"


class DamagedFileError(ComponentError):
    """A file that is not a table file, has another format, is incomplete, or was changed."""


class SectionFile:
    """A mapped file; all processes that map it share its memory. Raises DamagedFileError."""

    def __init__(self, path: Path) -> None:
        self._map = pa.memory_map(str(path))
        whole = self._map.read_buffer()
        view = memoryview(whole)
        end = bytes(view[: 1 << 20]).find(b"\n", len(_MAGIC))
        if bytes(view[: len(_MAGIC)]) != _MAGIC or end < 0:
            other = bytes(view[: len(_NAME)]) == _NAME
            raise DamagedFileError(f"{path} is {'a table file of another format' if other else 'not a table file'}{_REMOVE}")
        try:
            head = json.loads(bytes(view[len(_MAGIC) : end]))
            self.about: dict[str, Any] = head["about"]
            self._sections: dict[str, tuple[str, int, int, int]] = head["places"]
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedFileError(f"{path} is damaged{_REMOVE}") from error
        self._begin = _pad(end + 1)
        if self._begin + max((at + size for _, at, size, _ in self._sections.values()), default=0) > whole.size:
            raise DamagedFileError(f"{path} is incomplete{_REMOVE}")
        self._whole, self._path = whole, path

    def verify(self) -> None:
        """Compare the checksums of all arrays, which reads the whole file. Raises DamagedFileError."""
        for name, (_, at, size, checksum) in self._sections.items():
            if _checksum(memoryview(self._whole.slice(self._begin + at, size))) != checksum:
                raise DamagedFileError(f"{self._path} is damaged: the checksum of {name!r} does not fit{_REMOVE}")

    def __contains__(self, name: str) -> bool:
        return name in self._sections

    def numbers(self, name: str) -> Any:
        """A read-only numpy array."""
        kind, at, size, _ = self._sections[name]
        return np.frombuffer(self._whole.slice(self._begin + at, size), kind)

    def column(self, name: str) -> pa.Array:
        """An Arrow array."""
        _, at, size, _ = self._sections[name]
        return pa.ipc.open_stream(self._whole.slice(self._begin + at, size)).read_next_batch().column(0)

    def address(self, name: str) -> Any:
        """uint64: the address of a section's bytes."""
        return np.uint64(self._whole.address + self._begin + self._sections[name][1])


def _ipc(column: pa.Array) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("", column.type)])) as stream:
        stream.write_batch(pa.RecordBatch.from_arrays([column], names=[""]))
    return sink.getvalue()


def _checksum(data: memoryview) -> int:
    """A hash of all bytes: 5 GB a second."""
    bytes_, hashes = np.frombuffer(data, np.uint8), np.empty(1, np.uint64)
    hash_texts(np.array([bytes_.ctypes.data], np.uint64), np.array([len(bytes_)], np.int64), hashes)
    return int(hashes[0])


def _pad(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED
