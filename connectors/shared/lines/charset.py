"""Newlines of character sets, and finding newlines in bytes."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

_UNITS = {"utf-16-le": 2, "utf-16-be": 2, "utf-32-le": 4, "utf-32-be": 4}
_UNSUPPORTED = {"utf-16", "utf-32", "utf-7", "hz"}


@dataclass(frozen=True, slots=True)
class Charset:
    """A Python codec, the bytes of its newline, and the alignment of newlines in bytes."""

    codec: str
    newline: bytes = b"\n"
    unit: int = 1

    @property
    def is_utf8(self) -> bool:
        """Whether the bytes are text in Arrow's encoding."""
        return self.codec == "utf-8"

    def after_last(self, block: bytes | bytearray, end: int) -> int:
        """Return the end of the last complete line of ``block[:end]``, 0 if there is none."""
        found = block.rfind(self.newline, 0, end)
        while found > 0 and found % self.unit:
            found = block.rfind(self.newline, 0, found + len(self.newline) - 1)
        return found + self.unit if found >= 0 else 0

    def after_first(self, block: bytes | bytearray, end: int) -> int:
        """Return the end of the first line of ``block[:end]``, 0 if there is no newline."""
        found = block.find(self.newline, 0, end)
        while found > 0 and found % self.unit:
            found = block.find(self.newline, found + 1, end)
        return found + self.unit if found >= 0 else 0

    def whole(self, size: int) -> int:
        """Return ``size`` without a partial character."""
        return size - size % self.unit


def is_wide(name: str) -> bool:
    """Return whether a codec is known and its characters have two bytes or more."""
    try:
        return charset(name).unit > 1
    except ValueError:
        return False


def charset(name: str) -> Charset:
    """Return the Charset of a codec name. Raises ValueError with the accepted ones."""
    try:
        found = codecs.lookup(name)
    except LookupError:
        raise ValueError(f"charset {name!r} is unknown; names are Python's: utf-8, latin-1, cp1252, gbk, utf-16-le …") from None
    codec = "utf-8" if found.name == "utf-8-sig" else found.name
    if codec in _UNITS:
        return Charset(codec, "\n".encode(codec), _UNITS[codec])
    if codec in _UNSUPPORTED or not getattr(found, "_is_text_encoding", True) or "\n".encode(codec) != b"\n":
        near = f"write {codec}-le or {codec}-be" if codec in ("utf-16", "utf-32") else "a newline must be the byte 0A"
        raise ValueError(f"charset {name!r} cannot be split into lines; {near}")
    return Charset(codec)
