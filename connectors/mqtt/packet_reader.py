"""Bytes of a connection → packets: PUBLISH as spans, so that their content is read by columns later; others as they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from connectors.mqtt.packets import ProtocolError, packet_length, read_varint
from connectors.shared.journal.event_blocks import RejectedMessage

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

TOO_LONG = "message-too-long"
SAMPLE_BYTES = 64 << 10
"""Bytes of the payload of a message that is too long which its dead letter has."""

_HEAD_BYTES = 5 + 2 + 0xFFFF + 2 + 5
"""Bytes of a PUBLISH packet that have its topic, its packet identifier and the length of its properties."""

_PUBLISH = 3


@dataclass
class Packets:
    """Packets that have arrived together, in ``data``."""

    data: bytes
    published: Array
    """int64[4, n]: begin, end, flags, packet identifier of each PUBLISH."""

    released: Array
    """int64[n]: packet identifiers of PUBREL."""

    others: list[bytes]
    rejects: list[RejectedMessage] = field(default_factory=list)
    """Messages that are too long, as their begins in ``data``; `published` has a packet without bytes for each."""

    damage: str = ""
    """What is wrong with the packet after these, after which the stream cannot be read any further."""


class PacketReader:
    """Cuts a stream into packets; a message longer than ``max_bytes`` is read over."""

    def __init__(self, max_bytes: int, is_version_5: bool) -> None:
        self._max_bytes, self._is_version_5 = max_bytes, is_version_5
        self._rest: list[bytes] = []
        """The begin of a packet, in the pieces in which it came: they are joined once, when enough of it is there."""
        self._waiting, self._needed = 0, 0
        self._long: _LongMessage | None = None

    def read(self, data: bytes) -> Packets:
        """Return the packets that are complete now; after damage the reader is not used again. Raises ProtocolError."""
        return _merge(list(self._pieces(data)))

    @property
    def waiting_bytes(self) -> int:
        """Bytes of a packet that is not complete."""
        return self._waiting + (len(self._long.head) if self._long else 0)

    def _pieces(self, data: bytes) -> Iterator[Packets]:
        """Yield packets between messages that are too long, and these messages."""
        while True:
            if self._long is not None:
                left = self._long.size - self._long.read_bytes
                self._long.read_bytes += len(data)
                if left > len(data):
                    return
                yield self._long.to_packets(self._is_version_5)
                self._long, data = None, data[left:]
            self._rest.append(data)
            self._waiting += len(data)
            if self._waiting < self._needed:
                return
            packets, rest = self._complete_packets(b"".join(self._rest))
            yield packets
            if packets.damage:
                return
            self._rest, self._waiting = [rest], len(rest)
            size, self._needed = self._size_and_need(rest)
            if size <= self._max_bytes or self._needed > len(rest):
                return
            data, self._rest, self._waiting, self._needed = rest, [], 0, 0
            self._long = _LongMessage(data[: _HEAD_BYTES + SAMPLE_BYTES], size)

    def _complete_packets(self, data: bytes) -> tuple[Packets, bytes]:
        import numpy as np

        from connectors.mqtt.packets_kernel import find_packets

        raw = np.frombuffer(data, np.uint8)
        count = len(data) // 2 + 1
        published, released = np.empty((4, count), np.int64), np.empty(count, np.int64)
        others, counts = np.empty((2, count), np.int64), np.empty(5, np.int64)
        at = int(find_packets(raw, self._max_bytes, published, released, others, counts))
        damage = f"a packet is damaged (first byte 0x{data[at]:02x})" if counts[3] else ""
        found = [data[begin:end] for begin, end in others[:, : counts[2]].T.tolist()]
        return Packets(data, published[:, : counts[0]].copy(), released[: counts[1]].copy(), found, damage=damage), data[at:]

    def _size_and_need(self, rest: bytes) -> tuple[int, int]:
        """Return the size of the packet that begins with ``rest``, 0 if it is unknown, and how much of it must be there."""
        size = packet_length(rest) if len(rest) > 1 else None
        if size is None:
            return 0, 0
        if size <= self._max_bytes:
            return size, size
        if rest[0] >> 4 != _PUBLISH:
            raise ProtocolError(f"a packet has {size} bytes, and is not a message")
        return size, min(size, _HEAD_BYTES + SAMPLE_BYTES)


@dataclass
class _LongMessage:
    head: bytes
    size: int
    read_bytes: int = 0

    def to_packets(self, is_version_5: bool) -> Packets:
        """Return its sample, and a packet without bytes for its identifier."""
        import numpy as np

        flags = self.head[0] & 15
        topic = next(at for at in range(1, 5) if self.head[at] < 128) + 3
        at = topic + int.from_bytes(self.head[topic - 2 : topic], "big")
        number = int.from_bytes(self.head[at : at + 2], "big") if flags & 6 else 0
        if flags & 6 == 6 or (flags & 6 and not number):
            raise ProtocolError(f"a packet is damaged (first byte 0x{self.head[0]:02x})")
        begin = at + (2 if number else 0)
        if is_version_5:
            length, begin = read_varint(self.head, begin)
            begin += length
        sample = self.head[begin:][:SAMPLE_BYTES] or self.head[topic:at]  # the topic, where the payload does not begin
        published = np.array([[0], [0], [flags], [number]], np.int64)
        return Packets(sample, published, np.empty(0, np.int64), [], [RejectedMessage(0, len(sample), TOO_LONG, self.size)])


def _merge(pieces: list[Packets]) -> Packets:
    import numpy as np

    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        return Packets(b"", np.empty((4, 0), np.int64), np.empty(0, np.int64), [])
    shift, rejects = 0, []
    for piece in pieces:
        piece.published[:2] += shift
        rejects += [one._replace(start=one.start + shift, end=one.end + shift) for one in piece.rejects]
        shift += len(piece.data)
    return Packets(
        b"".join(piece.data for piece in pieces),
        np.concatenate([piece.published for piece in pieces], axis=1),
        np.concatenate([piece.released for piece in pieces]),
        [packet for piece in pieces for packet in piece.others],
        rejects,
        pieces[-1].damage,
    )
