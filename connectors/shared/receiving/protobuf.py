"""Protocol Buffers without generated classes: the fields of a message, and the few messages that receivers write.

A dependency would be larger than this module: receivers read two kinds of messages and write two with three fields each.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_FIXED64, _FIXED32 = struct.Struct("<Q"), struct.Struct("<I")
_MAX_VARINT_BYTES = 10
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class WireField(NamedTuple):
    """A field: its number, and its value; ``data`` is empty unless it has the wire type of bytes."""

    number: int
    value: int
    data: bytes


class DamagedMessageError(ValueError):
    """Bytes that are not a message."""


def read_fields(message: bytes) -> Iterator[WireField]:
    """Yield the fields of a message. Raises DamagedMessageError."""
    at, end = 0, len(message)
    while at < end:
        key, at = _read_varint(message, at)
        wire = key & 7
        if wire == BYTES:
            size, at = _read_varint(message, at)
            if size > end - at:
                raise DamagedMessageError("a field is longer than its message")
            yield WireField(key >> 3, 0, message[at : at + size])
            at += size
        elif wire == VARINT:
            value, at = _read_varint(message, at)
            yield WireField(key >> 3, value, b"")
        elif wire in (FIXED64, FIXED32):
            layout = _FIXED64 if wire == FIXED64 else _FIXED32
            if end - at < layout.size:
                raise DamagedMessageError("a number ends early")
            yield WireField(key >> 3, layout.unpack_from(message, at)[0], b"")
            at += layout.size
        else:
            raise DamagedMessageError(f"wire type {wire} does not exist")


def write_varint(number: int, value: int) -> bytes:
    """Return a field with a number that is not negative."""
    return _varint(number << 3 | VARINT) + _varint(value)


def write_bytes(number: int, data: bytes) -> bytes:
    """Return a field with a text or a message."""
    return _varint(number << 3 | BYTES) + _varint(len(data)) + data


def signed(value: int) -> int:
    """Return a varint as int64."""
    return value - (1 << 64) if value >= 1 << 63 else value


def as_double(value: int) -> float:
    """Return a fixed64 as a double."""
    return float(struct.unpack("<d", _FIXED64.pack(value))[0])


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    for position in range(at, min(at + _MAX_VARINT_BYTES, len(data))):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, position + 1
        shift += 7
    raise DamagedMessageError("a number does not end")


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])
