"""Messages in the broker's storage format, located in a block of answers without copying; only compressed bodies are copied.

Source of the format: ``MessageDecoder`` and ``MessageSysFlag`` of RocketMQ 5.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connectors.rocketmq.compression import decompress
from connectors.rocketmq.frames import ProtocolError

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

OFFSET, FLAGS, BORN, STORED, BODY_BEGIN, BODY_END, PROPERTIES_BEGIN, PROPERTIES_END = range(8)
"""What the rows of `Stored.parts` are."""

COMPRESSED, NESTED = 1, 0x80 | 0x40
"""Bits of ``FLAGS``. A body that consists of messages has both bits of ``NESTED`` (`nested_messages`)."""

_PART_COUNT = 8
_MIN_MESSAGE_BYTES = 91
"""Bytes of a message with empty topic, body and properties."""

_MAX_PIECE_BYTES = 32 << 20
"""A batch ends after this many decompressed bytes."""


@dataclass(frozen=True, slots=True)
class StoredMessages:
    """Messages in one buffer."""

    buffer: pa.Buffer
    parts: Array
    """int64[8, n]: for each message the values that `OFFSET` to `PROPERTIES_END` name; byte positions count from the buffer's
    begin.
    """

    @classmethod
    def locate(cls, block: bytes, after: int, end: int) -> StoredMessages:
        """Locate the messages with ascending offsets after ``after`` and before ``end``, and outer messages, whose nested
        messages may have such offsets. Raises ProtocolError.
        """
        import numpy as np

        from connectors.rocketmq.stored_kernel import locate

        buffer = pa.py_buffer(block)
        parts = np.empty((_PART_COUNT, len(block) // _MIN_MESSAGE_BYTES + 1), np.int64)
        count = locate(np.frombuffer(buffer, np.uint8), np.int64(after), np.int64(end), parts)
        if count < 0:
            raise ProtocolError(f"a broker sent data that is not a RocketMQ message: {block[-1 - count :][:64].hex(' ')}")
        return cls(buffer, parts[:, :count])

    def __len__(self) -> int:
        return self.parts.shape[1]

    def at(self, rows: Any) -> StoredMessages:
        """Return the messages of some rows."""
        return replace(self, parts=self.parts[:, rows])

    def texts(self, begins: Array, ends: Array) -> pa.Array:
        """Return spans of the buffer as text (below 0: null): views if all spans are UTF-8. Otherwise a Python loop over the
        batch repairs them.
        """
        views = self.views(begins, ends)
        try:
            views.validate(full=True)
        except pa.ArrowInvalid:
            data = memoryview(self.buffer)
            spans = zip(begins.tolist(), ends.tolist(), strict=True)
            return pa.array([None if a < 0 else str(data[a:b], "utf-8", "replace") for a, b in spans], pa.string())
        return views

    def views(self, begins: Array, ends: Array) -> pa.Array:
        """Return spans of the buffer as views, without checking that they are UTF-8."""
        import numpy as np

        from etl.columns.texts import Texts, views_of

        base = np.full(len(begins), self.buffer.address, np.uint64)
        texts = Texts(base, ends.astype(np.int64), self.buffer, self.buffer.address, self.buffer)
        return views_of(begins.astype(np.int32), ends.astype(np.int32), texts)

    def decompressed(self) -> Iterator[tuple[StoredMessages, StoredMessages, str]]:
        """Yield the messages with decompressed bodies in pieces of bounded size; with each piece the messages that cannot be
        decompressed, and the reason for the last of them.
        """
        is_compressed = (self.parts[FLAGS] & COMPRESSED) != 0
        if not is_compressed.any():
            yield self, self.at([]), ""
            return
        first = 0
        while first < len(self):
            piece, bad, reason, first = self._piece(first, is_compressed)
            yield piece, bad, reason

    def _piece(self, first: int, is_compressed: Array) -> tuple[StoredMessages, StoredMessages, str, int]:
        """Decompress bodies in a Python loop over messages, whose cost is small compared with decompression."""
        import numpy as np

        parts, data = self.parts.copy(), memoryview(self.buffer)
        pieces, size, broken, reason, row = [self.buffer], 0, np.zeros(len(self), bool), "", first
        while row < len(self) and size <= _MAX_PIECE_BYTES:
            if is_compressed[row]:
                body = decompress(data[parts[BODY_BEGIN, row] : parts[BODY_END, row]], int(parts[FLAGS, row]))
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
