"""``community_id(source ip, destination ip, source port, destination port, transport)``: the Community ID of a flow.

Version 1 of the specification (github.com/corelight/community-id-spec): ``1:`` and the SHA-1 of seed, addresses, protocol and
ports in Base64, with the smaller end first, so that both directions of a flow have one id.
"""

from __future__ import annotations

import socket
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions.sha1 import BLOCK, digests

Array = np.ndarray[Any, Any]

PROTOCOLS = {
    "icmp": 1, "igmp": 2, "tcp": 6, "udp": 17, "gre": 47, "esp": 50, "ah": 51, "icmpv6": 58, "ipv6-icmp": 58, "icmp6": 58,
    "eigrp": 88, "ospf": 89, "pim": 103, "vrrp": 112, "sctp": 132,
}  # fmt: skip
"""Names of protocols and IANA's numbers; a number may also stand for itself."""

_ICMP, _ICMP6 = 1, 58
_WITH_PORTS = (_ICMP, 6, 17, _ICMP6, 132)

_ANSWERS = {
    _ICMP: {8: 0, 0: 8, 13: 14, 14: 13, 15: 16, 16: 15, 10: 9, 9: 10, 17: 18, 18: 17},
    _ICMP6: {
        128: 129,
        129: 128,
        133: 134,
        134: 133,
        135: 136,
        136: 135,
        130: 131,
        131: 130,
        144: 145,
        145: 144,
        139: 140,
        140: 139,
    },
}
"""Types of ICMP messages, and the type that answers each: such a pair is a flow with two directions."""

_SIGNS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_LENGTH = 30
"""Bytes of an id: the version, a colon and 28 of Base64."""


class _Ends(NamedTuple):
    """Addresses of one side: 16 bytes a row (an IPv4 address in the first four), and 4, 6 or 0 for what is no address."""

    raw: Array
    family: Array


def community_ids(
    source: pa.Array, destination: pa.Array, source_port: pa.Array, destination_port: pa.Array, transport: pa.Array, seed: int = 0
) -> pa.StringArray:
    """Ids; null where an address is none, the protocol is unknown or ports (of ICMP: type and code) are missing.

    Addresses and transport are texts, ports whole numbers, all of one length.
    """
    one, other, protocol = _ends(source), _ends(destination), _protocols(transport)
    ported = np.isin(protocol, _WITH_PORTS)
    ports = [
        pc.fill_null(pc.cast(port, pa.int64()), -1).to_numpy(zero_copy_only=False) for port in (source_port, destination_port)
    ]
    in_range = (ports[0] >= 0) & (ports[0] < 65536) & (ports[1] >= 0) & (ports[1] < 65536)
    valid = (one.family > 0) & (one.family == other.family) & (protocol >= 0) & (in_range | ~ported)
    rows = np.flatnonzero(valid)
    ids = np.zeros((len(valid), _LENGTH), np.uint8)
    if len(rows):
        ends = _Ends(one.raw[rows], one.family[rows]), _Ends(other.raw[rows], other.family[rows])
        ids[rows] = _texts(_digests(*ends, ports[0][rows], ports[1][rows], protocol[rows], ported[rows], seed))
    return _strings(ids, valid)


def community_id(
    source: str | None,
    destination: str | None,
    source_port: int | None,
    destination_port: int | None,
    transport: str | None,
    seed: int = 0,
) -> str | None:
    """The same for one event: what Spark calls."""
    texts = [pa.array([text], pa.string()) for text in (source, destination, transport)]
    ports = [pa.array([port], pa.int64()) for port in (source_port, destination_port)]
    found: str | None = community_ids(texts[0], texts[1], ports[0], ports[1], texts[2], seed)[0].as_py()
    return found


def _ends(texts: pa.Array) -> _Ends:
    """Each distinct text is read once, by the system's function, which is what reads addresses fastest one by one."""
    encoded = texts.dictionary_encode()
    known = [_packed(text) for text in encoded.dictionary.to_pylist()]
    raw = np.frombuffer(b"".join([*(one.ljust(16, b"\0") for one in known), bytes(16)]), np.uint8).reshape(-1, 16)
    family = np.array([*({0: 0, 4: 4, 16: 6}[len(one)] for one in known), 0])
    at = pc.fill_null(encoded.indices, len(known)).to_numpy(zero_copy_only=False)
    return _Ends(raw[at], family[at])


