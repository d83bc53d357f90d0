"""Which lines make an event: a table that says whether a line goes on with the event of the line before it.

Patterns sort lines into classes; whether a line begins an event follows from its own class and that of the line
before, and from nothing else. So any two neighbouring lines tell, wherever in a file one begins to look: that is what
makes splits and restarts exact. Only an event that grows too large ends elsewhere, counted from where it began.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    import numpy as np

    from etl.scanner.scanner import Scanner

    Array = np.ndarray[Any, Any]

HEAD, TAIL = "head", "tail"
"""Captures of patterns whose lines are parts of one line: what is left out of a part that follows another, at its
beginning, and of one that another follows, at its end."""


class Lines(NamedTuple):
    """The lines of a block that begins where an event does."""

    text: pa.Buffer
    """The block as UTF-8."""

    texts: pa.Array
    """string_view[n] into ``text``."""

    at: Array
    """int64[n]: where each line begins in ``text``."""

    skip: int
    """Bytes of ``text`` that are none of the first line's text."""

    starts: Array
    """int64[n]: where each line begins in the file."""

    ends: Array
    """int64[n]: where its newline stands there."""

    long: Array | None
    """bool[n]: lines that are no event but a dead letter, which breaks an event; None when there are none."""


class Events(NamedTuple):
    """Lines gathered into events."""

    texts: pa.Array
    """string_view[m]."""

    first: Array
    """int64[m]: the number of each event's first line."""

    lines: int
    """How many lines belong to them; those behind are of an event that may go on."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """Lines → events."""

    scanner: Scanner
    continues: tuple[tuple[bool, ...], ...]
    """Whether a line goes on with the event before, by the number of the pattern that the line before matched, then by
    its own; last in each row and column: no pattern."""

    max_lines: int
    max_bytes: int
    spliced: bool = False
    """Whether lines are parts of one line, joined without `HEAD` and `TAIL`, not by a newline."""

    def begins(self, texts: pa.Array) -> Array:
        """bool[n]: whether a line begins an event, as far as patterns say; the first is taken to."""
        return self._begins(self.scanner.scan(texts).pattern)

    def events(self, lines: Lines, closed: bool) -> Events:
        """The events of a block; ``closed``: nothing behind it belongs to the last of them."""
        import numpy as np

        scan = self.scanner.scan(lines.texts)
        begins = self._begins(scan.pattern)
        if lines.long is not None:
            begins |= lines.long
            begins[1:] |= lines.long[:-1]
        self._close_large(begins, lines)
        first = np.flatnonzero(begins)
        count = len(begins)
        broken = lines.long is not None and bool(lines.long[-1])
        if not (closed or broken or self._is_whole(scan.pattern, count - first[-1])):
            first, count = first[:-1], int(first[-1])
        last = np.append(first[1:], count) - 1 if len(first) else first
        gaps = _spliced(scan.captures) if self.spliced else _returns
        return Events(_joined(lines, first, last, gaps), first, count)

    def _begins(self, classes: Array) -> Array:
        import numpy as np

        begins = np.ones(len(classes), np.bool_)
        goes_on = np.array(self.continues)
        begins[1:] = ~goes_on[classes[:-1], classes[1:]]
        return begins

    def _close_large(self, begins: Array, lines: Lines) -> None:
        """Begin an event where the one before would have too many lines or bytes. Loops over such events only."""
        import numpy as np

        first = np.flatnonzero(begins)
        after = np.append(first[1:], len(begins))
        large = (after - first > self.max_lines) | (lines.ends[after - 1] - lines.starts[first] > self.max_bytes)
        if not large.any():
            return
        beyond = self._beyond(lines).tolist()
        for at, end in zip(first[large].tolist(), after[large].tolist(), strict=True):
            while (at := beyond[at]) < end:
                begins[at] = True

    def _beyond(self, lines: Lines) -> Array:
        """int64[n]: the first line that an event which begins at a line cannot hold; it holds one, however long."""
        import numpy as np

        first = np.arange(len(lines.starts))
        fitting = np.searchsorted(lines.ends, lines.starts + self.max_bytes, "right")
        return np.maximum(first + 1, np.minimum(first + self.max_lines, fitting))

    def _is_whole(self, classes: Array, size: int) -> bool:
        """Whether an event of ``size`` lines, the last in the block, takes no other line."""
        return size >= self.max_lines or not any(self.continues[classes[-1]])


Gaps = Callable[[Lines, "Array", "Array"], tuple["Array", "Array"]]
"""Lines, their lengths and the rows that another line of their event follows → what is left out behind each of these
rows: its place and size."""


def _returns(lines: Lines, length: Array, rows: Array) -> tuple[Array, Array]:
    """The return of ``\\r\\n``."""
    ends = lines.at[rows] + length[rows]
    return ends, lines.at[rows + 1] - 1 - ends


def _spliced(captures: dict[str, pa.Array]) -> Gaps:
    """The end of a part, the newline, and the beginning of the next part."""

    def gaps(lines: Lines, length: Array, rows: Array) -> tuple[Array, Array]:
        head, tail = (_lengths(captures[name]) for name in (HEAD, TAIL))
        begins = lines.at[rows] + length[rows] - tail[rows]
        return begins, lines.at[rows + 1] + head[rows + 1] - begins

    return gaps


def _joined(lines: Lines, first: Array, last: Array, gaps: Gaps) -> pa.Array:
    """The texts of events: spans of the block, or of a copy without what is left out between lines."""
    import numpy as np

    length = _lengths(lines.texts)
    length[0] += lines.skip
    begins, ends = lines.at[first], lines.at[last] + length[last]
    begins[:1] += lines.skip
    inner = np.ones(int(last[-1]) + 1 if len(last) else 0, np.bool_)
    inner[last] = False
    rows = np.flatnonzero(inner)
    places, sizes = gaps(lines, length, rows)
    if not sizes.any():
        return _spans(lines.text, begins, ends)
    gone = np.zeros(len(inner) + 1, np.int64)  # bytes left out in front of each line
    gone[rows + 1] = sizes
    gone = np.cumsum(gone)
    return _spans(_without(lines.text, places, sizes), begins - gone[first], ends - gone[last])


def _without(text: pa.Buffer, places: Array, sizes: Array) -> pa.Buffer:
    """The bytes that are left, end to end."""
    import numpy as np

    from etl.columns.views import gather

    begins = np.append(0, places + sizes)
    length = np.append(places, text.size) - begins
    target = np.empty(text.size + 16, np.uint8)  # the kernel may write 16 bytes more
    gather(np.uint64(text.address) + begins.astype(np.uint64), length, np.uint64(target.ctypes.data))
    return pa.py_buffer(target).slice(0, int(length.sum()))


def _spans(text: pa.Buffer, begins: Array, ends: Array) -> pa.Array:
    import numpy as np

    from etl.columns.texts import Texts, views_of

    length = ends - begins
    address = np.uint64(text.address) + begins.astype(np.uint64)
    texts = Texts(address, length, text, text.address, pa.nulls(0))
    return views_of(np.zeros(len(length), np.int32), length.astype(np.int32), texts)


def _lengths(texts: pa.Array) -> Array:
    """int64[n]: bytes of each text; 0 for null."""
    import numpy as np

    from etl.columns.texts import Texts

    return np.maximum(Texts.of(texts).length, 0)


def table(classes: int, continues: Callable[[int, int], bool]) -> tuple[tuple[bool, ...], ...]:
    """`Grouping.continues` for so many patterns; -1 stands for none of them."""
    numbers: Sequence[int] = (*range(classes), -1)
    return tuple(tuple(continues(before, this) for this in numbers) for before in numbers)
