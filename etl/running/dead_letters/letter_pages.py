"""Dead letters page by page, oldest first: a page costs bounded memory and time, however many letters there are."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import EtlError
from etl.running.dead_letters.letter_files import BEGIN, FilePosition, LetterFile
from etl.running.dead_letters.settled_letters import SettledLetters

PAGE_BYTES = 4 << 20
"""Characters of events and reasons after which a page ends, though it has fewer letters than requested."""

PAGE_SECONDS = 2.0
"""Seconds of reading after which a page ends, though it has fewer letters than requested, or none."""

_CHUNK_BYTES = 1 << 20
"""Bytes of complete lines that are read at once."""


@dataclass(frozen=True)
class LetterCursor:
    """Where a page begins: the first letter of a file, from a line on, that is open and chosen."""

    file: str
    head: str
    """What `LetterFile.head` gave: another file of the same name has no such page."""
    position: FilePosition
    """A position at the line or before it, from which the file is read."""
    line: int

    def encode(self) -> str:
        """The cursor as a text for URLs."""
        values = [self.file, self.head, self.position.bytes, self.position.line, self.line]
        return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")

    @staticmethod
    def decode(text: str) -> LetterCursor:
        """The cursor of a text. Raises EtlError for a text that `encode` has not given."""
        try:
            file, head, *numbers = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            at, first, line = numbers
        except (ValueError, TypeError, RecursionError):
            raise _unknown(text) from None
        texts = isinstance(file, str) and isinstance(head, str)
        if not texts or not all(type(one) is int and 0 <= one < 2**53 for one in (at, first, line)):
            raise _unknown(text)
        return LetterCursor(file, head, FilePosition(at, first), line)


def _unknown(text: str) -> EtlError:
    return EtlError(f"after: {text[:80]!r} is not a `next` of an earlier page; without it the first page is given")


@dataclass
class LetterPage:
    """Some letters, and where the next page begins."""

    letters: list[dict[str, Any]] = field(default_factory=list)
    next: LetterCursor | None = None
    """None before the first letter of all."""
    is_last: bool = True
    """Whether no further letter was there; ``next`` then gives those that come later."""


def letter_page(
    files: Sequence[LetterFile],
    settled: SettledLetters,
    choose: Callable[[pa.RecordBatch], pa.RecordBatch],
    after: LetterCursor | None,
    limit: int,
    seconds: float = PAGE_SECONDS,
) -> LetterPage:
    """At most ``limit`` open letters that ``choose`` keeps, from a cursor on.

    Raises EtlError for a cursor of a file that is gone, and for files that cannot be read.
    """
    until, page = time.monotonic() + seconds, LetterPage(next=after)
    if after is not None and not any(one.name == after.file and one.head() == after.head for one in files):
        raise EtlError("after: the file of that page is gone, because all of its letters were settled; begin with the first page")
    room = PAGE_BYTES
    for file in files:
        if after is not None and file.name < after.file:
            continue
        begins = after is not None and file.name == after.file
        position, line = (after.position, after.line) if after is not None and begins else (BEGIN, 0)
        head = file.head()
        for batch, end in file.batches_from(position, _CHUNK_BYTES):
            found = choose(settled.keep_open(file, batch.filter(pc.greater_equal(batch.column("line"), line))))
            taken = _fitting(found, limit - len(page.letters), room)
            page.letters += taken.to_pylist()
            room -= _characters(taken)
            if taken.num_rows < found.num_rows:
                line = found.column("line")[taken.num_rows].as_py()
                page.next, page.is_last = LetterCursor(file.name, head, position, line), False
                return page
            position, line = end, end.line
            page.next = LetterCursor(file.name, head, position, line)
            if len(page.letters) >= limit or room <= 0 or time.monotonic() > until:
                page.is_last = False
                return page
    return page


def _fitting(found: pa.RecordBatch, rows: int, room: int) -> pa.RecordBatch:
    """The first letters: at most ``rows`` of them with ``room`` characters; a single one may be longer, if there is any room."""
    sizes = _sizes(found.slice(0, rows))
    if len(sizes) == 0:
        return found.slice(0, 0)
    before = pc.subtract(pc.cumulative_sum(sizes), sizes)
    return found.slice(0, pc.sum(pc.less(before, room)).as_py())


def _characters(batch: pa.RecordBatch) -> int:
    return pc.sum(_sizes(batch)).as_py() or 0


def _sizes(batch: pa.RecordBatch) -> pa.Array:
    event, reason = (pc.fill_null(pc.utf8_length(batch.column(name)), 0) for name in ("event", "reason"))
    return pc.cast(pc.add(event, reason), pa.int64())
