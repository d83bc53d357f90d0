"""Detects by content that a file is a copy of another, whatever its name.

A copy contains the beginning of the other file's text, or all of it. Different files may have the same beginning (a CSV
header), so the beginning alone never decides, and short files never count as copies.
"""

from __future__ import annotations

import os
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from connectors.file.reading.bounded_cache import BoundedCache
from connectors.file.reading.file_stat import FileStat
from connectors.file.reading.file_stream import Codec, CorruptError, FileStream, codec_of
from connectors.file.reading.tracked_files import SAMPLE, Inode, TrackedFile, digest

MIN_COMPARED_BYTES = 512
"""Files with less text than this are never copies, even if they are equal."""

MIN_TRACKED_COPY_BYTES = 4096
"""Minimum bytes of a copy that has not changed lately (`FileStat.is_settled`), so that it is tracked and read from its end on."""

MIN_COMPRESSED_BYTES = 80
"""Minimum compressed size of a beginning that is more than a few repeated words."""

MAX_FULL_COMPARISON_BYTES = 16 << 20
"""Files up to this size are compared byte by byte; larger ones at `SAMPLED_BLOCKS` positions, including both ends."""

SAMPLED_BLOCKS = 256
COMPARED_BLOCK_BYTES = 64 << 10

_head_cache: BoundedCache[Inode, tuple[Any, bytes]] = BoundedCache()
"""Inode → version of the file, and the beginning of its text."""

_copy_cache: BoundedCache[tuple[Inode, Inode], tuple[Any, bool]] = BoundedCache()
"""Inodes of a file and of another → version of the first, and whether it is a copy of the other."""


def read_head(stat: FileStat) -> bytes:
    """Return the first `SAMPLE` bytes of a file's text, decompressed; empty if it cannot be read now."""
    known = _head_cache.get(stat.inode)
    if known is not None and known[0] == stat.version:
        return known[1]
    try:
        with FileStream(stat.path, codec_of(stat.path)) as stream:
            found = stream.read(SAMPLE)
    except (OSError, CorruptError):
        return b""
    _head_cache[stat.inode] = stat.version, found
    return found


class CopyIndex:
    """Index of tracked files by their beginning."""

    def __init__(self) -> None:
        self._added: list[tuple[TrackedFile, FileStat]] = []
        self._by_head: dict[str, list[TrackedFile]] = defaultdict(list)

    def add(self, file: TrackedFile, stat: FileStat) -> None:
        """Add a file. It is read only when a copy is searched."""
        self._added.append((file, stat))

    def find_original(self, stat: FileStat) -> TrackedFile | None:
        """Return the tracked file of which this file is a copy."""
        text = read_head(stat) if self._by_head or self._added else b""
        if not is_distinctive(text):
            return None
        while self._added:
            self._index(*self._added.pop())
        return next((file for file in self._by_head.get(digest(text[:MIN_COMPARED_BYTES]), ()) if _is_copy(stat, file)), None)

    def _index(self, file: TrackedFile, stat: FileStat) -> None:
        text = read_head(stat)
        if is_distinctive(text):
            self._by_head[digest(text[:MIN_COMPARED_BYTES])].append(file)


