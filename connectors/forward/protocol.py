"""Connections of the forward protocol: messages one after the other, each acknowledged if it has a chunk."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import msgpack
import numpy as np

from connectors.forward.handshake import Handshake
from connectors.forward.messages import create_unpacker, encode, parse_message
from connectors.shared.journal.event_blocks import Frames
from connectors.shared.receiving.entries import encode_entries
from connectors.shared.receiving.stream_server import Connection, StreamError, StreamProtocol

_DAMAGED = (msgpack.UnpackException, msgpack.BufferFull, ValueError, TypeError, RecursionError)


class ForwardProtocol(StreamProtocol):
    """Stores messages; those with a chunk are acknowledged when they are on the disk."""

    def __init__(self, shared_key: str | None, max_bytes: int) -> None:
        self._shared_key, self._max_bytes = shared_key, max_bytes

    async def serve(self, connection: Connection) -> None:
        """Serve a connection until it ends."""
        values = self._values(connection)
        if self._shared_key is not None and not await self._greet(connection, values, self._shared_key):
            raise StreamError("the sender has another shared key")
        async for value in values:
            if value is None:  # a heartbeat
                continue
            try:
                message = parse_message(value, self._max_bytes)
                data, spans = encode_entries(encode(message.entries))
            except _DAMAGED as error:
                raise StreamError(f"a message is damaged: {error}") from None
            if message.entries:
                await connection.store(Frames(data, [np.asarray(spans)]), json.dumps(message.tag))
            if message.chunk is not None:
                await connection.write(msgpack.packb({"ack": message.chunk}))

    async def _greet(self, connection: Connection, values: AsyncIterator[Any], shared_key: str) -> bool:
        handshake = Handshake(shared_key)
        await connection.write(handshake.helo())
        answer, knows_key = handshake.check_ping(await anext(values, None))
        await connection.write(answer)
        return knows_key

    async def _values(self, connection: Connection) -> AsyncIterator[Any]:
        """Yield the values of the connection."""
        unpacker = create_unpacker(self._max_bytes)
        while data := await connection.read_some():
            try:
                unpacker.feed(data)
                values = list(unpacker)
            except _DAMAGED as error:
                raise StreamError(f"this is not MessagePack, or more than max_message_bytes: {error}") from None
            for value in values:
                yield value
