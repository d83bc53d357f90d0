"""Messages in the broker's storage format, located in a block of answers without copying; only compressed bodies are copied.

Source of the format: ``MessageDecoder`` and ``MessageSysFlag`` of RocketMQ 5.3.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connectors.rocketmq.protocol.frames import ProtocolError

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

OFFSET, FLAGS, BORN, STORED, BODY_BEGIN, BODY_END, PROPERTIES_BEGIN, PROPERTIES_END = range(8)
"""What the rows of `StoredMessages.parts` are."""

COMPRESSED, NESTED = 1, 0x80 | 0x40
"""Bits of ``FLAGS``. A body that consists of messages has both bits of ``NESTED`` (`nested_messages`)."""

_PART_COUNT = 8
_MIN_MESSAGE_BYTES = 91
"""Bytes of a message with empty topic, body and properties."""

_MAX_PIECE_BYTES = 32 << 20
"""A batch ends after this many decompressed bytes."""

MAX_BODY_BYTES = 32 << 20
"""Largest body after decompression, in bytes; brokers and clients accept 4 MiB unless configured otherwise."""

_CODEC_MASK, _CODEC_SHIFT = 7, 8
"""Bits of ``FLAGS`` with the compression: 1 is LZ4, 2 is ZSTD, 3 and none are zlib."""


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

        from connectors.rocketmq.messages.stored_kernel import locate

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

        from etl.columns.texts import Texts, make_span_views

        base = np.full(len(begins), self.buffer.address, np.uint64)
        texts = Texts(base, ends.astype(np.int64), self.buffer, self.buffer.address, self.buffer)
        return make_span_views(begins.astype(np.int32), ends.astype(np.int32), texts)

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
                body = _decompress(data[parts[BODY_BEGIN, row] : parts[BODY_END, row]], int(parts[FLAGS, row]))
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


def _decompress(body: bytes | memoryview, flags: int) -> bytes | str:
    """Return the body as it was sent, or a text that says why it cannot be decompressed."""
    unpack = _DECOMPRESSORS.get(flags >> _CODEC_SHIFT & _CODEC_MASK)
    if unpack is None:
        return f"its compression ({flags >> _CODEC_SHIFT & _CODEC_MASK}) is unknown: 1 is LZ4, 2 is ZSTD, 3 is zlib"
    try:
        data = unpack(body)
    except (OSError, pa.ArrowException, zlib.error, EOFError) as error:
        return f"it cannot be decompressed: {error}"
    return data if len(data) <= MAX_BODY_BYTES else f"it has more than {MAX_BODY_BYTES} bytes"


def _decompress_zlib(body: bytes | memoryview) -> bytes:
    decompressor = zlib.decompressobj()
    data = decompressor.decompress(body, MAX_BODY_BYTES + 1)
    if not decompressor.eof and len(data) <= MAX_BODY_BYTES:
        raise EOFError("it ends too early")
    return data


def _decompress_with(codec: str) -> Callable[[bytes | memoryview], bytes]:
    def unpack(body: bytes | memoryview) -> bytes:
        with pa.CompressedInputStream(pa.BufferReader(body), codec) as stream:
            return stream.read(MAX_BODY_BYTES + 1)

    return unpack


_DECOMPRESSORS: dict[int, Callable[[bytes | memoryview], bytes]] = {
    0: _decompress_zlib,
    1: _decompress_with("lz4"),
    2: _decompress_with("zstd"),
    3: _decompress_zlib,
}
