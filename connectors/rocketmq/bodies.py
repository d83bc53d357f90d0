"""Bodies that a producer compressed: zlib, LZ4 (frames) or ZSTD, as three bits of the system flag say."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import pyarrow as pa

LARGEST_BODY = 32 << 20
"""Bytes of the largest body after decompression; brokers and clients take 4 MiB unless told otherwise."""

_WHICH, _SHIFT = 7, 8


def unpacked(body: bytes | memoryview, flags: int) -> bytes | str:
    """The body as it was sent, or why it cannot be had."""
    unpack = _BY_KIND.get(flags >> _SHIFT & _WHICH)
    if unpack is None:
        return f"its compression ({flags >> _SHIFT & _WHICH}) is unknown: 1 is LZ4, 2 is ZSTD, 3 is zlib"
    try:
        data = unpack(body)
    except (OSError, pa.ArrowException, zlib.error, EOFError) as error:
        return f"it cannot be decompressed: {error}"
    return data if len(data) <= LARGEST_BODY else f"it has more than {LARGEST_BODY} bytes"


def _zlib(body: bytes | memoryview) -> bytes:
    machine = zlib.decompressobj()
    data = machine.decompress(body, LARGEST_BODY + 1)
    if not machine.eof and len(data) <= LARGEST_BODY:
        raise EOFError("it ends too early")
    return data


def _with(codec: str) -> Callable[[bytes | memoryview], bytes]:
    def unpack(body: bytes | memoryview) -> bytes:
        with pa.CompressedInputStream(pa.BufferReader(body), codec) as stream:
            return stream.read(LARGEST_BODY + 1)

    return unpack


_BY_KIND: dict[int, Callable[[bytes | memoryview], bytes]] = {0: _zlib, 1: _with("lz4"), 2: _with("zstd"), 3: _zlib}
