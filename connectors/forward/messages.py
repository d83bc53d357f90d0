"""Parses messages of the Fluentd forward protocol, version 1: their events, and the identifier to acknowledge.

A message is ``[tag, time, record, option]`` (Message), ``[tag, [[time, record], …], option]`` (Forward), or ``[tag, bytes,
option]`` with concatenated ``[time, record]``, which may be compressed (PackedForward, CompressedPackedForward). Records become
JSON, which costs a Python loop over events (2 to 4 µs): MessagePack has no form that can be read by columns.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgpack

from connectors.shared.receiving.decompression import DecompressionError, decompress
from connectors.shared.receiving.tcp_server import CHUNK_BYTES, SenderError

MAX_ARRAY = 1 << 18
"""Maximum number of elements of an array or map: a few bytes may claim billions."""

MAX_PACKED = 1 << 20
"""Maximum number of packed events of a message: an event may take three bytes only."""

MAX_DEPTH = 64
"""Maximum nesting of a record."""

_EVENT_TIME = 0
"""Extension type of a time with nanoseconds: two uint32, big-endian."""

_MAX_SECONDS = 1 << 63
"""Times of this many seconds or more are null, as are infinite ones and NaN."""

_COMPRESSIONS = ("text", "gzip", "zstd")


class ForwardMessage(NamedTuple):
    """A message. ``entries`` are its events as JSON objects; ``chunk`` is the identifier that the sender wants acknowledged."""

    tag: str
    entries: list[dict[str, Any]]
    chunk: str | None
    packed_bytes: int
    """Bytes of packed events, after decompression."""


def parse_message(message: Any, max_bytes: int) -> ForwardMessage:
    """Parse a message; its packed events may have ``max_bytes`` after decompression. Raises SenderError."""
    if not isinstance(message, list) or len(message) < 2 or not isinstance(message[0], str):
        raise SenderError("a message must be an array that begins with a tag")
    tag, second, size = message[0], message[1], 0
    if isinstance(second, list):
        pairs, option = second, message[2:3]
    elif isinstance(second, (bytes, str)):
        option = message[2:3]
        packed = _unpacked(second, _option(option).get("compressed", "text"), max_bytes)
        pairs, size = list(_packed_pairs(packed, max_bytes)), len(packed)
    elif len(message) >= 3:
        pairs, option = [[second, message[2]]], message[3:4]
    else:
        raise SenderError("a message has no record")
    chunk = _option(option).get("chunk")
    return ForwardMessage(_clean(tag), [_entry(pair) for pair in pairs], chunk if isinstance(chunk, str) else None, size)


def create_unpacker(max_bytes: int) -> msgpack.Unpacker:
    """Return a MessagePack decoder for one connection. It decodes bytes of a text that are not UTF-8 to surrogates."""
    return msgpack.Unpacker(
        raw=False,
        strict_map_key=False,
        unicode_errors="surrogateescape",
        max_buffer_size=max_bytes + CHUNK_BYTES,  # one read may bring the end of a message and further messages
        max_str_len=max_bytes,
        max_bin_len=max_bytes,
        max_array_len=MAX_ARRAY,
        max_map_len=MAX_ARRAY,
        timestamp=0,
    )


def _option(option: list[Any]) -> dict[Any, Any]:
    return option[0] if option and isinstance(option[0], dict) else {}


def _unpacked(packed: bytes | str, compression: Any, max_bytes: int) -> bytes:
    data = packed.encode("utf-8", "surrogateescape") if isinstance(packed, str) else packed
    if compression not in _COMPRESSIONS:
        raise SenderError(f"unknown compression {str(compression)[:40]!r}; accepted are {', '.join(_COMPRESSIONS)}")
    if compression == "text":
        return data
    try:
        return decompress(data, compression, max_bytes)
    except DecompressionError as error:
        raise SenderError(error.message) from None


def _packed_pairs(data: bytes, max_bytes: int) -> Iterator[Any]:
    unpacker = create_unpacker(max_bytes)
    unpacker.feed(data)
    end = 0
    for number, pair in enumerate(unpacker):
        if number >= MAX_PACKED:
            raise SenderError(f"a message has more than {MAX_PACKED} packed events")
        yield pair
        end = unpacker.tell()
    if end != len(data):
        raise SenderError("the packed events end inside an event")


def _entry(pair: Any) -> dict[str, Any]:
    """Return an event as it is stored. Fluent Bit puts metadata beside the time: ``[[time, metadata], record]``."""
    if not isinstance(pair, list) or len(pair) < 2:
        raise SenderError("an event must be an array of a time and a record")
    time = pair[0]
    metadata = None
    if isinstance(time, list) and len(time) == 2:
        time, metadata = time
    entry = {"t": _nanoseconds(time), "r": pair[1]}
    return {**entry, "m": json.dumps(to_json(metadata))} if metadata else entry


def _nanoseconds(time: Any) -> int | None:
    if isinstance(time, msgpack.ExtType) and time.code == _EVENT_TIME and len(time.data) == 8:
        return int.from_bytes(time.data[:4], "big") * 1_000_000_000 + int.from_bytes(time.data[4:], "big")
    if isinstance(time, (int, float)) and abs(time) < _MAX_SECONDS:
        return int(time * 1_000_000_000)
    return None


def encode(entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries with records of JSON types."""
    return [{**entry, "r": to_json(entry["r"])} for entry in entries]


def to_json(value: Any, depth: int = 0) -> Any:
    """Return a value of MessagePack as one of JSON: bytes as text, keys as texts, no infinite numbers."""
    if isinstance(value, str):
        return value if value.isascii() else _clean(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if depth > MAX_DEPTH:
        raise SenderError(f"a record is nested more than {MAX_DEPTH} deep")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, dict):
        return {_key(key): to_json(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [to_json(inner, depth + 1) for inner in value]
    return str(value)


def _key(key: Any) -> str:
    return _clean(key) if isinstance(key, str) else key.decode("utf-8", "replace") if isinstance(key, bytes) else str(key)


def _clean(text: str) -> str:
    """Return a text with U+FFFD in place of bytes that are not UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
