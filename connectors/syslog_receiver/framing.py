"""Where messages begin and end in a stream (RFC 6587, RFC 5425): each says itself how it is framed.

A message is octet-counted when it begins with a count, a space and a priority (``34 <13>…``), and ends at a newline
otherwise. Behind an octet-counted message a count and a space are enough. Newlines and NUL behind a counted message
belong to nothing.

Messages that end at newlines are found all at once. Counts can only be followed one by one: such a message costs a turn
of a Python loop.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

SHOWN = 64 << 10
"""Bytes that are kept of a message that is too long."""

TOO_LONG, CUT_OFF = "message-too-long", "message-cut-off"

_COUNT = re.compile(rb"([1-9][0-9]{0,8}) (?=<[0-9]{1,3}>)")
_COUNT_AGAIN = re.compile(rb"([1-9][0-9]{0,8}) ")
_MAYBE_COUNT = re.compile(rb"[1-9][0-9]{0,8}(?: (?:<[0-9]{0,3})?)?\Z")
"""What may turn out to be one when more has come."""

_LINES_END = re.compile(rb"\n(?=[1-9][0-9]{0,8}(?:\Z| (?:\Z|<[0-9]{0,3}(?:\Z|>))))")
"""The newline in front of what is, or may turn out to be, a counted message."""

_BETWEEN = re.compile(rb"[\r\n\0]*")


class Fault(NamedTuple):
    """A message that cannot be taken: which bytes of it are kept, why, and how many it has."""

    start: int
    end: int
    code: str
    size: int


@dataclass
class Frames:
    """Messages of a piece of a stream, as spans of ``data``."""

    data: bytes
    spans: list[Array] = field(default_factory=list)
    """int64[2, n] each: where messages begin, and where they end."""
    faults: list[Fault] = field(default_factory=list)


class Framer:
    """Cuts one stream. Keeps what is not yet a message: never more than the longest allowed, and a count."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rest = b""
        self._counted = False
        self._skip = 0
        self._skip_line = False

    def feed(self, new: bytes) -> Frames:
        """The messages that are whole now."""
        frames = Frames(self._rest + new if self._rest else new)
        at = self._skipped(frames.data)
        while at < len(frames.data):
            after = self._one_counted(frames, at)
            if after is None:
                after = self._lines(frames, at)
            if after == at:
                break
            at = after
        self._rest = frames.data[at:]
        return frames

    def finish(self) -> Frames:
        """The stream ended: what is left is a message without its newline, or one that was cut off."""
        frames, self._rest = Frames(self._rest), b""
        found = self._count(frames.data, 0)
        if found:
            frames.faults.append(Fault(found.end(), len(frames.data), CUT_OFF, int(found[1])))
        elif frames.data:
            frames.spans.append(_span(0, len(frames.data)))
        return frames

    def _skipped(self, data: bytes) -> int:
        """Pass over the rest of a message that is too long."""
        at = min(self._skip, len(data))
        self._skip -= at
        if self._skip_line:
            found = data.find(b"\n")
            self._skip_line = found < 0
            at = found + 1 or len(data)
        return at

    def _count(self, data: bytes, at: int) -> re.Match[bytes] | None:
        return (_COUNT_AGAIN if self._counted else _COUNT).match(data, at)

    def _one_counted(self, frames: Frames, at: int) -> int | None:
        """Take counted messages: where they end, ``at`` when the next has not come whole; None when there is none."""
        data, size, starts, ends, first = frames.data, len(frames.data), [], [], at
        while True:
            if self._counted:
                at = _BETWEEN.match(data, at).end()  # type: ignore[union-attr]  # it matches nothing, too
            found = self._count(data, at)
            if not found:
                break
            begin, length = found.end(), int(found[1])
            if length > self._most:
                if size - begin < min(length, SHOWN):
                    break
                frames.faults.append(Fault(begin, begin + min(length, SHOWN), TOO_LONG, length))
                self._skip = max(length - (size - begin), 0)
                at = min(begin + length, size)
            elif begin + length > size:
                break
            else:
                starts.append(begin)
                ends.append(at := begin + length)
            self._counted = True
        frames.spans += _spans(starts, ends)
        waits = found or _MAYBE_COUNT.match(data, at)
        return at if at > first or waits else None

    def _lines(self, frames: Frames, at: int) -> int:
        """Take lines up to the next counted message: where they end, ``at`` when none has come whole."""
        import numpy as np

        self._counted = False
        data = frames.data
        found = _LINES_END.search(data, at)
        stop = found.end() if found else data.rfind(b"\n", at) + 1
        if stop <= at:
            return self._unfinished(frames, at)
        ends = np.flatnonzero(np.frombuffer(data, np.uint8, stop - at, at) == 10) + at
        starts = np.empty_like(ends)
        starts[0], starts[1:] = at, ends[:-1] + 1
        long = ends - starts > self._most
        for row in np.flatnonzero(long).tolist():
            start, end = int(starts[row]), int(ends[row])
            frames.faults.append(Fault(start, min(end, start + SHOWN), TOO_LONG, end - start))
        frames.spans.append(np.stack([starts[~long], ends[~long]]))
        return stop

    def _unfinished(self, frames: Frames, at: int) -> int:
        """A line without its end: more of it is awaited, unless it is too long already."""
        size = len(frames.data)
        if size - at <= self._most:
            return at
        frames.faults.append(Fault(at, min(size, at + SHOWN), TOO_LONG, size - at))
        self._skip_line = True
        return size


def _span(start: int, end: int) -> Array:
    return _spans([start], [end])[0]


def _spans(starts: list[int], ends: list[int]) -> list[Array]:
    import numpy as np

    return [np.array([starts, ends], np.int64)] if starts else []
