"""Control packets of MQTT 3.1.1 and 5.0: what a client sends, and the answers of a broker. PUBLISH is in `publishes`."""

from __future__ import annotations

import secrets
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from connectors.mqtt.reasons import reason_of

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

CONNACK, SUBACK, UNSUBACK, PUBACK, PUBREC, PUBCOMP, PINGRESP, DISCONNECT = 2, 9, 11, 4, 5, 7, 13, 14
"""Types of packets."""

PUBACK_BYTE, PUBREC_BYTE, PUBREL_BYTE, PUBCOMP_BYTE = 0x40, 0x50, 0x62, 0x70
"""First bytes of the packets that follow a message."""

PING = bytes([0xC0, 0])
GOODBYE = bytes([0xE0, 0])
"""DISCONNECT with success."""

MAX_TEXT_BYTES = 0xFFFF
"""Longest text of the protocol, such as a topic or a user property, in bytes."""

MAX_PACKET_BYTES = 268_435_455
"""Largest packet of the protocol without its first bytes."""

SESSION_EXPIRY, ASSIGNED_CLIENT, SERVER_KEEP_ALIVE, REASON_TEXT, RECEIVE_MAXIMUM = 0x11, 0x12, 0x13, 0x1F, 0x21
MAXIMUM_QOS, RETAIN_AVAILABLE, USER_PROPERTY, MAXIMUM_PACKET_SIZE = 0x24, 0x25, 0x26, 0x27
EXPIRY, CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION_DATA = 0x02, 0x03, 0x08, 0x09

_FORMS: Mapping[int, str] = {
    **dict.fromkeys((0x01, 0x17, 0x19, 0x24, 0x25, 0x28, 0x29, 0x2A), "B"),
    **dict.fromkeys((0x13, 0x21, 0x22, 0x23), "H"),
    **dict.fromkeys((0x02, 0x11, 0x18, 0x27), "I"),
    **dict.fromkeys((0x03, 0x08, 0x12, 0x15, 0x1A, 0x1C, 0x1F), "text"),
    **dict.fromkeys((0x09, 0x16), "bytes"),
    0x0B: "varint",
    USER_PROPERTY: "pair",
}
"""How the value of each property of MQTT 5 is encoded, by its identifier (section 2.2.2.2)."""


class ProtocolError(ConnectionError):
    """The broker sent what MQTT does not allow: the connection ends, and a new one is opened."""


class Login(NamedTuple):
    """What CONNECT says."""

    client: str
    is_version_5: bool
    clean_start: bool
    keep_alive: int
    user: str | None = None
    password: str | None = None
    properties: bytes = b""
    """With MQTT 5."""

    def __repr__(self) -> str:
        return f"Login({self.client!r})"


@dataclass(frozen=True, slots=True)
class Welcome:
    """The answer to CONNECT: whether the broker has a session of this client, why it refuses, and its limits."""

    has_session: bool
    code: int
    properties: Mapping[int, Any]


def new_client_id() -> str:
    """Return a client identifier that no other client has; 3.1.1 guarantees 23 letters and digits."""
    return f"sluice{secrets.token_hex(8)}"


def encode_answers(first_bytes: Any, identifiers: Array) -> bytes:
    """Return packets that have nothing but a packet identifier: PUBACK, PUBREC, PUBREL or PUBCOMP."""
    import numpy as np

    packets = np.empty((len(identifiers), 4), np.uint8)
    packets[:, 0], packets[:, 1] = first_bytes, 2
    packets[:, 2], packets[:, 3] = identifiers >> 8, identifiers & 255
    return packets.tobytes()


def encode_varint(number: int) -> bytes:
    """Return an integer in one to four bytes."""
    out = bytearray()
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def encode_text(text: str | bytes) -> bytes:
    """Return a text with its length before it. Raises ValueError if it is too long."""
    data = text.encode() if isinstance(text, str) else text
    if len(data) > MAX_TEXT_BYTES:
        raise ValueError(f"a text has {len(data)} bytes, at most {MAX_TEXT_BYTES} are possible")
    return struct.pack(">H", len(data)) + data


def encode_property(identifier: int, value: Any) -> bytes:
    """Return a property of MQTT 5."""
    form = _FORMS[identifier]
    if form == "pair":
        name, text = value
        return bytes([identifier]) + encode_text(name) + encode_text(text)
    return bytes([identifier]) + (encode_text(value) if form in ("text", "bytes") else struct.pack(f">{form}", value))


def encode_connect(login: Login) -> bytes:
    """Return CONNECT."""
    flags = 0x02 * login.clean_start | 0x80 * (login.user is not None) | 0x40 * (login.password is not None)
    head = encode_text("MQTT") + struct.pack(">BBH", 5 if login.is_version_5 else 4, flags, login.keep_alive)
    properties = encode_varint(len(login.properties)) + login.properties if login.is_version_5 else b""
    texts = [login.client, *(text for text in (login.user, login.password) if text is not None)]
    return _packet(0x10, head + properties + b"".join(map(encode_text, texts)))


