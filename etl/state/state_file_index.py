"""The index and the tail of a state file."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

_FORMAT, _VERSION = b"SLSTATE", b"2"


MAGIC = _FORMAT + _VERSION
"""The last bytes; the digit is the version of the format, which includes that of the hashes of keys."""


TAIL = struct.Struct("<qqqII8s")
"""Bytes of the schema; record batches; runs; CRC-32 of the schema; CRC-32 of the name, the index and this with 0 here; magic."""


SMALL_FILE = 1 << 16
"""Maximum number of rows of a file that is written as one record batch, and searched as a whole: a part by itself costs 50 µs."""


SMALL_BYTES = 8 << 20
"""Maximum bytes of the rows of such a record batch."""


END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"


def name_checksum(name: str) -> int:
    """What the checksum of the index begins with."""
    return zlib.crc32(name.encode())


def _describe_other_file(magic: bytes) -> str:
    """What a file is that ends with other bytes."""
    if magic.startswith(_FORMAT):
        version = magic.removeprefix(_FORMAT).decode(errors="replace")
        return f"is of version {version!r} of the format, and this release reads version {_VERSION.decode()!r}"
    return "is incomplete, or is not a state file"


@dataclass(frozen=True)
class BatchEntry:
    """Where the rows of a part and its runs are."""

    begin: int
    size: int
    checksum: int
    first_run: int
    end_run: int
    first_row: int = 0
    """In the record batch, which may have other parts before it."""


@dataclass(frozen=True)
class StateFileIndex:
    schema_size: int
    checksum: int
    """Of the name, the index and the tail."""
    batches: dict[int, BatchEntry]
    """By part."""
    panes: Any
    """int64[runs]"""
    counts: Any
    """int64[runs]: rows."""
    end: int
    """Where the record batches end."""

    @classmethod
    def of(cls, numbers: Any, schema_size: int, batches: int, runs: int, checksum: int) -> StateFileIndex:
        entries = numbers[: 4 * batches].reshape(-1, 4).tolist()
        panes, counts = numbers[4 * batches : 4 * batches + runs], numbers[4 * batches + runs :]
        rows = np.append(0, np.cumsum(counts)).tolist()
        found: dict[int, BatchEntry] = {}
        end, run, last = schema_size, 0, BatchEntry(schema_size, 0, 0, 0, 0)
        for part, size, own_checksum, count in entries:
            if size:
                last = BatchEntry(end, size, own_checksum, run, run + count)
                found[part] = last
            else:
                found[part] = replace(last, first_run=run, end_run=run + count, first_row=rows[run] - rows[last.first_run])
            end, run = end + size, run + count
        return cls(schema_size, checksum, found, panes, counts, end)


def read_index(file: pa.Buffer, name: str) -> StateFileIndex:
    """The index of a file that was written under this name. Raises ValueError, which says how the file is damaged."""
    if file.size < TAIL.size:
        raise ValueError("is incomplete")
    tail = file.slice(file.size - TAIL.size).to_pybytes()
    schema_size, batches, runs, head_sum, checksum, magic = TAIL.unpack(tail)
    if magic != MAGIC:
        raise ValueError(_describe_other_file(magic))
    size = 8 * (4 * batches + 2 * runs)
    begin = file.size - TAIL.size - size
    if batches < 0 or runs < 0 or not 0 <= schema_size <= begin:
        raise ValueError("is damaged at its end")
    data = file.slice(begin, size)
    blank = TAIL.pack(schema_size, batches, runs, head_sum, 0, magic)
    if zlib.crc32(blank, zlib.crc32(data, name_checksum(name))) != checksum:
        raise ValueError("is damaged at its end, or was written under another name")
    index = StateFileIndex.of(np.frombuffer(data, "<i8"), schema_size, batches, runs, checksum)
    if index.end + len(END_OF_STREAM) != begin or file.slice(index.end, len(END_OF_STREAM)).to_pybytes() != END_OF_STREAM:
        raise ValueError("is damaged before its index")
    if zlib.crc32(file.slice(0, schema_size)) != head_sum:
        raise ValueError("is damaged at its beginning")
    return index
