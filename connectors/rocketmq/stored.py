"""Messages as brokers store them, found in a block of answers: nothing is copied but bodies that are compressed.

Source of the format: ``MessageDecoder`` and ``MessageSysFlag`` of RocketMQ 5.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connectors.rocketmq.bodies import unpacked
from connectors.rocketmq.frames import ProtocolError

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

OFFSET, FLAGS, BORN, STORED, BODY_BEGIN, BODY_END, PROPERTIES_BEGIN, PROPERTIES_END = range(8)
"""What the rows of `Stored.parts` are."""

COMPRESSED, NESTED = 1, 0x80 | 0x40
"""Bits of ``FLAGS``; both of the latter are set where a body is messages (`nested`)."""

_PARTS = 8
_SMALLEST = 91
"""Bytes of a message without topic, body and properties."""

_UNPACKED_AT_ONCE = 32 << 20
"""After so many decompressed bytes a batch ends."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Messages that lie in one buffer."""

    buffer: pa.Buffer
    parts: Array
    """int64[8, n]: of each message the things that `OFFSET` to `PROPERTIES_END` name; positions count from the buffer's
    begin."""

    @classmethod
    def located(cls, block: bytes, after: int, end: int) -> Stored:
        """The messages of a block whose offsets grow from behind ``after`` to before ``end``, and those that hold others,
        which may have such offsets. Raises ProtocolError."""
        import numpy as np

        from connectors.rocketmq.stored_kernel import locate

        buffer = pa.py_buffer(block)
        parts = np.empty((_PARTS, len(block) // _SMALLEST + 1), np.int64)
        count = locate(np.frombuffer(buffer, np.uint8), np.int64(after), np.int64(end), parts)
        if count < 0:
            raise ProtocolError(f"what a broker sent is no message of RocketMQ: {block[-1 - count :][:64].hex(' ')}")
        return cls(buffer, parts[:, :count])

    def __len__(self) -> int:
        return self.parts.shape[1]

    def at(self, rows: Any) -> Stored:
        """Some of them."""
        return replace(self, parts=self.parts[:, rows])

    def texts(self, begins: Array, ends: Array) -> pa.Array:
        """Spans of the buffer as text (below 0: null), views where all of them are UTF-8. Repairing others costs a turn of a
        loop in Python for each message of their batch."""
        views = self.views(begins, ends)
        try:
            views.validate(full=True)
        except pa.ArrowInvalid:
            data = memoryview(self.buffer)
            spans = zip(begins.tolist(), ends.tolist(), strict=True)
            return pa.array([None if a < 0 else str(data[a:b], "utf-8", "replace") for a, b in spans], pa.string())
        return views

    def views(self, begins: Array, ends: Array) -> pa.Array:
        """The same without a look at what they hold."""
        import numpy as np

        from etl.columns.texts import Texts, views_of

        place = np.full(len(begins), self.buffer.address, np.uint64)
        texts = Texts(place, ends.astype(np.int64), self.buffer, self.buffer.address, self.buffer)
        return views_of(begins.astype(np.int32), ends.astype(np.int32), texts)

    def plain(self) -> Iterator[tuple[Stored, Stored, str]]:
        """The same messages with bodies as they were sent, in pieces of bounded size; beside each piece the messages that
        cannot be decompressed, and why the last of them cannot."""
        packed = (self.parts[FLAGS] & COMPRESSED) != 0
        if not packed.any():
            yield self, self.at([]), ""
            return
        first = 0
        while first < len(self):
            piece, bad, reason, first = self._piece(first, packed)
            yield piece, bad, reason

    def _piece(self, first: int, packed: Array) -> tuple[Stored, Stored, str, int]:
        """One turn of a loop for each message, which is small beside the work of decompressing it."""
        import numpy as np

        parts, data = self.parts.copy(), memoryview(self.buffer)
        pieces, size, broken, reason, row = [self.buffer], 0, np.zeros(len(self), bool), "", first
        while row < len(self) and size <= _UNPACKED_AT_ONCE:
            if packed[row]:
                body = unpacked(data[parts[BODY_BEGIN, row] : parts[BODY_END, row]], int(parts[FLAGS, row]))
                if isinstance(body, str):
                    broken[row], reason = True, body
                else:
                    parts[BODY_BEGIN, row] = self.buffer.size + size
                    size += len(body)
                    parts[BODY_END, row] = self.buffer.size + size
                    pieces.append(body)
            row += 1
        whole = replace(self, buffer=pa.py_buffer(b"".join(pieces)), parts=parts)
        rows = np.arange(first, row)
        return whole.at(rows[~broken[rows]]), whole.at(rows[broken[rows]]), reason, row
