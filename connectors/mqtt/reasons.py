"""Reason codes of MQTT 5 (section 2.4), and return codes of CONNACK of MQTT 3.1.1 (section 3.2.2.3), in words."""

from __future__ import annotations

from collections.abc import Mapping

FAILURE = 0x80
"""The first code that is a failure."""

_REASONS: Mapping[int, str] = {
    0x00: "normal disconnection",
    0x04: "disconnected with its will",
    0x80: "unspecified error",
    0x81: "malformed packet",
    0x82: "protocol error",
    0x83: "implementation specific error",
    0x84: "the broker does not support this version of MQTT",
    0x85: "the client identifier is not valid",
    0x86: "the user or the password is wrong",
    0x87: "not authorized",
    0x88: "the server is not available",
    0x89: "the server is busy",
    0x8A: "this client is banned",
    0x8B: "the server is shutting down",
    0x8C: "bad authentication method",
    0x8D: "nothing came within the keep-alive time",
    0x8E: "another client has connected with the same client_id",
    0x8F: "the topic filter is not valid",
    0x90: "the topic is not valid",
    0x91: "the packet identifier is in use",
    0x92: "the packet identifier is not known",
    0x93: "more messages in flight than the receive maximum",
    0x94: "the topic alias is not valid",
    0x95: "the packet is too large",
    0x96: "messages come too fast",
    0x97: "a quota is exceeded",
    0x98: "an administrator ended the connection",
    0x99: "the payload has another format than announced",
    0x9A: "the broker does not retain messages",
    0x9B: "the broker does not support this quality of service",
    0x9C: "use another server",
    0x9D: "the server has moved",
    0x9E: "the broker does not support shared subscriptions",
    0x9F: "too many connections",
    0xA0: "the connection was open for the longest time that is allowed",
    0xA1: "the broker does not support subscription identifiers",
    0xA2: "the broker does not support wildcards",
}

_OLD_REASONS: Mapping[int, int] = {1: 0x84, 2: 0x85, 3: 0x88, 4: 0x86, 5: 0x87}
"""Return codes of MQTT 3.1.1 → codes of MQTT 5."""

TEMPORARY = frozenset({0x80, 0x83, 0x88, 0x89, 0x8B, 0x96, 0x97, 0x9F})
"""Failures of CONNECT and PUBLISH after which another try may succeed."""


def connect_code(code: int, is_version_5: bool) -> int:
    """Return the code of MQTT 5 for a code of CONNACK; 0 is success."""
    return code if is_version_5 else _OLD_REASONS.get(code, 0x80 if code else 0)


def reason_of(code: int, text: str | None = None) -> str:
    """Return a code in words, with the broker's own words."""
    words = _REASONS.get(code, f"reason code 0x{code:02x}")
    return f"{words} ({text[:200]!r})" if text else words
