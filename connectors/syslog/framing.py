"""Splits a stream into messages (RFC 6587, RFC 5425). Each message chooses its framing.

A message is octet-counted if it begins with a count, a space and a priority (``34 <13>…``); otherwise it ends at a newline.
After an octet-counted message a count and a space are sufficient. Newlines and NUL after a counted message are skipped.

All messages that end at newlines are found at once. Counts can only be followed one by one: such a message costs one
iteration of a Python loop.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from connectors.shared.journal.event_blocks import Frames, RejectedMessage

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

REJECT_SAMPLE_BYTES = 64 << 10
"""Bytes kept of a message that is too long."""

TOO_LONG, CUT_OFF = "message-too-long", "message-cut-off"

_COUNT = re.compile(rb"([1-9][0-9]{0,8}) (?=<[0-9]{1,3}>)")
_NEXT_COUNT = re.compile(rb"([1-9][0-9]{0,8}) ")
_PARTIAL_COUNT = re.compile(rb"[1-9][0-9]{0,8}(?: (?:<[0-9]{0,3})?)?\Z")
"""The begin of what may be a count when more bytes arrive."""

_LAST_LINE_END = re.compile(rb"\n(?=[1-9][0-9]{0,8}(?:\Z| (?:\Z|<[0-9]{0,3}(?:\Z|>))))")
"""The newline before a counted message, or before what may become one."""

_SEPARATORS = re.compile(rb"[\r\n\0]*")


class Framer:
    """Splits one stream. Holds an incomplete message, at most the longest allowed one with its count."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._rest = b""
        self._counted = False
        self._skip = 0
        self._skip_line = False

    def feed(self, new: bytes) -> Frames:
        """Return the messages that are complete with the new bytes."""
        frames = Frames(self._rest + new if self._rest else new)
        at = self._skip_rest(frames.data)
        while at < len(frames.data):
            after = self._take_counted(frames, at)
            if after is None:
                after = self._take_lines(frames, at)
            if after == at:
                break
            at = after
        self._rest = frames.data[at:]
        return frames

    def finish(self) -> Frames:
        """Return the rest at the end of the stream: a message without its newline, or an incomplete one."""
        frames, self._rest = Frames(self._rest), b""
        found = self._match_count(frames.data, 0)
        if found:
            frames.rejects.append(RejectedMessage(found.end(), len(frames.data), CUT_OFF, int(found[1])))
        elif frames.data:
            frames.spans.append(_span(0, len(frames.data)))
        return frames

    def _skip_rest(self, data: bytes) -> int:
        """Skip the rest of a message that is too long."""
        at = min(self._skip, len(data))
        self._skip -= at
        if self._skip_line:
            found = data.find(b"\n")
            self._skip_line = found < 0
            at = found + 1 or len(data)
        return at

    def _match_count(self, data: bytes, at: int) -> re.Match[bytes] | None:
        return (_NEXT_COUNT if self._counted else _COUNT).match(data, at)

    def _take_counted(self, frames: Frames, at: int) -> int | None:
        """Take counted messages. Returns their end, ``at`` if the next is incomplete, None if there is none."""
        data, size, starts, ends, first = frames.data, len(frames.data), [], [], at
        while True:
            if self._counted:
                at = _SEPARATORS.match(data, at).end()  # type: ignore[union-attr]  # it always matches, possibly the empty text
            found = self._match_count(data, at)
            if not found:
                break
            begin, length = found.end(), int(found[1])
            if length > self._max_bytes:
                if size - begin < min(length, REJECT_SAMPLE_BYTES):
                    break
                frames.rejects.append(RejectedMessage(begin, begin + min(length, REJECT_SAMPLE_BYTES), TOO_LONG, length))
                self._skip = max(length - (size - begin), 0)
                at = min(begin + length, size)
            elif begin + length > size:
                break
            else:
                starts.append(begin)
                ends.append(at := begin + length)
            self._counted = True
        frames.spans += _spans(starts, ends)
        waits = found or _PARTIAL_COUNT.match(data, at)
        return at if at > first or waits else None

    def _take_lines(self, frames: Frames, at: int) -> int:
        """Take lines up to the next counted message. Returns their end, ``at`` if no line is complete."""
        import numpy as np

        self._counted = False
        data = frames.data
        found = _LAST_LINE_END.search(data, at)
        stop = found.end() if found else data.rfind(b"\n", at) + 1
        if stop <= at:
            return self._check_partial_line(frames, at)
        ends = np.flatnonzero(np.frombuffer(data, np.uint8, stop - at, at) == 10) + at
        starts = np.empty_like(ends)
        starts[0], starts[1:] = at, ends[:-1] + 1
        long = ends - starts > self._max_bytes
        for row in np.flatnonzero(long).tolist():
            start, end = int(starts[row]), int(ends[row])
            frames.rejects.append(RejectedMessage(start, min(end, start + REJECT_SAMPLE_BYTES), TOO_LONG, end - start))
        frames.spans.append(np.stack([starts[~long], ends[~long]]))
        return stop

    def _check_partial_line(self, frames: Frames, at: int) -> int:
        """Return ``at`` to wait for the rest of a line, or reject it if it is already too long."""
        size = len(frames.data)
        if size - at <= self._max_bytes:
            return at
        frames.rejects.append(RejectedMessage(at, min(size, at + REJECT_SAMPLE_BYTES), TOO_LONG, size - at))
        self._skip_line = True
        return size


def _span(start: int, end: int) -> Array:
    return _spans([start], [end])[0]


def _spans(starts: list[int], ends: list[int]) -> list[Array]:
    import numpy as np

    return [np.array([starts, ends], np.int64)] if starts else []
