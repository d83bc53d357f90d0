"""What a record looks like: its length, how many events it holds, a checksum, and the payload.

All numbers are little-endian uint32; the checksum is the CRC-32 of the payload begun with that of the two numbers
before it. A record has at least one byte of payload, so that a hole of zeros in a file is none.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

_COUNTS = struct.Struct("<II")
_HEAD = struct.Struct("<III")
HEAD_BYTES = _HEAD.size

LARGEST = 1 << 30
"""Bytes of the longest payload: a length beyond it is damage."""

Readable = bytes | bytearray | memoryview


class Record(NamedTuple):
    """Where a record's payload lies in the bytes it was found in."""

    begin: int
    end: int
    events: int
    checksum: int

    def whole(self, data: Readable) -> bool:
        """Whether the payload is what was written."""
        counts = _COUNTS.pack(self.end - self.begin, self.events)
        return zlib.crc32(memoryview(data)[self.begin : self.end], zlib.crc32(counts)) == self.checksum


def head(payload: bytes, events: int) -> bytes:
    """What stands in front of a payload."""
    if not 0 < len(payload) <= LARGEST:
        raise ValueError(f"a record holds 1 to {LARGEST} bytes, not {len(payload)}")
    return _HEAD.pack(len(payload), events, zlib.crc32(payload, zlib.crc32(_COUNTS.pack(len(payload), events))))


def record_at(data: Readable, at: int, begin: int) -> Record | None:
    """The record whose head is at ``data[at:]`` and whose payload begins at ``begin``; None where no head is."""
    if len(data) - at < HEAD_BYTES:
        return None
    length, events, checksum = _HEAD.unpack_from(data, at)
    return Record(begin, begin + length, events, checksum) if 0 < length <= LARGEST else None


def records(data: Readable) -> Iterator[Record]:
    """The records that lie whole in the data, from its beginning; ends where none does."""
    at = 0
    while (record := record_at(data, at, at + HEAD_BYTES)) and record.end <= len(data):
        yield record
        at = record.end
