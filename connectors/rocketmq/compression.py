"""Decompression of message bodies: zlib, LZ4 (frames) or ZSTD, as three bits of the system flag say."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import pyarrow as pa

MAX_BODY_BYTES = 32 << 20
"""Largest body after decompression, in bytes; brokers and clients accept 4 MiB unless configured otherwise."""

_CODEC_MASK, _CODEC_SHIFT = 7, 8


def decompress(body: bytes | memoryview, flags: int) -> bytes | str:
    """Return the body as it was sent, or a text that says why it cannot be decompressed."""
    unpack = _DECOMPRESSORS.get(flags >> _CODEC_SHIFT & _CODEC_MASK)
    if unpack is None:
        return f"its compression ({flags >> _CODEC_SHIFT & _CODEC_MASK}) is unknown: 1 is LZ4, 2 is ZSTD, 3 is zlib"
    try:
        data = unpack(body)
    except (OSError, pa.ArrowException, zlib.error, EOFError) as error:
        return f"it cannot be decompressed: {error}"
    return data if len(data) <= MAX_BODY_BYTES else f"it has more than {MAX_BODY_BYTES} bytes"


def _decompress_zlib(body: bytes | memoryview) -> bytes:
    decompressor = zlib.decompressobj()
    data = decompressor.decompress(body, MAX_BODY_BYTES + 1)
    if not decompressor.eof and len(data) <= MAX_BODY_BYTES:
        raise EOFError("it ends too early")
    return data


def _decompress_with(codec: str) -> Callable[[bytes | memoryview], bytes]:
    def unpack(body: bytes | memoryview) -> bytes:
        with pa.CompressedInputStream(pa.BufferReader(body), codec) as stream:
            return stream.read(MAX_BODY_BYTES + 1)

    return unpack


_DECOMPRESSORS: dict[int, Callable[[bytes | memoryview], bytes]] = {
    0: _decompress_zlib,
    1: _decompress_with("lz4"),
    2: _decompress_with("zstd"),
    3: _decompress_zlib,
}
