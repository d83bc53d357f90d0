"""Bodies and frames, decompressed up to a limit: a few bytes may claim to be very many."""

from __future__ import annotations

import zlib
from collections.abc import Callable

_GZIP_OR_ZLIB = 47
_RAW_DEFLATE = -15


class DecompressionError(Exception):
    """A body that cannot be decompressed: the status of HTTP that says why (400 damaged, 413 too large, 415 unknown)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


def decompress(body: bytes, encodings: str, max_bytes: int) -> bytes:
    """Undo the encodings of a header Content-Encoding. Raises DecompressionError: 415 unknown, 400 damaged, 413 too large."""
    for name in reversed([part.strip().lower() for part in encodings.split(",")]):
        if name in ("", "identity"):
            continue
        if name not in _DECODERS:
            raise DecompressionError(415, f"the encoding {name[:40]!r} is not known: {', '.join(sorted(_DECODERS))} are")
        body = _DECODERS[name](body, max_bytes)
    return body


def too_large(max_bytes: int) -> DecompressionError:
    """Return the error of a body that is larger than the option allows."""
    return DecompressionError(413, f"the body has more than {max_bytes} bytes (max_body_bytes): send fewer events at a time")


def decompress_snappy(body: bytes, max_bytes: int) -> bytes:
    """Decompress a block of Snappy, whose size precedes it as a varint."""
    import pyarrow as pa

    size = shift = 0
    for number, byte in enumerate(body[:5]):
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            if size > max_bytes:
                raise too_large(max_bytes)
            if size > _MAX_SNAPPY_RATIO * len(body):
                break
            if size == 0:
                return b""
            try:
                return bytes(pa.decompress(body, size, "snappy", asbytes=True)) if number < len(body) else b""
            except (pa.ArrowException, OSError):
                break
    raise DecompressionError(400, "the body is not a block of Snappy")


def inflate(body: bytes, max_bytes: int) -> bytes:
    """Decompress gzip, whose members may follow each other, zlib or bare deflate."""
    parts: list[bytes] = []
    size, window = 0, _GZIP_OR_ZLIB
    while body:
        decoder = zlib.decompressobj(window)
        try:
            part = decoder.decompress(body, max_bytes - size + 1)
        except zlib.error:
            if window == _RAW_DEFLATE or parts or body[:2] == b"\x1f\x8b":
                raise DecompressionError(400, "the body is not gzip or deflate, or it is damaged") from None
            window = _RAW_DEFLATE
            continue
        size += len(part)
        if size > max_bytes:
            raise too_large(max_bytes)
        if not decoder.eof:
            raise DecompressionError(400, "the compressed body ends early")
        parts.append(part)
        body = decoder.unused_data
    return b"".join(parts)


def read_zstd(body: bytes, max_bytes: int) -> bytes:
    import pyarrow as pa

    try:
        with pa.CompressedInputStream(pa.BufferReader(body), "zstd") as stream:
            data = stream.read(max_bytes + 1)
    except (pa.ArrowException, OSError):
        raise DecompressionError(400, "the body is not zstd, or it is damaged") from None
    if len(data) > max_bytes:
        raise too_large(max_bytes)
    return bytes(data)


_MAX_SNAPPY_RATIO = 64
"""The format cannot compress more than 64 bytes into 3; a greater ratio is a lie about the size."""

_DECODERS: dict[str, Callable[[bytes, int], bytes]] = {
    "gzip": inflate,
    "x-gzip": inflate,
    "deflate": inflate,
    "zstd": read_zstd,
    "snappy": decompress_snappy,
}
