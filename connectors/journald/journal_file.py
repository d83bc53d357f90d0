"""A journal file: its header, and where its entries are.

The format is published as "Journal File Format" (https://systemd.io/JOURNAL_FILE_FORMAT).
"""

from __future__ import annotations

import mmap
import os
import struct
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any, Self

HEADER_BYTES = 208
"""Bytes of the header of the first version; later versions are longer."""

MIN_ENTRY_BYTES = 68
"""Minimum number of bytes that an entry takes in a file, with its place in an array of entries."""

_SIGNATURE = b"LPKSHHRH"
_HEADER = struct.Struct("<8sIIB7x16s16s16s16s15Q")
_XZ, _LZ4, _KEYED_HASH, _ZSTD, _COMPACT = 1, 2, 4, 8, 16
_KNOWN_FLAGS = _XZ | _LZ4 | _KEYED_HASH | _ZSTD | _COMPACT
_ARRAY_HEAD = 24
_ENTRY_ARRAY = 6
_OBJECT = struct.Struct("<B7xQQ")
_REALTIME_AT = 24


class NotAJournalError(Exception):
    """The file is not a journal, or one of a format that is not known."""


@dataclass(frozen=True, slots=True)
class JournalHeader:
    """What the header of a journal file says."""

    id: str
    """Identifies the file under each of its names, hexadecimal."""
    seqnum_id: str
    machine_id: str
    compact: bool
    entries: int
    head_seqnum: int
    """Sequence number of the first entry: they grow over the files of one ``seqnum_id``."""
    first_array: int
    """Position of the first array of entries; 0 without entries."""
    head_time: int
    """Time of the first entry, microseconds since 1970."""
    tail_time: int
    used_bytes: int
    """Bytes up to the last object."""

    @property
    def entry_bytes(self) -> float:
        """Mean bytes of an entry with what it refers to."""
        return max(1.0, self.used_bytes / max(1, self.entries))

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read a header. Raises NotAJournalError."""
        if len(data) < HEADER_BYTES:
            raise NotAJournalError("it is shorter than a header")
        signature, _, flags, _, id_, machine, _, seqnum_id, *numbers = _HEADER.unpack_from(data)
        if signature != _SIGNATURE:
            raise NotAJournalError("it does not begin as a journal does")
        if flags & ~_KNOWN_FLAGS:
            raise NotAJournalError(f"its format is newer than this version can read (incompatible flags {flags:#x})")
        header_size, _, _, _, _, _, tail_object, _, entries, _, head_seqnum, first_array, head_time, tail_time, _ = numbers
        if header_size < HEADER_BYTES:
            raise NotAJournalError(f"its header has {header_size} bytes, not {HEADER_BYTES} or more")
        compact = bool(flags & _COMPACT)
        times = (head_time, tail_time)
        return cls(
            id_.hex(), seqnum_id.hex(), machine.hex(), compact, entries, head_seqnum, first_array, *times, used_bytes=tail_object
        )

    def is_after(self, other: Self) -> bool:
        """Whether the file was begun after another one."""
        if self.seqnum_id == other.seqnum_id:
            return self.head_seqnum > other.head_seqnum
        return self.head_time > other.head_time


def read_header(path: str) -> JournalHeader:
    """Read the header of a file. Raises NotAJournalError and OSError."""
    with open(path, "rb") as file:
        return JournalHeader.parse(file.read(HEADER_BYTES))


class JournalFile:
    """A journal file that is mapped into memory. Entries and what they refer to do not change once they are written.

    Raises NotAJournalError and OSError.
    """

    def __init__(self, path: str) -> None:
        import numpy as np

        self.path = path
        with open(path, "rb") as file:
            self.header = JournalHeader.parse(file.read(HEADER_BYTES))
            self.map = mmap.mmap(file.fileno(), os.fstat(file.fileno()).st_size, access=mmap.ACCESS_READ)
        self.data = np.frombuffer(self.map, np.uint8)

    @property
    def item_bytes(self) -> int:
        """Bytes of a reference from an entry to a data object."""
        return 4 if self.header.compact else 16

    @property
    def data_head(self) -> int:
        """Bytes of a data object before its content."""
        return 72 if self.header.compact else 64

    def entry_positions(self, begin: int, end: int) -> Any:
        """int64[m]: where the entries ``begin`` to ``end`` are, fewer if an array of them is damaged."""
        import numpy as np

        width = "<u4" if self.header.compact else "<u8"
        at, first, found = self.header.first_array, 0, []
        while first < end and self._is_array(at):
            _, length, after = _OBJECT.unpack_from(self.map, at)
            count = (length - _ARRAY_HEAD) // int(width[2])
            if first + count > begin:
                array = np.frombuffer(self.map, width, count, at + _ARRAY_HEAD)
                found.append(array[max(begin - first, 0) : end - first].astype(np.int64))
            first, at = first + count, after if after > at else 0  # journald appends each array behind the one before it
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def _is_array(self, at: int) -> bool:
        size = len(self.map)
        if at < HEADER_BYTES or at % 8 or at > size - _ARRAY_HEAD:
            return False
        kind, length, _ = _OBJECT.unpack_from(self.map, at)
        return bool(kind == _ENTRY_ARRAY and _ARRAY_HEAD < length <= size - at)

    def find_time(self, micros: int) -> int:
        """The number of the first entry of this time or later, if times grow."""
        header = self.header
        if not header.entries or header.head_time >= micros:
            return 0
        positions = self.entry_positions(0, min(header.entries, len(self.map) // MIN_ENTRY_BYTES))
        return bisect_left(range(len(positions)), micros, key=lambda number: self._time(int(positions[number])))

    def _time(self, at: int) -> int:
        end = at + _REALTIME_AT + 8
        return int.from_bytes(self.map[end - 8 : end], "little") if at > 0 and end <= len(self.map) else 1 << 62
