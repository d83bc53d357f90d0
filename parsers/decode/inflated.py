"""Columns of compressed bytes → columns of what they hold, within bounds."""

from __future__ import annotations

import zlib
from typing import Any

import pyarrow as pa

from parsers.decode.decoded_bytes import Decoded

WINDOWS = {"gzip": 31, "zlib": 15, "deflate": -15}
"""Compression → what zlib calls it."""

MOST_TOGETHER = 256 << 20
"""Bytes that the values of one batch may have together."""


def inflated(data: pa.LargeBinaryArray, compression: str, most: int) -> Decoded:
    """A Python call for each value: each is a stream of its own."""
    values: list[bytes | None] = []
    reasons: list[str | None] = []
    left = MOST_TOGETHER
    for one in data.to_pylist():
        value, reason = (None, None) if one is None else _inflated(one, WINDOWS[compression], min(most, left))
        left -= len(value or b"")
        values.append(value)
        reasons.append(None if reason is None else f"is not {compression}: {reason}")
    wrong = pa.array(reasons, pa.string())
    return pa.array(values, pa.large_binary()), wrong if wrong.null_count < len(wrong) else None


def _inflated(data: bytes, window: int, most: int) -> tuple[bytes | None, str | None]:
    """The members of a stream, one behind the other, or why there are none."""
    out: list[bytes] = []
    size = 0
    while data or not out:
        stream: Any = zlib.decompressobj(window)
        try:
            out.append(stream.decompress(data, most - size + 1))
        except zlib.error as error:
            return None, str(error)
        size += len(out[-1])
        if size > most:
            return None, f"it holds more than {most} bytes"
        if not stream.eof:
            return None, "it ends too early"
        data = stream.unused_data
    return b"".join(out), None
