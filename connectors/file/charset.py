"""How a character set writes a newline, and finding newlines in raw bytes."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

_UNITS = {"utf-16-le": 2, "utf-16-be": 2, "utf-32-le": 4, "utf-32-be": 4}
_REFUSED = {"utf-16", "utf-32", "utf-7", "hz"}


@dataclass(frozen=True, slots=True)
class Charset:
    """A codec of Python, the bytes of its newline, and the width in bytes at which a newline may stand."""

    codec: str
    newline: bytes = b"\n"
    unit: int = 1

    @property
    def utf8(self) -> bool:
        """Whether the bytes are text as Arrow keeps it."""
        return self.codec == "utf-8"

    def after_last(self, block: bytes | bytearray, end: int) -> int:
        """Where the last whole line of ``block[:end]`` ends, 0 when there is none."""
        found = block.rfind(self.newline, 0, end)
        while found > 0 and found % self.unit:
            found = block.rfind(self.newline, 0, found + len(self.newline) - 1)
        return found + self.unit if found >= 0 else 0

    def after_first(self, block: bytes | bytearray, end: int) -> int:
        """Where the first line of ``block[:end]`` ends, 0 when there is no newline."""
        found = block.find(self.newline, 0, end)
        while found > 0 and found % self.unit:
            found = block.find(self.newline, found + 1, end)
        return found + self.unit if found >= 0 else 0

    def whole(self, size: int) -> int:
        """``size`` without a character that is only begun."""
        return size - size % self.unit


def wide(name: str) -> bool:
    """Whether a codec is known and its characters have two bytes or more."""
    try:
        return charset(name).unit > 1
    except ValueError:
        return False


def charset(name: str) -> Charset:
    """Codec name → Charset. Raises ValueError that says what is accepted."""
    try:
        found = codecs.lookup(name)
    except LookupError:
        raise ValueError(f"charset {name!r} is unknown; names are Python's: utf-8, latin-1, cp1252, gbk, utf-16-le …") from None
    codec = "utf-8" if found.name == "utf-8-sig" else found.name
    if codec in _UNITS:
        return Charset(codec, "\n".encode(codec), _UNITS[codec])
    if codec in _REFUSED or not getattr(found, "_is_text_encoding", True) or "\n".encode(codec) != b"\n":
        near = f"write {codec}-le or {codec}-be" if codec in ("utf-16", "utf-32") else "a newline must be the byte 0A"
        raise ValueError(f"charset {name!r} cannot be cut into lines; {near}")
    return Charset(codec)
