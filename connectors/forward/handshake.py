"""The handshake of the forward protocol 1: both sides prove that they know the shared key."""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
from typing import Any

import msgpack

from connectors.shared.receiving.tcp_server import SenderError


class Handshake:
    """The server's side of one connection."""

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
