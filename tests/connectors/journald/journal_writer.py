"""Writes journal files of systemd as journald does, for tests: https://systemd.io/JOURNAL_FILE_FORMAT.

Entries are appended in journald's order of writes (objects, array of entries, header), so a reader may look at any time. The hash
tables are there, and empty: nothing reads entries by them.
"""

from __future__ import annotations

import lzma
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Literal
from uuid import UUID, uuid4

import pyarrow as pa

Compression = Literal["xz", "lz4", "zstd"]

BOOT = UUID("0123456789abcdef0123456789abcdef")
MACHINE = UUID("ab" * 16)
START = 1_700_000_000_000_000
"""Time of the first entry, microseconds since 1970."""

_HEADER_BYTES = 272
_ENTRIES_AT, _TAIL_SEQNUM_AT, _STATE_AT, _ARENA_AT = 152, 160, 16, 96
_TABLE_BYTES = 16 + 16 * 16
_FLAGS = {"xz": 1, "lz4": 2, "zstd": 8, None: 0}
_OBJECT_FLAGS = {"xz": 1, "lz4": 2, "zstd": 4, None: 0}
_COMPRESSED_FROM = 512


def compress(data: bytes, compression: Compression) -> bytes:
    """Compress as journald does."""
    if compression == "xz":
        return lzma.compress(data, lzma.FORMAT_XZ, lzma.CHECK_NONE)
    codec = pa.Codec("lz4_raw" if compression == "lz4" else "zstd")
    size = struct.pack("<Q", len(data)) if compression == "lz4" else b""
    return size + bytes(codec.compress(data, asbytes=True))


class JournalWriter:
    """A journal file that grows. Values of entries are shared, as in real files."""

    def __init__(
        self, path: Path, *, compact: bool = False, compression: Compression | None = None, seqnum: int = 0, first_array: int = 4
    ) -> None:
        self.path, self.compact, self.compression = path, compact, compression
        self.id, self.seqnum, self.entries = uuid4(), seqnum, 0
        self.objects: dict[bytes, int] = {}
        self.array_at, self.array_used, self.array_size, self.next_size = 0, 0, 0, first_array
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o640)
        self.end = _HEADER_BYTES
        tables = [self._append(kind, bytes(_TABLE_BYTES - 16)) + 16 for kind in (4, 5)]
        flags = _FLAGS[compression] | (16 if compact else 0)
        ids = (self.id.bytes, MACHINE.bytes, BOOT.bytes, MACHINE.bytes)
        header = struct.pack("<8sIIB7x16s16s16s16s", b"LPKSHHRH", 0, flags, 1, *ids)
        sizes = [_HEADER_BYTES, self.end - _HEADER_BYTES, tables[0], _TABLE_BYTES - 16, tables[1], _TABLE_BYTES - 16]
        header += struct.pack("<15Q", *sizes, self.end, 2, 0, 0, 0, 0, 0, 0, 0)
        self._put(0, header.ljust(_HEADER_BYTES, b"\0"))

    def append(self, *fields: tuple[str, str | bytes], time: int | None = None) -> int:
        """Append an entry; return its position."""
        time = START + self.seqnum * 1000 if time is None else time
        self.seqnum += 1
        items = [
            self._data(name.encode() + b"=" + (value.encode() if isinstance(value, str) else value)) for name, value in fields
        ]
        return self._append_entry(items, time)

    def _append_entry(self, items: Sequence[int], time: int) -> int:
        body = b"".join(struct.pack("<I", at) if self.compact else struct.pack("<QQ", at, 0) for at in items)
        head = struct.pack("<QQQ16sQ", self.seqnum, time, self.seqnum * 1000, BOOT.bytes, 0)
        at = self._append(3, head + body)
        self._link(at)
        self.entries += 1
        self._put(_TAIL_SEQNUM_AT, struct.pack("<Q", self.seqnum))
        if self.entries == 1:
            self._put(_TAIL_SEQNUM_AT + 8, struct.pack("<Q", self.seqnum))
            self._put(184, struct.pack("<Q", time))
        self._put(192, struct.pack("<QQ", time, self.seqnum * 1000))
        self._put(136, struct.pack("<Q", at))
        self._put(_ENTRIES_AT, struct.pack("<Q", self.entries))
        return at

    def close(self) -> None:
        """Close the file as one that is archived."""
        self._put(_STATE_AT, b"\2")
        os.close(self.file)

    def _data(self, content: bytes) -> int:
        if content not in self.objects:
            stored, flags = content, 0
            if self.compression and len(content) >= _COMPRESSED_FROM:
                stored, flags = compress(content, self.compression), _OBJECT_FLAGS[self.compression]
            self.objects[content] = self._append(1, bytes(48 + (8 if self.compact else 0)) + stored, flags)
        return self.objects[content]

    def _link(self, entry: int) -> None:
        width = 4 if self.compact else 8
        if self.array_used == self.array_size:
            at = self._append(6, bytes(8 + width * self.next_size))
            self._put(self.array_at + 16 if self.array_at else 176, struct.pack("<Q", at))
            self.array_at, self.array_used, self.array_size = at, 0, self.next_size
            self.next_size *= 2
        self._put(self.array_at + 24 + width * self.array_used, entry.to_bytes(width, "little"))
        self.array_used += 1

    def _append(self, kind: int, body: bytes, flags: int = 0) -> int:
        """Append an object; return its position."""
        at = self.end
        data = struct.pack("<BB6xQ", kind, flags, 16 + len(body)) + body
        self._put(at, data.ljust(-(-len(data) // 8) * 8, b"\0"))
        self.end = at + -(-len(data) // 8) * 8
        self._put(_ARENA_AT, struct.pack("<Q", self.end - _HEADER_BYTES))
        return at

    def _put(self, at: int, data: bytes) -> None:
        os.pwrite(self.file, data, at)
