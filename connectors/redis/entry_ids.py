"""Identifiers of entries of a stream: milliseconds and a sequence number, both of 64 bits, in growing order."""

from __future__ import annotations

from typing import NamedTuple

SEQUENCE_BITS = 21
_MAX_MILLIS = 1 << 63 - SEQUENCE_BITS


class EntryId(NamedTuple):
    """An identifier; they compare in the order of the stream."""

    millis: int
    sequence: int

    @classmethod
    def parse(cls, text: bytes | str) -> EntryId:
        """Read ``millis-sequence``."""
        millis, _, sequence = (text.decode() if isinstance(text, bytes) else text).partition("-")
        return cls(int(millis), int(sequence or 0))

    def __str__(self) -> str:
        return f"{self.millis}-{self.sequence}"

    @property
    def before(self) -> EntryId:
        """The identifier before this one."""
        if self.sequence:
            return EntryId(self.millis, self.sequence - 1)
        return EntryId(self.millis - 1, (1 << 64) - 1) if self.millis else self

    @property
    def offset(self) -> int | None:
        """The identifier as an int64 in the same order, until the year 2109 and with up to 2 million entries a millisecond; None
        for one beyond, which only a client can make that chooses identifiers itself."""
        fits = self.millis < _MAX_MILLIS and self.sequence < 1 << SEQUENCE_BITS
        return self.millis << SEQUENCE_BITS | self.sequence if fits else None


FIRST = EntryId(0, 0)
"""Before all entries."""
