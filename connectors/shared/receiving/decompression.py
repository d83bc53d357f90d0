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
            raise DecompressionError(415, f"unknown encoding {name[:40]!r}; accepted are {', '.join(sorted(_DECODERS))}")
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
    at, left, members, window = 0, max_bytes, 0, _GZIP_OR_ZLIB
    while at < len(body):
        try:
            at, left = _inflate_member(body, at, window, parts, left)
        except zlib.error:
            if window == _RAW_DEFLATE or members or body[:2] == b"\x1f\x8b":
                raise DecompressionError(400, "the body is not gzip or deflate, or it is damaged") from None
            window, left = _RAW_DEFLATE, max_bytes
            parts.clear()
            continue
        if left < 0:
            raise too_large(max_bytes)
        members += 1
        if members > _MAX_MEMBERS:
            raise DecompressionError(400, f"the body has more than {_MAX_MEMBERS} members of gzip: send fewer")
    return b"".join(parts)


def _inflate_member(body: bytes, at: int, window: int, parts: list[bytes], left: int) -> tuple[int, int]:
    """Append a member to the parts; return where the next one begins, and how many bytes it may have, negative for too many.

    It is read in pieces that grow, because the decoder copies what follows a member: the whole body for each of many small ones.
    """
    decoder, piece = zlib.decompressobj(window), _FIRST_PIECE_BYTES
    while not decoder.eof and left >= 0:
        if at >= len(body):
            raise DecompressionError(400, "the compressed body ends early")
        data = body[at : at + piece]
        part = decoder.decompress(data, left + 1)
        left -= len(part)
        parts.append(part)
        at += len(data) - len(decoder.unused_data)
        piece *= 2
    return at, left


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


_FIRST_PIECE_BYTES = 512
"""Bytes with which reading a member of gzip begins."""

_MAX_MEMBERS = 1 << 16
"""Members of gzip in a body: each costs some microseconds, and may be empty."""

_MAX_SNAPPY_RATIO = 64
"""The format cannot compress more than 64 bytes into 3; a greater ratio is a lie about the size."""

_DECODERS: dict[str, Callable[[bytes, int], bytes]] = {
    "gzip": inflate,
    "x-gzip": inflate,
    "deflate": inflate,
    "zstd": read_zstd,
    "snappy": decompress_snappy,
}
