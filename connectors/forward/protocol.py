"""Connections of the forward protocol: messages one after the other, each acknowledged if it has a chunk."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import socket
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgpack
import numpy as np

from connectors.forward.messages import ForwardMessage, create_unpacker, encode, parse_message
from connectors.shared.journal.event_blocks import Frames
from connectors.shared.receiving.entries import encode_entries
from connectors.shared.receiving.tcp_server import Connection, SenderError, TcpProtocol

_DAMAGED = (msgpack.UnpackException, msgpack.BufferFull, ValueError, TypeError, OverflowError, RecursionError)


class ForwardProtocol(TcpProtocol):
    """Stores messages; those with a chunk are acknowledged when they are on the disk."""

    def __init__(self, shared_key: str | None, max_bytes: int) -> None:
        self._shared_key, self._max_bytes = shared_key, max_bytes

    async def serve(self, connection: Connection) -> None:
        """Serve a connection until it ends."""
        values = self._values(connection)
        if self._shared_key is not None and not await self._greet(connection, values, self._shared_key):
            raise SenderError("the sender has another shared key")
        async for group in values:
            await self._store(connection, [value for value in group if value is not None])  # nil is a heartbeat

    async def _store(self, connection: Connection, values: list[Any]) -> None:
        """Store messages that have arrived together, with one sync unless they are large, and acknowledge them; of damaged ones
        those before the first."""
        messages: list[ForwardMessage] = []
        damage: Exception | None = None
        packed_bytes = 0
        for value in values:
            try:
                message = parse_message(value, self._max_bytes)
                messages.append(message._replace(entries=encode(message.entries)))
            except (SenderError, *_DAMAGED) as error:
                damage = error
                break
            packed_bytes += message.packed_bytes
            if packed_bytes > self._max_bytes:
                await self._store_messages(connection, messages)
                messages, packed_bytes = [], 0
        await self._store_messages(connection, messages)
        if damage is not None:
            raise SenderError(f"a message is damaged: {damage}") from None

    async def _store_messages(self, connection: Connection, messages: Sequence[ForwardMessage]) -> None:
        data, spans = encode_entries([entry for message in messages for entry in message.entries])
        if spans.shape[1]:
            tags: dict[str, int] = {}
            numbers = [tags.setdefault(message.tag, len(tags)) for message in messages]
            which = np.repeat(numbers, [len(message.entries) for message in messages])
            await connection.store(Frames(data, [spans]), [json.dumps(tag) for tag in tags], which)
        if acks := b"".join(msgpack.packb({"ack": one.chunk}) for one in messages if one.chunk is not None):
            await connection.write(acks)

    async def _greet(self, connection: Connection, values: AsyncIterator[Any], shared_key: str) -> bool:
        handshake = Handshake(shared_key)
        await connection.write(handshake.helo())
        answer, knows_key = handshake.check_ping(next(iter(await anext(values, [])), None))
        await connection.write(answer)
        return knows_key

    async def _values(self, connection: Connection) -> AsyncIterator[list[Any]]:
        """Yield the values of the connection, those that have arrived together in one list."""
        unpacker = create_unpacker(self._max_bytes)
        waiting = 0
        while data := await connection.read_some():
            values: list[Any] = []
            damage: Exception | None = None
            try:
                unpacker.feed(data)
                values += unpacker
            except _DAMAGED as error:
                damage = error
            waiting = len(data) if values else waiting + len(data)
            connection.hold(waiting)
            if values:
                yield values
            if damage is not None:
                text = str(damage) or type(damage).__name__
                raise SenderError(f"this is not MessagePack, or more than max_message_bytes: {text}") from None


class Handshake:
    """The server's side of the handshake of the forward protocol 1: both sides prove that they know the shared key."""

    def __init__(self, shared_key: str) -> None:
        self._key, self._nonce, self._host = shared_key.encode(), os.urandom(16), socket.gethostname()

    def helo(self) -> bytes:
        """Return the greeting."""
        return msgpack.packb(["HELO", {"nonce": self._nonce, "auth": b"", "keepalive": True}])

    def check_ping(self, ping: Any) -> tuple[bytes, bool]:
        """Return the answer to a client's PING, and whether it knows the key. Raises SenderError if it is not one."""
        if not isinstance(ping, list) or len(ping) < 4 or ping[0] != "PING":
            raise SenderError("the handshake must begin with PING: does the sender have the shared key?")
        host, salt, digest = (_as_bytes(part) for part in ping[1:4])
        knows_key = hmac.compare_digest(self._digest(salt, host), digest)
        if not knows_key:
            return msgpack.packb(["PONG", False, "shared_key mismatch", self._host, ""]), False
        answer = self._digest(salt, self._host.encode()).decode()
        return msgpack.packb(["PONG", True, "", self._host, answer]), True

    def _digest(self, salt: bytes, host: bytes) -> bytes:
        return hashlib.sha512(salt + host + self._nonce + self._key).hexdigest().encode()


def _as_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, bytes):
        return value
    raise SenderError("a part of PING is not a text")
