"""Telling files apart: by device and inode, and by the bytes at both ends of what was read.

Names move (rotation), inodes are used again, contents are copied and compressed. What stays is the text that was
read: a sample of its beginning and of its end is kept with the offset, and whatever holds both at the same places
is the same file.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from typing import Any, Literal

from connectors.file.streams import Codec, CorruptError, Stream

SAMPLE = 1024
"""Bytes looked at on either side."""

END = 1 << 53
"""Offset that means: to the end of a compressed file, whose length is not known before it is read."""

Inode = tuple[int, int]
"""Device and inode."""

Match = Literal["same", "more", "other"]


@dataclass(frozen=True, slots=True)
class Known:
    """A file that was read: where it is, and how far. Kept as JSON in the source's offset."""

    name: str
    """Its partition: base name and a number that is never used again."""
    path: str
    dev: int
    ino: int
    offset: int
    """Bytes of text read; `END` for all of a compressed file."""
    sample: str = ""
    """Of the text up to ``offset``; of a compressed file, its raw bytes up to ``size``."""
    begin: int = 0
    """Where the reading of this file began."""
    codec: Codec | None = None
    size: int = 0
    """Raw size of a compressed file."""
    moved: bool = False
    """It stands under another name than it was found under, so nothing more is written to it, soon."""
    done: bool = False
    """A compressed file of which nothing is left to read."""
    gone: float | None = None
    """Since when (epoch seconds) it cannot be found."""
    ahead: int = 0
    """Of a file that waits for its turn, with nothing read: how far it reached."""
    ahead_sample: str = ""
    """Of its text up to ``ahead``."""
    copied: bool = False
    """A short copy of a known file, ``ahead`` bytes long: nothing of it is read unless it goes on with another text."""

    @property
    def inode(self) -> Inode:
        """Device and inode; (0, 0) when another file has them now."""
        return self.dev, self.ino

    @property
    def proof(self) -> tuple[int, str]:
        """What tells it from other files: so many raw bytes, and their sample."""
        if self.codec:
            return self.size, self.sample
        return (self.ahead, self.ahead_sample) if self.ahead and not self.offset else (self.offset, self.sample)

    @property
    def raw(self) -> int:
        """How many raw bytes `proof` speaks of."""
        return self.proof[0]

    @property
    def number(self) -> int:
        """Its place in the order of discovery, which is the order of delivery."""
        return int(self.name.rpartition("#")[2])

    def to_json(self) -> dict[str, Any]:
        """Without what has its default, and without the name, which is the key."""
        return {key: value for key, usual in _USUAL if (value := getattr(self, key)) != usual}


_USUAL = [(one.name, one.default) for one in fields(Known) if one.name != "name"]


@dataclass(frozen=True, slots=True)
class Position:
    """The source's offset: every file it knows, and the number that the next one gets."""

    files: dict[str, Known] = field(default_factory=dict)
    next: int = 1

    @classmethod
    def of(cls, offset: dict[str, Any]) -> Position:
        """From the JSON form."""
        return cls({name: Known(name, **value) for name, value in offset["files"].items()}, offset["next"])

    def to_json(self) -> dict[str, Any]:
        """As Spark's offset log keeps it."""
        return {"files": {name: file.to_json() for name, file in self.files.items()}, "next": self.next}

    def ordered(self) -> list[Known]:
        """In the order of delivery."""
        return sorted(self.files.values(), key=lambda file: file.number)

    def begin(self, file: Known) -> int:
        """Where the reading of a file goes on that a later position knows."""
        mine = self.files.get(file.name)
        return file.begin if mine is None else mine.offset


def sample(stream: Stream, offset: int) -> str:
    """Hashes of the first and of the last bytes of a stream's first ``offset`` bytes; "" when it has fewer."""
    if stream.at:
        stream.skip(-stream.at)
    size = min(offset, SAMPLE)
    head = stream.read(size)
    between = max(0, offset - 2 * size)
    stream.skip(between)
    rest = stream.read(offset - size - between)
    if len(head) < size or len(rest) < offset - size - between:
        return ""
    return digest(head) + digest((head + rest)[-size:])


def sample_at(path: str, offset: int, codec: Codec | None = None) -> str:
    """`sample` of a file."""
    with Stream(path, codec) as stream:
        return sample(stream, offset)


def compare(path: str, codec: Codec | None, file: Known) -> Match:
    """Whether the file at ``path`` holds the text that was read from ``file``, and more behind it."""
    try:
        if file.codec is not None:
            return "same" if os.stat(path).st_size == file.size and sample_at(path, file.size) == file.sample else "other"
        size, wanted = file.proof
        with Stream(path, codec) as stream:
            if not wanted.startswith(digest(stream.read(min(size, SAMPLE)))):
                return "other"
            if sample(stream, size) != wanted:
                return "other"
            return "more" if stream.read(1) else "same"
    except (OSError, CorruptError):
        return "other"


def digest(data: bytes) -> str:
    """Enough of a hash to tell files of one host apart."""
    return blake2b(data, digest_size=8).hexdigest()


NO_TEXT = 2 * digest(b"")
"""The sample of nothing."""
