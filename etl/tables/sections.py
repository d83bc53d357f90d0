"""A file of named arrays that is written once and then mapped: numbers, bytes and Arrow columns, each at a multiple of 64.

The first line is JSON: what is where, and what the owner wrote about the whole. A file is written under another name and
renamed, so who opens it sees all of it.
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

_ALIGNED = 64
_MAGIC = b"sluice-table 1\n"


def write(path: Path, about: Mapping[str, Any], arrays: Mapping[str, Any], columns: Mapping[str, pa.Array]) -> None:
    """Numpy arrays and Arrow arrays under their names."""
    parts: dict[str, memoryview] = {name: np.ascontiguousarray(array).data.cast("B") for name, array in arrays.items()}
    parts |= {name: memoryview(_ipc(column)) for name, column in columns.items()}
    places, at = {}, 0
    for name, data in parts.items():
        kind = str(arrays[name].dtype) if name in arrays else "arrow"
        places[name] = (kind, at, len(data))
        at += _padded(len(data))
    head = _MAGIC + json.dumps({"about": about, "places": places}).encode() + b"\n"
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        _write(temporary, head, parts.values())
        temporary.rename(path)
    except OSError:  # a full disk is left as it was
        temporary.unlink(missing_ok=True)
        raise


def _write(path: Path, head: bytes, parts: Iterable[memoryview]) -> None:
    with path.open("wb") as file:
        file.write(head.ljust(_padded(len(head)), b"\n"))
        for data in parts:
            file.write(data)
            file.write(b"\0" * (_padded(len(data)) - len(data)))
        file.flush()
        os.fsync(file.fileno())


class BrokenError(ComponentError):
    """A file that is no table, or not all of one."""


class Sections:
    """A mapped file; its arrays share the pages with all processes that map it. Raises BrokenError for what is none, or cut."""

    def __init__(self, path: Path) -> None:
        self._map = pa.memory_map(str(path))
        whole = self._map.read_buffer()
        view = memoryview(whole)
        end = bytes(view[: 1 << 20]).find(b"\n", len(_MAGIC))
        if bytes(view[: len(_MAGIC)]) != _MAGIC or end < 0:
            raise BrokenError(f"{path} is no table file")
        try:
            head = json.loads(bytes(view[len(_MAGIC) : end]))
            self.about: dict[str, Any] = head["about"]
            self._places: dict[str, tuple[str, int, int]] = head["places"]
        except (ValueError, KeyError, TypeError) as error:
            raise BrokenError(f"{path} is damaged: remove it, and the next run builds it again") from error
        self._begin = _padded(end + 1)
        if self._begin + max((at + size for _, at, size in self._places.values()), default=0) > whole.size:
            raise BrokenError(f"{path} is cut: remove it, and the next run builds it again")
        self._whole = whole

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def numbers(self, name: str) -> Any:
        """A numpy array, not to be written to."""
        kind, at, size = self._places[name]
        return np.frombuffer(self._whole.slice(self._begin + at, size), kind)

    def column(self, name: str) -> pa.Array:
        """An Arrow array."""
        _, at, size = self._places[name]
        return pa.ipc.open_stream(self._whole.slice(self._begin + at, size)).read_next_batch().column(0)

    def address(self, name: str) -> Any:
        """uint64: where the bytes of a section lie."""
        return np.uint64(self._whole.address + self._begin + self._places[name][1])


def _ipc(column: pa.Array) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("", column.type)])) as stream:
        stream.write_batch(pa.RecordBatch.from_arrays([column], names=[""]))
    return sink.getvalue()


def _padded(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED
