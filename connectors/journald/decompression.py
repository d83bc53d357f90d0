"""Decompresses the content of data objects: XZ, LZ4 and Zstandard, as far as it is needed."""

from __future__ import annotations

import lzma
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from connectors.journald.journal_kernel import lz4_size

_XZ, _LZ4, _ZSTD = 1, 2, 4
_XZ_MEMORY = 64 << 20
"""Bytes that the dictionary of an XZ stream may have; journald's have 8 MiB."""
_LZ4_SIZE_BYTES = 8


class DamagedValueError(Exception):
    """The content cannot be decompressed."""


def decompress(flags: int, content: bytes, limit: int) -> bytes:
    """Return the content, or its first ``limit`` + 1 bytes if it is longer. Raises DamagedValueError."""
    try:
        return _DECOMPRESS[flags & 7](content, limit)
    except KeyError:
        raise DamagedValueError(f"its compression {flags & 7} is not known") from None
    except (OSError, ValueError, EOFError, lzma.LZMAError, pa.ArrowException) as error:
        raise DamagedValueError(f"it cannot be decompressed: {error}") from error


def _decompress_xz(content: bytes, limit: int) -> bytes:
    decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
    text = decoder.decompress(content, limit + 1)
    if not decoder.eof and len(text) <= limit:
        raise ValueError("it ends early")
    return text


def _decompress_zstd(content: bytes, limit: int) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(content), "zstd") as stream:
        return bytes(stream.read(limit + 1))


def _decompress_lz4(content: bytes, limit: int) -> bytes:
    """A block of LZ4 with its decompressed size in front."""
    size = int.from_bytes(content[:_LZ4_SIZE_BYTES], "little")
    block = content[_LZ4_SIZE_BYTES:]
    if size > limit:
        return _decode_beginning(block, limit)
    if lz4_size(np.frombuffer(block, np.uint8)) != size:  # the library would leave the end of its memory as it was before
        raise ValueError(f"it has not the {size:,} bytes that it says")
    return bytes(pa.Codec("lz4_raw").decompress(block, size, asbytes=True))


def _decode_beginning(block: bytes, limit: int) -> bytes:
    """The first ``limit`` + 1 bytes of a block (LZ4 Block Format, "Compressed block format"), which the library cannot give."""
    found, at = bytearray(), 0
    while at < len(block) and len(found) <= limit:
        token = block[at]
        literals, at = _read_length(block, at + 1, token >> 4)
        found += block[at : at + min(literals, limit + 1)]
        at += literals
        if at + 2 > len(block):
            break
        distance = int.from_bytes(block[at : at + 2], "little")
        length, at = _read_length(block, at + 2, token & 15)
        if not 0 < distance <= len(found):
            raise ValueError(f"it copies from {distance} bytes before, and has {len(found)}")
        length = min(length + 4, limit + 1)
        first = len(found) - distance
        copied = bytes(found[first : first + length])
        found += (copied * -(-length // len(copied)))[:length]
    return bytes(found[: limit + 1])


def _read_length(block: bytes, at: int, length: int) -> tuple[int, int]:
    """A length that has further bytes if it is 15; also the position after it."""
    while length >= 15 and at < len(block):
        length, at = length + block[at], at + 1
        if block[at - 1] != 255:
            break
    return length, at


_DECOMPRESS: dict[int, Callable[[bytes, int], bytes]] = {_XZ: _decompress_xz, _LZ4: _decompress_lz4, _ZSTD: _decompress_zstd}