def encode_subscribe(number: int, filters: Sequence[tuple[str, int]], is_version_5: bool) -> bytes:
    """Return SUBSCRIBE: filters of topics with their options, which are only the quality of service in MQTT 3.1.1."""
    topics = b"".join(encode_text(name) + bytes([options]) for name, options in filters)
    return _packet(0x82, struct.pack(">H", number) + b"\0" * is_version_5 + topics)


def encode_unsubscribe(number: int, filters: Sequence[str], is_version_5: bool) -> bytes:
    """Return UNSUBSCRIBE."""
    return _packet(0xA2, struct.pack(">H", number) + b"\0" * is_version_5 + b"".join(map(encode_text, filters)))


def parse_welcome(packet: bytes, is_version_5: bool) -> Welcome:
    """Read CONNACK. Raises ProtocolError."""
    kind, body = split_packet(packet)
    if kind != CONNACK or len(body) < 2:
        raise ProtocolError("its first packet is not CONNACK: is this an MQTT broker?")
    return Welcome(bool(body[0] & 1), body[1], parse_properties(body, 2)[0] if is_version_5 else {})


def parse_codes(body: bytes, is_version_5: bool) -> tuple[int, bytes, Mapping[int, Any]]:
    """Return the packet identifier, the reason codes, and the properties of a SUBACK or UNSUBACK. Raises ProtocolError."""
    if len(body) < 2:
        raise ProtocolError("an acknowledgement is damaged")
    properties, at = parse_properties(body, 2) if is_version_5 else ({}, 2)
    return int.from_bytes(body[:2], "big"), body[at:], properties


def parse_answer(body: bytes, is_version_5: bool) -> tuple[int, int, str]:
    """Return the packet identifier of a PUBACK, PUBREC or PUBCOMP, its reason code, and the broker's text."""
    if len(body) < 2:
        raise ProtocolError("an acknowledgement is damaged")
    number, code = int.from_bytes(body[:2], "big"), body[2] if len(body) > 2 else 0
    properties = parse_properties(body, 3)[0] if is_version_5 and len(body) > 3 else {}
    return number, code, reason_of(code, properties.get(REASON_TEXT))


def parse_farewell(body: bytes) -> str:
    """Return why the broker ends the connection (DISCONNECT of MQTT 5)."""
    properties = parse_properties(body, 1)[0] if len(body) > 1 else {}
    return reason_of(body[0] if body else 0, properties.get(REASON_TEXT))


def split_packet(packet: bytes) -> tuple[int, bytes]:
    """Return a complete packet's type and its bytes after the length."""
    at = 1
    while packet[at] & 128:
        at += 1
    return packet[0] >> 4, packet[at + 1 :]


def packet_length(data: bytes | bytearray) -> int | None:
    """Return the bytes of the packet that begins with ``data``; None if its length is not there yet. Raises ProtocolError."""
    length = 0
    for at, byte in enumerate(data[1:5]):
        length |= (byte & 127) << 7 * at
        if byte < 128:
            return at + 2 + length
    if len(data) >= 5:
        raise ProtocolError("a packet has no valid length")
    return None


def parse_properties(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    """Return properties and where they end; those that may occur several times are lists. Raises ProtocolError."""
    try:
        length, begin = read_varint(data, at)
        end = begin + length
        return dict(read_properties(data[begin:end])), end
    except (IndexError, KeyError, struct.error) as error:
        raise ProtocolError("the properties of a packet are damaged") from error


def read_properties(data: bytes) -> dict[int, Any]:
    """Return the properties in a block without its length; user properties are a list of pairs.

    Raises IndexError, KeyError or struct.error if it is damaged.
    """
    found: dict[int, Any] = {}
    at = 0
    while at < len(data):
        identifier = data[at]
        form = _FORMS[identifier]
        at += 1
        if form == "varint":
            found[identifier], at = read_varint(data, at)
        elif form == "pair":
            name, at = _read_bytes(data, at)
            value, at = _read_bytes(data, at)
            found.setdefault(identifier, []).append((name.decode("utf-8", "replace"), value.decode("utf-8", "replace")))
        elif form in ("text", "bytes"):
            value, at = _read_bytes(data, at)
            found[identifier] = value.decode("utf-8", "replace") if form == "text" else value
        else:
            (found[identifier],) = struct.unpack_from(f">{form}", data, at)
            at += struct.calcsize(form)
    return found


def _packet(first: int, body: bytes) -> bytes:
    return bytes([first]) + encode_varint(len(body)) + body


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return an integer of one to four bytes, and where it ends. Raises IndexError."""
    number = 0
    for shift in (0, 7, 14, 21):
        byte = data[at]
        number |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return number, at
    raise IndexError


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    (length,) = struct.unpack_from(">H", data, at)
    end = at + 2 + length
    if end > len(data):
        raise IndexError
    return data[at + 2 : end], end
