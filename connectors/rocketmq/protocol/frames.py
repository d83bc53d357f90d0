"""Frames of RocketMQ's remoting protocol (``RemotingCommand`` of RocketMQ 4 and 5).

A frame is the length of the rest (int32, big-endian), one byte for the header's encoding (0: JSON) and three for the header's
length, the header, and a body of any bytes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

MAX_FRAME_BYTES = 64 << 20
"""Largest accepted frame, in bytes; brokers send at most 4 MiB unless configured otherwise."""

PREFIX = struct.Struct(">iI")
"""Length of the rest of the frame; encoding and length of the header."""

_LENGTH_BYTES = 4
_HEAD_MASK = 0xFFFFFF
_ANSWER_FLAG = 1
"""Bit of ``flag`` that marks an answer."""

_CLIENT_VERSION = 435
"""Version number of a client of RocketMQ 5.0."""


class ProtocolError(ConnectionError):
    """Received data does not follow RocketMQ's remoting protocol."""


class Response(NamedTuple):
    """Answer of a broker or name server."""

    opaque: int
    """Number of the request that it answers."""

    code: int
    remark: str
    fields: Mapping[str, Any]
    body: bytes

    def number(self, name: str) -> int:
        """Return a field that must be an integer. Raises ProtocolError."""
        try:
            return int(self.fields[name])
        except (KeyError, TypeError, ValueError):
            raise ProtocolError(f"an answer lacks the number {name!r}: {dict(self.fields)!r}") from None


def encode_request(code: int, opaque: int, fields: Mapping[str, str], body: bytes | memoryview = b"") -> bytes:
    """Encode a request as a frame."""
    content = {
        "code": code,
        "flag": 0,
        "language": "PYTHON",
        "opaque": opaque,
        "version": _CLIENT_VERSION,
        "serializeTypeCurrentRPC": "JSON",
        "extFields": fields,
    }
    head = json.dumps(content, separators=(",", ":")).encode()
    return b"".join((PREFIX.pack(_LENGTH_BYTES + len(head) + len(body), len(head)), head, body))


def parse_prefix(prefix: bytes) -> tuple[int, int]:
    """Return the bytes of header and body from the first eight bytes of a frame."""
    whole, mark = PREFIX.unpack(prefix)
    head = mark & _HEAD_MASK
    if mark >> 24 or not _LENGTH_BYTES + head <= whole <= MAX_FRAME_BYTES:
        raise ProtocolError(f"a frame of RocketMQ's remoting protocol cannot begin with {prefix.hex(' ')}")
    return head, whole - _LENGTH_BYTES - head


def parse_answer(head: bytes, body: bytes) -> Response | None:
    """Parse an answer; None for a request that the server sends."""
    try:
        content = json.loads(head)
        if not content["flag"] & _ANSWER_FLAG:
            return None
        found = Response(content["opaque"], content["code"], content.get("remark") or "", content.get("extFields") or {}, body)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ProtocolError(f"the header of a frame is not RocketMQ's: {head[:200]!r}") from None
    if not (type(found.opaque) is type(found.code) is int and isinstance(found.fields, dict)):
        raise ProtocolError(f"the header of a frame is not RocketMQ's: {head[:200]!r}")
    return found._replace(remark=str(found.remark))
