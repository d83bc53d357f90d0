"""Lumberjack 2: windows of frames, which may be compressed, and their acknowledgement.

A frame is a version, a type, and: ``W`` the number of events of a window, ``C`` the length of compressed frames and these,
``J`` the number of an event in its window, its length and its JSON, ``D`` the same as pairs of key and value (version 1). The
answer to a window is ``2A`` with the number of its last event. Numbers are uint32, big-endian.

Frames follow each other by their lengths, so each costs an iteration of a Python loop (1 µs).
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field

from connectors.shared.journal.event_blocks import Frames
from connectors.shared.receiving.decompression import DecompressionError, inflate
from connectors.shared.receiving.tcp_server import Connection, SenderError, TcpProtocol

_NUMBER, _TWO_NUMBERS = struct.Struct(">I"), struct.Struct(">II")
_ACK = struct.Struct(">2sI")
MAX_WINDOW = 1 << 20
"""Maximum number of events of a window."""


@dataclass
class Window:
    """Events that are acknowledged together."""

    size: int = 0
    last: int = 0
    byte_count: int = 0
    parts: list[bytes] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether all events have arrived."""
        return 0 < self.size <= len(self.parts)

    def frames(self) -> Frames:
        """Return the events."""
        import numpy as np

        ends = np.cumsum([len(part) for part in self.parts], dtype=np.int64)
        starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        return Frames(b"".join(self.parts), [np.stack([starts, ends])])


class LumberjackProtocol(TcpProtocol):
    """Stores windows of events, and acknowledges each when it is on the disk."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes

    async def serve(self, connection: Connection) -> None:
        """Serve a connection until it ends."""
        window = Window()
        while True:
            await self._read_frame(connection, window)
            connection.hold(window.byte_count)
            if window.is_complete:
                await connection.store(window.frames(), keep_alive=_ACK.pack(b"2A", 0))
                await connection.write(_ACK.pack(b"2A", window.last))
                window = Window()

    async def _read_frame(self, connection: Connection, window: Window) -> None:
        head = await connection.read_exactly(2)
        kind = _kind(head)
        if kind == b"W":
            begin_window(window, *_NUMBER.unpack(await connection.read_exactly(4)))
        elif kind == b"C":
            (size,) = _NUMBER.unpack(await connection.read_exactly(4))
            packed = await connection.read_exactly(self._checked(size))
            try:
                read_frames(inflate(packed, self._max_bytes), window, self._max_bytes)
            except DecompressionError as error:
                raise SenderError(error.message) from None
        elif kind == b"J":
            number, size = _TWO_NUMBERS.unpack(await connection.read_exactly(8))
            add_event(window, number, await connection.read_exactly(self._checked(size)), self._max_bytes)
        else:
            number, pairs = _TWO_NUMBERS.unpack(await connection.read_exactly(8))
            add_event(window, number, await self._read_pairs(connection, pairs), self._max_bytes)

    async def _read_pairs(self, connection: Connection, pairs: int) -> bytes:
        texts: list[str] = []
        left = self._max_bytes
        for _ in range(2 * pairs):
            (size,) = _NUMBER.unpack(await connection.read_exactly(4))
            left -= size + _NUMBER.size  # without the number itself, empty pairs would have no end
            if left < 0:
                raise SenderError("the pairs of an event have more bytes than max_message_bytes")
            texts.append((await connection.read_exactly(size)).decode("utf-8", "replace") if size else "")
        return _object_of(texts)

    def _checked(self, size: int) -> int:
        if size > self._max_bytes:
            raise SenderError(f"a frame says that it has {size} bytes, more than max_message_bytes")
        return size


def read_frames(data: bytes, window: Window, max_bytes: int) -> None:
    """Read the frames of a compressed frame. Raises SenderError."""
    at = 0
    while at < len(data):
        kind = _kind(data[at : at + 2])
        try:
            if kind == b"J":
                number, size = _TWO_NUMBERS.unpack_from(data, at + 2)
                at += 10 + size
                if at > len(data):
                    raise SenderError("a frame is longer than the compressed frame around it")
                add_event(window, number, data[at - size : at], max_bytes)
            elif kind == b"W":
                begin_window(window, *_NUMBER.unpack_from(data, at + 2))
                at += 6
            elif kind == b"D":
                at = _read_pairs(data, at + 2, window, max_bytes)
            else:
                raise SenderError("a compressed frame is in another one")
        except struct.error:
            raise SenderError("a compressed frame ends within a frame") from None


def _read_pairs(data: bytes, at: int, window: Window, max_bytes: int) -> int:
    number, pairs = _TWO_NUMBERS.unpack_from(data, at)
    at += 8
    texts: list[str] = []
    for _ in range(2 * pairs):
        (size,) = _NUMBER.unpack_from(data, at)
        at += 4 + size
        if at > len(data):
            raise SenderError("a pair is longer than the compressed frame around it")
        texts.append(data[at - size : at].decode("utf-8", "replace"))
    add_event(window, number, _object_of(texts), max_bytes)
    return at


def begin_window(window: Window, size: int) -> None:
    """Note the number of events of a window. Raises SenderError if it is impossible."""
    if not 0 < size <= MAX_WINDOW:
        raise SenderError(f"a window has 1 to {MAX_WINDOW} events, not {size}")
    window.size = size


def add_event(window: Window, number: int, document: bytes, max_bytes: int) -> None:
    """Add an event to its window. Raises SenderError if there is no window, or too much in it."""
    if not window.size:
        raise SenderError("an event came before the size of its window")
    window.byte_count += len(document)
    if window.byte_count > max_bytes:
        raise SenderError("the events of a window have more bytes than max_message_bytes")
    window.last = number
    window.parts.append(document or b"{}")


def _kind(head: bytes) -> bytes:
    if head[:1] not in (b"1", b"2") or head[1:2] not in (b"W", b"C", b"J", b"D"):
        raise SenderError(f"{head[:2]!r} does not begin a frame of Lumberjack; is this a Beat, without TLS on a TLS port?")
    return head[1:2]


def _object_of(texts: list[str]) -> bytes:
    return json.dumps(dict(zip(texts[::2], texts[1::2], strict=True))).encode()
