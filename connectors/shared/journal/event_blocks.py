"""Block format: messages received at one moment, as a record of the journal: a header, an index of the messages, and their
bytes.

The header is JSON preceded by its length (uint32, little-endian): ``{"time": microseconds, "senders": [[address, port?,
context?, form?], …], "messages": n, "faults": [[start, end, sender, code, size], …]}``. The index is int32[3, n]: begin and end
of each message in the bytes after the index, and the number of its sender. So a reader loops over blocks, not over messages.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_LENGTH = struct.Struct("<I")
_INDEX_ITEM_BYTES = 4
_IPV4_MAPPED_PREFIX = "::ffff:"
_TRIMMED_BYTES = b"\r\n\0"
"""Bytes that are removed from the end of a message."""

_MAX_TRIMMED = 2
"""Maximum number of removed bytes: return and newline, or newline and NUL."""


class Sender(NamedTuple):
    """Address and port of a sender."""

    address: str
    port: int | None = None
    context: str | None = None
    """What else its events have in common, as JSON."""
    form: str | None = None
    """How its events are stored, for receivers that store them in several forms."""

    @classmethod
    def from_socket_name(cls, address: str, port: int) -> Sender:
        """Return the sender for an address; an IPv4 address mapped to IPv6 loses its ``::ffff:``."""
        return cls(address.removeprefix(_IPV4_MAPPED_PREFIX) if "." in address else address, port)


class RejectedMessage(NamedTuple):
    """A message that is rejected: the span of its sample, the code, and its size in bytes."""

    start: int
    end: int
    code: str
    size: int


@dataclass
class Frames:
    """Messages of a piece of a stream or of a request, as spans of ``data``."""

    data: bytes
    spans: list[Array] = field(default_factory=list)
    """int64[2, n] each: begins and ends of messages."""
    rejects: list[RejectedMessage] = field(default_factory=list)


class BlockBuilder:
    """Collects messages for the next block; with ``trims`` they lose line ends, and empty ones are left out."""

    def __init__(self, trims: bool = True) -> None:
        self.bytes = 0
        self._trims = trims
        self._data: list[bytes] = []
        self._spans: list[tuple[Array, Any]] = []
        self._rejects: list[tuple[RejectedMessage, int]] = []
        self._senders: dict[Sender, int] = {}

    def sender_number(self, sender: Sender) -> int:
        """Return the number of a sender in this block."""
        return self._senders.setdefault(sender, len(self._senders))

    def add(self, frames: Frames, sender: Any, sender_of_row: Any = None) -> None:
        """Add messages; ``sender`` is the number of one sender, or an array with one for each message.

        ``sender_of_row`` has one for each message where ``sender`` is only that of the rejected ones.
        """
        if not frames.spans and not frames.rejects:
            return
        self._spans += [(span + self.bytes, sender if sender_of_row is None else sender_of_row) for span in frames.spans]
        moved = [reject._replace(start=reject.start + self.bytes, end=reject.end + self.bytes) for reject in frames.rejects]
        self._rejects += [(reject, sender) for reject in moved]
        self._data.append(frames.data)
        self.bytes += len(frames.data)

    def encode(self, micros: int) -> tuple[bytes, int]:
        """Return the block and its number of events, which is 0 if only empty messages arrived."""
        data = b"".join(self._data)
        index = _trim_line_ends(data, self._index()) if self._trims else self._index()
        rejects = [[reject.start, reject.end, sender, reject.code, reject.size] for reject, sender in self._rejects]
        header = {"time": micros, "senders": list(self._senders), "messages": index.shape[1], "faults": rejects}
        header_json = json.dumps(header, separators=(",", ":")).encode()
        events = index.shape[1] + len(rejects)
        return b"".join((_LENGTH.pack(len(header_json)), header_json, index.tobytes(), data)), events

    def _index(self) -> Array:
        import numpy as np

        index = np.empty((3, sum(span.shape[1] for span, _ in self._spans)), np.int32)
        at = 0
        for span, sender in self._spans:
            rows = slice(at, at := at + span.shape[1])
            index[:2, rows], index[2, rows] = span, sender
        return index


def _trim_line_ends(data: bytes, index: Array) -> Array:
    """Remove line ends, and messages that are empty then."""
    import numpy as np

    raw = np.frombuffer(data, np.uint8)
    for _ in range(_MAX_TRIMMED):
        index = index[:, index[0] < index[1]] if (index[0] >= index[1]).any() else index
        last = np.isin(raw[index[1] - 1], np.frombuffer(_TRIMMED_BYTES, np.uint8))
        if not last.any():
            return index
        index[1] -= last
    return index[:, index[0] < index[1]]


@dataclass(frozen=True, slots=True)
class Block:
    """A parsed block: positions are relative to the bytes that contain it."""

    micros: int
    senders: list[tuple[str, int | None]]
    index: Array
    rejects: list[list[Any]]

    @classmethod
    def parse(cls, data: memoryview, at: int, end: int) -> Block:
        """Parse the block in ``data[at:end]``."""
        import numpy as np

        begin = at + _LENGTH.size
        (length,) = _LENGTH.unpack_from(data, at)
        header_json = json.loads(bytes(data[begin : begin + length]))
        count = header_json["messages"]
        at = begin + length
        index = np.frombuffer(data, np.dtype("<i4"), 3 * count, at).reshape(3, count).copy()
        at += 3 * _INDEX_ITEM_BYTES * count
        index[:2] += at
        rejects = [[start + at, end + at, *more] for start, end, *more in header_json["faults"]]
        return cls(header_json["time"], header_json["senders"], index, rejects)