def _packed(text: str) -> bytes:
    try:
        return socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)
    except (OSError, ValueError):
        return b""


def _protocols(texts: pa.Array) -> Array:
    encoded = texts.dictionary_encode()
    numbers = [_protocol(text) for text in encoded.dictionary.to_pylist()]
    at = pc.fill_null(encoded.indices, len(numbers)).to_numpy(zero_copy_only=False)
    return np.array([*numbers, -1])[at]


def _protocol(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) < 256:
        return int(text)
    return PROTOCOLS.get(text.lower(), -1)


def _digests(one: _Ends, other: _Ends, port: Array, other_port: Array, protocol: Array, ported: Array, seed: int) -> Array:
    other_port, one_way = _answered(port, other_port, protocol)
    swap = ~one_way & _behind(one.raw, port, other.raw, other_port)
    ends = np.where(swap[:, None], other.raw, one.raw), np.where(swap[:, None], one.raw, other.raw)
    ports = np.where(swap, other_port, port), np.where(swap, port, other_port)
    messages, sizes = np.zeros((len(port), BLOCK), np.uint8), np.zeros(len(port), np.int64)
    messages[:, :2] = np.frombuffer(seed.to_bytes(2, "big"), np.uint8)
    for family, width in ((4, 4), (6, 16)):
        rows = np.flatnonzero(one.family == family)
        behind = 2 + 2 * width
        messages[rows, 2 : 2 + width] = ends[0][rows, :width]
        messages[rows, 2 + width : behind] = ends[1][rows, :width]
        messages[rows, behind] = protocol[rows]
        rows_with_ports = rows[ported[rows]]
        for at, numbers in zip((behind + 2, behind + 4), ports, strict=True):
            messages[rows_with_ports, at] = numbers[rows_with_ports] >> 8
            messages[rows_with_ports, at + 1] = numbers[rows_with_ports] & 0xFF
        sizes[rows] = behind + 2 + 4 * ported[rows]
    return digests(messages, sizes)


def _answered(port: Array, other_port: Array, protocol: Array) -> tuple[Array, Array]:
    """The second port, for ICMP the type that answers the first; and where there is none, so that a flow has one direction."""
    second, one_way = other_port.copy(), np.zeros(len(port), bool)
    for number, answers in _ANSWERS.items():
        rows = np.flatnonzero(protocol == number)
        table = np.full(65536, -1)
        table[list(answers)] = list(answers.values())
        answer = table[port[rows]]
        second[rows] = np.where(answer >= 0, answer, other_port[rows])
        one_way[rows] = answer < 0
    return second, one_way


def _behind(one: Array, port: Array, other: Array, other_port: Array) -> Array:
    """Where the first end is the larger one: by address, then by port."""
    first, second = (np.ascontiguousarray(raw).view(">u8").astype(np.uint64) for raw in (one, other))
    high, low = first[:, 0] != second[:, 0], first[:, 1] != second[:, 1]
    larger = np.where(high, first[:, 0] > second[:, 0], first[:, 1] > second[:, 1])
    found: Array = np.where(high | low, larger, port > other_port)
    return found


def _texts(found: Array) -> Array:
    """Digests of 20 bytes → rows of ``1:`` and Base64."""
    padded = np.zeros((len(found), 21), np.uint32)
    padded[:, :20] = found
    groups = padded[:, 0::3] << 16 | padded[:, 1::3] << 8 | padded[:, 2::3]
    ids = np.empty((len(found), _LENGTH), np.uint8)
    ids[:, 0], ids[:, 1] = ord("1"), ord(":")
    for place, shift in enumerate((18, 12, 6, 0)):
        ids[:, 2 + place :: 4] = _SIGNS[groups >> shift & 63]
    ids[:, -1] = ord("=")
    return ids


def _strings(ids: Array, valid: Array) -> pa.StringArray:
    offsets = np.arange(0, _LENGTH * (len(valid) + 1), _LENGTH, dtype=np.int32)
    mask = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(pa.string(), len(valid), [mask, pa.py_buffer(offsets.tobytes()), pa.py_buffer(ids.tobytes())])
