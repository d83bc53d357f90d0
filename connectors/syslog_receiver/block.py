"""What was received at one moment, as a record of the journal: a head, an index of the messages, and their bytes.

The head is JSON behind its length (uint32, little-endian): ``{"time": microseconds, "senders": [[address, port?], …],
"messages": n, "faults": [[start, end, sender, code, size], …]}``. The index is int32[3, n]: where each message begins and
ends in the bytes behind the index, and its sender's number. So a reader loops over blocks, not over messages.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from connectors.syslog_receiver.framing import Fault, Frames

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_LENGTH = struct.Struct("<I")
_WIDTH = 4
_MAPPED = "::ffff:"
_LAST = b"\r\n\0"
"""Bytes that belong to no message when they end it."""

_LAST_COUNT = 2
"""How many of them are taken off: a return and a newline, a newline and NUL."""


class Sender(NamedTuple):
    """Who sent a message."""

    address: str
    port: int | None = None

    @classmethod
    def of(cls, address: str, port: int) -> Sender:
        """An address as people write it: one of IPv4 inside IPv6 without its ``::ffff:``."""
        return cls(address.removeprefix(_MAPPED) if "." in address else address, port)


class Gathered:
    """Messages on their way into the journal."""

    def __init__(self) -> None:
        self.bytes = 0
        self._data: list[bytes] = []
        self._spans: list[tuple[Array, Any]] = []
        self._faults: list[tuple[Fault, int]] = []
        self._senders: dict[Sender, int] = {}

    def number(self, sender: Sender) -> int:
        """By which a sender is known here."""
        return self._senders.setdefault(sender, len(self._senders))

    def add(self, frames: Frames, sender: Any) -> None:
        """Take messages; ``sender`` is the number of one sender, or an array of one for each message."""
        if not frames.spans and not frames.faults:
            return
        self._spans += [(span + self.bytes, sender) for span in frames.spans]
        moved = [fault._replace(start=fault.start + self.bytes, end=fault.end + self.bytes) for fault in frames.faults]
        self._faults += [(fault, sender) for fault in moved]
        self._data.append(frames.data)
        self.bytes += len(frames.data)

    def encoded(self, micros: int) -> tuple[bytes, int]:
        """The block and how many events it holds; none at all when only empty messages came."""
        data = b"".join(self._data)
        index = _trimmed(data, self._index())
        faults = [[fault.start, fault.end, sender, fault.code, fault.size] for fault, sender in self._faults]
        said = {"time": micros, "senders": list(self._senders), "messages": index.shape[1], "faults": faults}
        head = json.dumps(said, separators=(",", ":")).encode()
        events = index.shape[1] + len(faults)
        return b"".join((_LENGTH.pack(len(head)), head, index.tobytes(), data)), events

    def _index(self) -> Array:
        import numpy as np

        index = np.empty((3, sum(span.shape[1] for span, _ in self._spans)), np.int32)
        at = 0
        for span, sender in self._spans:
            rows = slice(at, at := at + span.shape[1])
            index[:2, rows], index[2, rows] = span, sender
        return index


def _trimmed(data: bytes, index: Array) -> Array:
    """Without ends of lines, and without messages that are empty then."""
    import numpy as np

    raw = np.frombuffer(data, np.uint8)
    for _ in range(_LAST_COUNT):
        index = index[:, index[0] < index[1]] if (index[0] >= index[1]).any() else index
        last = np.isin(raw[index[1] - 1], np.frombuffer(_LAST, np.uint8))
        if not last.any():
            return index
        index[1] -= last
    return index[:, index[0] < index[1]]


@dataclass(frozen=True, slots=True)
class Block:
    """A block that was read: positions are relative to the bytes it was found in."""

    micros: int
    senders: list[tuple[str, int | None]]
    index: Array
    faults: list[list[Any]]

    @classmethod
    def read(cls, data: memoryview, at: int, end: int) -> Block:
        """The block that lies in ``data[at:end]``."""
        import numpy as np

        begin = at + _LENGTH.size
        (length,) = _LENGTH.unpack_from(data, at)
        head = json.loads(bytes(data[begin : begin + length]))
        count = head["messages"]
        at = begin + length
        index = np.frombuffer(data, np.dtype("<i4"), 3 * count, at).reshape(3, count).copy()
        at += 3 * _WIDTH * count
        index[:2] += at
        faults = [[start + at, end + at, *more] for start, end, *more in head["faults"]]
        return cls(head["time"], head["senders"], index, faults)
