"""Tracked files: identified by device and inode, and by samples of the text that was read.

Names change (rotation), inodes are reused, contents are copied and compressed. The text that was read stays: a sample of its
beginning and end is stored with the offset, and a file with the same samples at the same positions is the same file.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from typing import Any, Literal

from connectors.file.reading.file_stream import Codec, CorruptError, FileStream

SAMPLE = 1024
"""Bytes sampled at either end."""

END = 1 << 53
"""Offset that means the end of a compressed file, whose text length is unknown before it is read."""

Inode = tuple[int, int]
"""Device and inode."""

ContentMatch = Literal["same", "more", "other"]


@dataclass(frozen=True, slots=True)
class TrackedFile:
    """A file that was read: its path and offset. Stored as JSON in the source's offset."""

    name: str
    """Its partition: base name and a number that is never reused."""
    path: str
    dev: int
    ino: int
    offset: int
    """Bytes of text read; `END` for a whole compressed file."""
    sample: str = ""
    """Sample of the text up to ``offset``; for a compressed file, of its raw bytes up to ``size``."""
    begin: int = 0
    """Offset at which reading this file began."""
    codec: Codec | None = None
    size: int = 0
    """Raw size of a compressed file."""
    moved: bool = False
    """Whether its name changed, so that soon nothing more is written to it."""
    done: bool = False
    """Whether a compressed file is read completely."""
    gone: float | None = None
    """Since when it is missing (epoch seconds)."""
    ahead: int = 0
    """For a file of which nothing is read yet: its length when it was found."""
    ahead_sample: str = ""
    """Sample of its text up to ``ahead``."""
    key: str = ""
    """For an object of a store: what identifies this version of it."""
    written: float = 0.0
    """For an object of a store: when it was written (epoch seconds)."""
    copied: bool = False
    """Whether it is a short copy of a tracked file, ``ahead`` bytes long; it is read only if it continues with another text."""

    @property
    def inode(self) -> Inode:
        """Device and inode; (0, 0) if another file has them now."""
        return self.dev, self.ino

    @property
    def sample_key(self) -> tuple[int, str]:
        """Number of raw bytes, and their sample, that identify the file."""
        if self.codec:
            return self.size, self.sample
        return (self.ahead, self.ahead_sample) if self.ahead and not self.offset else (self.offset, self.sample)

    @property
    def raw(self) -> int:
        """Number of raw bytes in `sample_key`."""
        return self.sample_key[0]

    @property
    def discovery_number(self) -> int:
        """Position in the order of discovery, which is the order of delivery."""
        return int(self.name.rpartition("#")[2])

    def to_json(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults, without the name, which is the key."""
        return {key: value for key, usual in _DEFAULTS if (value := getattr(self, key)) != usual}


_DEFAULTS = [(one.name, one.default) for one in fields(TrackedFile) if one.name != "name"]


@dataclass(frozen=True, slots=True)
class FileOffsets:
    """The source's offset: all tracked files, and the number of the next new file."""

    files: dict[str, TrackedFile] = field(default_factory=dict)
    next: int = 1
    read: dict[str, float] = field(default_factory=dict)
    """For objects of a store: those that were read lately, by key, with the time at which they were written."""
    listed: float | None = None
    """For objects of a store with notifications: when the latest object was written that a listing had (epoch seconds)."""

    @classmethod
    def from_json(cls, offset: dict[str, Any]) -> FileOffsets:
        """Read an offset of the source (JSON)."""
        return cls(
            {name: TrackedFile(name, **value) for name, value in offset["files"].items()},
            offset["next"],
            offset.get("read", {}),
            offset.get("listed"),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the offset of the source (JSON)."""
        found: dict[str, Any] = {"files": {name: file.to_json() for name, file in self.files.items()}, "next": self.next}
        if self.read:
            found["read"] = self.read
        return found if self.listed is None else {**found, "listed": self.listed}

    def ordered(self) -> list[TrackedFile]:
        """Return the files in the order of delivery."""
        return sorted(self.files.values(), key=lambda file: file.discovery_number)

    def begin(self, file: TrackedFile) -> int:
        """Return the offset from which a file of a later offset is read."""
        mine = self.files.get(file.name)
        return file.begin if mine is None else mine.offset


def sample(stream: FileStream, offset: int) -> str:
    """Return hashes of the first and last bytes of a stream's first ``offset`` bytes; "" if it has fewer."""
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
    """Return the `sample` of a file."""
    with FileStream(path, codec) as stream:
        return sample(stream, offset)


def compare(path: str, codec: Codec | None, file: TrackedFile) -> ContentMatch:
    """Return whether the file at ``path`` contains the text that was read from ``file``, and whether it has more after it."""
    try:
        if file.codec is not None:
            return "same" if os.stat(path).st_size == file.size and sample_at(path, file.size) == file.sample else "other"
        size, expected = file.sample_key
        with FileStream(path, codec) as stream:
            if not expected.startswith(digest(stream.read(min(size, SAMPLE)))):
                return "other"
            if sample(stream, size) != expected:
                return "other"
            return "more" if stream.read(1) else "same"
    except (OSError, CorruptError):
        return "other"


def digest(data: bytes) -> str:
    """Return a hash long enough to distinguish the files of one host."""
    return blake2b(data, digest_size=8).hexdigest()


NO_TEXT = 2 * digest(b"")
"""Sample of an empty text."""
