"""Frames of RocketMQ's remoting protocol.

A frame is the length of what follows (int32, big-endian), a byte that tells how the head is written (0: JSON) with the
head's length in the three bytes behind it, the head, and a body of any bytes. Source: ``RemotingCommand`` of RocketMQ 4 and 5.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

LARGEST = 64 << 20
"""Bytes of the largest frame that is taken: brokers send 4 MiB at most, unless told otherwise."""

PREFIX = struct.Struct(">iI")
"""Length of what follows, and of the head together with how it is written."""

_LENGTH_BYTES = 4
_HEAD_MASK = 0xFFFFFF
_ANSWER = 1
"""The bit of ``flag`` that tells an answer from a request."""

_VERSION = 435
"""What a client of 5.0 says of itself."""


class ProtocolError(ConnectionError):
    """What came is not RocketMQ's remoting protocol."""


class Answer(NamedTuple):
    """A broker's or name server's answer."""

    opaque: int
    """The number of the request that it answers."""

    code: int
    remark: str
    fields: Mapping[str, Any]
    body: bytes

    def number(self, name: str) -> int:
        """A field that must be a whole number."""
        try:
            return int(self.fields[name])
        except (KeyError, TypeError, ValueError):
            raise ProtocolError(f"an answer lacks the number {name!r}: {dict(self.fields)!r}") from None


def request(code: int, opaque: int, fields: Mapping[str, str], body: bytes | memoryview = b"") -> bytes:
    """A request's frame."""
    said = {
        "code": code,
        "flag": 0,
        "language": "PYTHON",
        "opaque": opaque,
        "version": _VERSION,
        "serializeTypeCurrentRPC": "JSON",
        "extFields": fields,
    }
    head = json.dumps(said, separators=(",", ":")).encode()
    return b"".join((PREFIX.pack(_LENGTH_BYTES + len(head) + len(body), len(head)), head, body))


def lengths(prefix: bytes) -> tuple[int, int]:
    """Bytes of head and body behind the first eight of a frame."""
    whole, mark = PREFIX.unpack(prefix)
    head = mark & _HEAD_MASK
    if mark >> 24 or not _LENGTH_BYTES + head <= whole <= LARGEST:
        raise ProtocolError(f"no frame of RocketMQ's remoting protocol begins with {prefix.hex(' ')}")
    return head, whole - _LENGTH_BYTES - head


def answer(head: bytes, body: bytes) -> Answer | None:
    """The answer of a frame; None for a request that the other side makes."""
    try:
        said = json.loads(head)
        if not said["flag"] & _ANSWER:
            return None
        found = Answer(said["opaque"], said["code"], said.get("remark") or "", said.get("extFields") or {}, body)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ProtocolError(f"the head of a frame is not one of RocketMQ: {head[:200]!r}") from None
    if not (type(found.opaque) is type(found.code) is int and isinstance(found.fields, dict)):
        raise ProtocolError(f"the head of a frame is not one of RocketMQ: {head[:200]!r}")
    return found._replace(remark=str(found.remark))
