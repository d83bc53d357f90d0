"""Finding out that a file is a copy of another by its text, whatever its name.

A copy holds the beginning of the other file's text, or all of it. Two different files may begin alike (the header of a
CSV file), so nothing is decided by the beginning alone, and short files are never taken for copies.
"""

from __future__ import annotations

import os
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from connectors.file.identity import SAMPLE, Inode, Known, digest
from connectors.file.places import Place
from connectors.file.streams import Codec, CorruptError, Stream, codec_of

SHORTEST = 512
"""Bytes of text below which two files that are equal are two files."""

CERTAIN = 4096
"""Bytes from which on a copy that has settled is remembered as one, and read from its end when it grows."""

TELLING = 80
"""Bytes to which a beginning can be compressed at best when it is more than a few words again and again."""

WHOLE = 16 << 20
"""Bytes up to which two files are compared byte by byte; larger ones in `BLOCKS` places, both ends among them."""

BLOCKS = 256
BLOCK = 64 << 10

_FACTS = 100_000

_heads: dict[Inode, tuple[Any, bytes]] = {}
"""Pure cache: the version of a file, and how its text begins."""

_verdicts: dict[tuple[Inode, Inode], tuple[Any, bool]] = {}
"""Pure cache: the version of a file, and whether it is a copy of another."""


def head(here: Place) -> bytes:
    """The first `SAMPLE` bytes of a file's text, unpacked; empty when it cannot be read now."""
    known = _heads.get(here.inode)
    if known is not None and known[0] == here.version:
        return known[1]
    try:
        with Stream(here.path, codec_of(here.path)) as stream:
            found = stream.read(SAMPLE)
    except (OSError, CorruptError):
        return b""
    _remember(_heads, here.inode, (here.version, found))
    return found


class Originals:
    """Files that are known and where they should be, by how they begin."""

    def __init__(self) -> None:
        self._added: list[tuple[Known, Place]] = []
        self._by_head: dict[str, list[Known]] = defaultdict(list)

    def add(self, file: Known, here: Place) -> None:
        """One more. It is looked at when a copy is asked for."""
        self._added.append((file, here))

    def original(self, here: Place) -> Known | None:
        """The file of which the one at a place is a copy."""
        text = head(here) if self._by_head or self._added else b""
        if not is_distinctive(text):
            return None
        while self._added:
            self._sort_in(*self._added.pop())
        return next((file for file in self._by_head.get(digest(text[:SHORTEST]), ()) if _is_copy(here, file)), None)

    def _sort_in(self, file: Known, here: Place) -> None:
        text = head(here)
        if is_distinctive(text):
            self._by_head[digest(text[:SHORTEST])].append(file)


class Candidates:
    """Files that are not known, by how they begin, for those that may hold the text of one that is lost."""

    def __init__(self, places: Iterable[Place]) -> None:
        self._by_head: dict[str, list[Place]] = defaultdict(list)
        self._by_size: dict[int, list[Place]] = defaultdict(list)
        for here in places:
            text = head(here)
            self._by_size[here.size].append(here)
            if len(text) == SAMPLE and is_distinctive(text):
                self._by_head[digest(text)].append(here)

    def of(self, file: Known) -> list[Place]:
        """Those that may hold what was read of a file: its beginning tells, and of an archive its size."""
        size, sample = file.proof
        if size < SAMPLE:
            return []
        return self._by_size[size] if file.codec else self._by_head[sample[: len(sample) // 2]]


def is_distinctive(text: bytes) -> bool:
    """Whether a file's beginning tells it from others: it is long enough, and no repetition of a few words."""
    return len(text) >= SHORTEST and len(zlib.compress(text, 1)) >= TELLING


def longest_first(places: list[Place]) -> list[Place]:
    """The same files, in their order but for those that begin alike: of these the longest comes first, and is the original."""
    groups: dict[bytes, list[int]] = defaultdict(list)
    for at, here in enumerate(places):
        if here.size >= SHORTEST or codec_of(here.path) is not None:
            groups[head(here)[:SHORTEST]].append(at)
    ordered = list(places)
    for members in (found for text, found in groups.items() if len(found) > 1 and len(text) == SHORTEST):
        alike = sorted((places[at] for at in members), key=_originality)
        for at, here in zip(members, alike, strict=True):
            ordered[at] = here
    return ordered


def _originality(here: Place) -> tuple[int, bool, int, int, str]:
    packed = codec_of(here.path) is not None
    return -_text_size(here), packed, here.changed_ns, len(os.path.basename(here.path)), here.path


def _text_size(here: Place) -> int:
    """Bytes of a file's text; 0 when it cannot be unpacked."""
    codec = codec_of(here.path)
    if codec is None:
        return here.size
    try:
        with Stream(here.path, codec) as stream:
            while stream.read(BLOCK):
                pass
            return stream.at
    except (OSError, CorruptError):
        return 0


def _is_copy(here: Place, file: Known) -> bool:
    known = _verdicts.get((here.inode, file.inode))
    if known is not None and known[0] == here.version:
        return known[1]
    verdict = here.path != file.path and _holds_same(here, file)
    _remember(_verdicts, (here.inode, file.inode), (here.version, verdict))
    return verdict


def _holds_same(here: Place, file: Known) -> bool:
    codec = codec_of(here.path)
    try:
        if codec is not None or file.codec is not None:
            return _begins_as(here.path, codec, file)
        return here.size <= os.stat(file.path).st_size and _same(here.path, file.path, _places(here.size))
    except (OSError, CorruptError):
        return False


def _places(size: int) -> Iterator[tuple[int, int]]:
    """Where a file of so many bytes is compared: begin and end of each block."""
    if size <= WHOLE:
        return ((at, min(at + BLOCK, size)) for at in range(0, size, BLOCK))
    return ((at, at + BLOCK) for at in (number * (size - BLOCK) // (BLOCKS - 1) for number in range(BLOCKS)))


def _same(path: str, original: str, places: Iterable[tuple[int, int]]) -> bool:
    """Whether a file has the bytes of another at these places."""
    with Stream(path) as one, Stream(original) as other:
        for begin, end in places:
            one.skip(begin - one.at)
            other.skip(begin - other.at)
            if one.read(end - begin) != other.read(end - begin):
                return False
    return True


def _begins_as(path: str, codec: Codec | None, file: Known) -> bool:
    """Whether all of a file's text, unpacked, is how that of another begins."""
    with Stream(path, codec) as one, Stream(file.path, file.codec) as other:
        while text := one.read(BLOCK):
            if other.read(len(text)) != text:
                return False
    return True


def _remember(cache: dict[Any, Any], key: Any, value: Any) -> None:
    if len(cache) >= _FACTS:
        cache.clear()
    cache[key] = value
