"""Format of a record: payload length, number of events, a checksum, and the payload.

All numbers are little-endian uint32. The checksum is the CRC-32 of the two numbers followed by the payload. A payload has at
least one byte, so zeros in a file are not a record.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

_COUNTS = struct.Struct("<II")
_HEADER = struct.Struct("<III")
HEADER_BYTES = _HEADER.size

MAX_PAYLOAD_BYTES = 1 << 30
"""Longest payload, in bytes; a greater length is damage."""

ByteSource = bytes | bytearray | memoryview


class Record(NamedTuple):
    """Position of a record's payload in the bytes that contain it."""

    begin: int
    end: int
    events: int
    checksum: int

    def is_intact(self, data: ByteSource) -> bool:
        """Return whether the payload matches the checksum."""
        counts = _COUNTS.pack(self.end - self.begin, self.events)
        return zlib.crc32(memoryview(data)[self.begin : self.end], zlib.crc32(counts)) == self.checksum


def encode_header(payload: bytes, events: int) -> bytes:
    """Return the header of a payload. Raises ValueError if it is empty or too long."""
    if not 0 < len(payload) <= MAX_PAYLOAD_BYTES:
        raise ValueError(f"a record holds 1 to {MAX_PAYLOAD_BYTES} bytes, not {len(payload)}")
    return _HEADER.pack(len(payload), events, zlib.crc32(payload, zlib.crc32(_COUNTS.pack(len(payload), events))))


def parse_header(data: ByteSource, at: int, begin: int) -> Record | None:
    """Parse the header at ``data[at:]`` of a record whose payload begins at ``begin``; None if there is none."""
    if len(data) - at < HEADER_BYTES:
        return None
    length, events, checksum = _HEADER.unpack_from(data, at)
    return Record(begin, begin + length, events, checksum) if 0 < length <= MAX_PAYLOAD_BYTES else None


def complete_records(data: ByteSource) -> Iterator[Record]:
    """Yield the complete records from the beginning of the data; ends at the first incomplete one."""
    at = 0
    while (record := parse_header(data, at, at + HEADER_BYTES)) and record.end <= len(data):
        yield record
        at = record.end
