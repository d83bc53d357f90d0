"""Groups lines into events, by a table that says whether a line continues the event of the line before it.

Patterns classify lines; whether a line begins an event depends only on its class and that of the line before it. So two
neighbouring lines decide, wherever reading begins: this makes splits and restarts exact. Only an event that becomes too large
ends elsewhere, counted from its beginning.
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
"""Captures of patterns for lines that are parts of one line: text removed at the beginning of a part that follows another,
and at the end of a part that is followed."""


class Lines(NamedTuple):
    """The lines of a block that begins at an event's beginning."""

    text: pa.Buffer
    """The block as UTF-8."""

    texts: pa.Array
    """string_view[n] into ``text``."""

    at: Array
    """int64[n]: begin of each line in ``text``."""

    skip: int
    """Bytes of ``text`` before the first line's text."""

    starts: Array
    """int64[n]: begin of each line in the file."""

    ends: Array
    """int64[n]: position of its newline in the file."""

    long: Array | None
    """bool[n]: lines that are too long; they become dead letters and end an event. None if there are none."""


class Events(NamedTuple):
    """Events made of lines."""

    texts: pa.Array
    """string_view[m]."""

    first: Array
    """int64[m]: number of each event's first line."""

    lines: int
    """Number of lines of these events; later lines belong to an event that may continue."""


@dataclass(frozen=True, slots=True)
class LineGrouping:
    """Groups lines into events."""

    scanner: Scanner
    continues: tuple[tuple[bool, ...], ...]
    """Whether a line continues the event, by the number of the pattern that the line before matched, and by its own; the last
    of each row and column: no pattern.
    """

    max_lines: int
    max_bytes: int
    spliced: bool = False
    """Whether lines are parts of one line, joined without `HEAD` and `TAIL` instead of by a newline."""

    def begins(self, texts: pa.Array) -> Array:
        """bool[n]: whether a line begins an event, by the patterns only; the first line does."""
        return self._begins(self.scanner.scan(texts).pattern)

    def events(self, lines: Lines, closed: bool) -> Events:
        """Return the events of a block; ``closed``: nothing after it belongs to the last one."""
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
        gaps = _part_gaps(scan.captures) if self.spliced else _carriage_return_gaps
        return Events(_join_lines(lines, first, last, gaps), first, count)

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
        """int64[n]: the first line that does not fit into an event that begins at a line; one line always fits."""
        import numpy as np

        first = np.arange(len(lines.starts))
        fitting = np.searchsorted(lines.ends, lines.starts + self.max_bytes, "right")
        return np.maximum(first + 1, np.minimum(first + self.max_lines, fitting))

    def _is_whole(self, classes: Array, size: int) -> bool:
        """Return whether an event of ``size`` lines, the last in the block, cannot have more lines."""
        return size >= self.max_lines or not any(self.continues[classes[-1]])


Gaps = Callable[[Lines, "Array", "Array"], tuple["Array", "Array"]]
"""Lines, their lengths, and rows followed by another line of their event → position and size of the text to remove after each
of these rows.
"""


def _carriage_return_gaps(lines: Lines, length: Array, rows: Array) -> tuple[Array, Array]:
    r"""Remove the return of ``\\r\\n``."""
    ends = lines.at[rows] + length[rows]
    return ends, lines.at[rows + 1] - 1 - ends


def _part_gaps(captures: dict[str, pa.Array]) -> Gaps:
    """Remove the end of a part, the newline, and the beginning of the next part."""

    def gaps(lines: Lines, length: Array, rows: Array) -> tuple[Array, Array]:
        head, tail = (_lengths(captures[name]) for name in (HEAD, TAIL))
        begins = lines.at[rows] + length[rows] - tail[rows]
        return begins, lines.at[rows + 1] + head[rows + 1] - begins

    return gaps


def _join_lines(lines: Lines, first: Array, last: Array, gaps: Gaps) -> pa.Array:
    """Return the texts of events: spans of the block, or of a copy without the gaps between lines."""
    import numpy as np

    length = _lengths(lines.texts)
    length[0] += lines.skip
    begins, ends = lines.at[first], lines.at[last] + length[last]
    begins[:1] += lines.skip
    inner = np.ones(int(last[-1]) + 1 if len(last) else 0, np.bool_)
    inner[last] = False
    rows = np.flatnonzero(inner)
    positions, sizes = gaps(lines, length, rows)
    if not sizes.any():
        return _spans(lines.text, begins, ends)
    gone = np.zeros(len(inner) + 1, np.int64)  # bytes removed before each line
    gone[rows + 1] = sizes
    gone = np.cumsum(gone)
    return _spans(_remove_gaps(lines.text, positions, sizes), begins - gone[first], ends - gone[last])


def _remove_gaps(text: pa.Buffer, positions: Array, sizes: Array) -> pa.Buffer:
    """Return the text without the gaps."""
    import numpy as np

    from etl.columns.views import gather

    begins = np.append(0, positions + sizes)
    length = np.append(positions, text.size) - begins
    target = np.empty(text.size + 16, np.uint8)  # the kernel may write 16 bytes more
    gather(np.uint64(text.address) + begins.astype(np.uint64), length, np.uint64(target.ctypes.data))
    return pa.py_buffer(target).slice(0, int(length.sum()))


def _spans(text: pa.Buffer, begins: Array, ends: Array) -> pa.Array:
    import numpy as np

    from etl.columns.texts import Texts, make_span_views

    length = ends - begins
    address = np.uint64(text.address) + begins.astype(np.uint64)
    texts = Texts(address, length, text, text.address, pa.nulls(0))
    return make_span_views(np.zeros(len(length), np.int32), length.astype(np.int32), texts)


def _lengths(texts: pa.Array) -> Array:
    """int64[n]: bytes of each text; 0 for null."""
    import numpy as np

    from etl.columns.texts import Texts

    return np.maximum(Texts.of(texts).length, 0)


def transition_table(classes: int, continues: Callable[[int, int], bool]) -> tuple[tuple[bool, ...], ...]:
    """Return `LineGrouping.continues` for this number of patterns; -1 stands for no pattern."""
    numbers: Sequence[int] = (*range(classes), -1)
    return tuple(tuple(continues(before, this) for this in numbers) for before in numbers)