class FilesByContent:
    """Index of unknown files by their beginning, to find the one that has the text of a lost file."""

    def __init__(self, files: Iterable[FileStat]) -> None:
        self._by_head: dict[str, list[FileStat]] = defaultdict(list)
        self._by_size: dict[int, list[FileStat]] = defaultdict(list)
        for stat in files:
            text = read_head(stat)
            self._by_size[stat.size].append(stat)
            if len(text) == SAMPLE and is_distinctive(text):
                self._by_head[digest(text)].append(stat)

    def find(self, file: TrackedFile) -> list[FileStat]:
        """Return the files that may have the text read from a tracked file: by its beginning, an archive by its size."""
        size, sample = file.sample_key
        if size < SAMPLE:
            return []
        return self._by_size[size] if file.codec else self._by_head[sample[: len(sample) // 2]]


def is_distinctive(text: bytes) -> bool:
    """Return whether a beginning identifies a file: it is long enough and not a repetition of a few words."""
    return len(text) >= MIN_COMPARED_BYTES and len(zlib.compress(text, 1)) >= MIN_COMPRESSED_BYTES


def longest_first(files: list[FileStat]) -> list[FileStat]:
    """Return the files in their order, but of files with the same beginning the longest first: it is the original."""
    groups: dict[bytes, list[int]] = defaultdict(list)
    for at, stat in enumerate(files):
        if stat.size >= MIN_COMPARED_BYTES or codec_of(stat.path) is not None:
            groups[read_head(stat)[:MIN_COMPARED_BYTES]].append(at)
    ordered = list(files)
    for members in (found for text, found in groups.items() if len(found) > 1 and len(text) == MIN_COMPARED_BYTES):
        alike = sorted((files[at] for at in members), key=_original_first)
        for at, stat in zip(members, alike, strict=True):
            ordered[at] = stat
    return ordered


def _original_first(stat: FileStat) -> tuple[int, bool, int, int, str]:
    packed = codec_of(stat.path) is not None
    return -_text_size(stat), packed, stat.changed_ns, len(os.path.basename(stat.path)), stat.path


def _text_size(stat: FileStat) -> int:
    """Return the bytes of a file's text; 0 if it cannot be decompressed."""
    codec = codec_of(stat.path)
    if codec is None:
        return stat.size
    try:
        with FileStream(stat.path, codec) as stream:
            while stream.read(COMPARED_BLOCK_BYTES):
                pass
            return stream.at
    except (OSError, CorruptError):
        return 0


def _is_copy(stat: FileStat, file: TrackedFile) -> bool:
    known = _copy_cache.get((stat.inode, file.inode))
    if known is not None and known[0] == stat.version:
        return known[1]
    is_copy = stat.path != file.path and _has_same_text(stat, file)
    _copy_cache[stat.inode, file.inode] = stat.version, is_copy
    return is_copy


def _has_same_text(stat: FileStat, file: TrackedFile) -> bool:
    codec = codec_of(stat.path)
    try:
        if codec is not None or file.codec is not None:
            return _is_text_prefix(stat.path, codec, file)
        return stat.size <= os.stat(file.path).st_size and _has_same_bytes(stat.path, file.path, _compared_ranges(stat.size))
    except (OSError, CorruptError):
        return False


def _compared_ranges(size: int) -> Iterator[tuple[int, int]]:
    """Return begin and end of each block to compare in a file of this size."""
    if size <= MAX_FULL_COMPARISON_BYTES:
        return ((at, min(at + COMPARED_BLOCK_BYTES, size)) for at in range(0, size, COMPARED_BLOCK_BYTES))
    return (
        (at, at + COMPARED_BLOCK_BYTES)
        for at in (number * (size - COMPARED_BLOCK_BYTES) // (SAMPLED_BLOCKS - 1) for number in range(SAMPLED_BLOCKS))
    )


def _has_same_bytes(path: str, original: str, ranges: Iterable[tuple[int, int]]) -> bool:
    """Return whether two files have the same bytes in these ranges."""
    with FileStream(path) as one, FileStream(original) as other:
        for begin, end in ranges:
            one.skip(begin - one.at)
            other.skip(begin - other.at)
            if one.read(end - begin) != other.read(end - begin):
                return False
    return True


def _is_text_prefix(path: str, codec: Codec | None, file: TrackedFile) -> bool:
    """Return whether a file's text, decompressed, is the beginning of another's."""
    with FileStream(path, codec) as one, FileStream(file.path, file.codec) as other:
        while text := one.read(COMPARED_BLOCK_BYTES):
            if other.read(len(text)) != text:
                return False
    return True
