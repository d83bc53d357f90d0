"""``community_id(source ip, destination ip, source port, destination port, transport)``: the Community ID of a flow.

Version 1 of the specification (github.com/corelight/community-id-spec): ``1:`` and the SHA-1 of seed, addresses, protocol and
ports in Base64. The smaller endpoint comes first, so that both directions of a flow have the same id.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Array = np.ndarray[Any, Any]

PROTOCOLS = {
    "icmp": 1, "igmp": 2, "tcp": 6, "udp": 17, "gre": 47, "esp": 50, "ah": 51, "icmpv6": 58, "ipv6-icmp": 58, "icmp6": 58,
    "eigrp": 88, "ospf": 89, "pim": 103, "vrrp": 112, "sctp": 132,
}  # fmt: skip
"""IANA's protocol numbers by name; a transport may also be a number."""

_ICMP, _ICMP6 = 1, 58

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
"""Types of ICMP messages and of their replies: such a pair is a flow with two directions."""

_SIGNS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_LENGTH = 30
"""Bytes of an id: the version, a colon and 28 characters of Base64."""


def community_ids(
    source: pa.Array, destination: pa.Array, source_port: pa.Array, destination_port: pa.Array, transport: pa.Array, seed: int = 0
) -> pa.StringArray:
    """Ids; null if an address is invalid, the protocol unknown, or a port (for ICMP: type or code) missing.

    Addresses and transport are texts, ports whole numbers, all of one length.
    """
    from etl.columns.texts import Texts
    from etl.expressions.values.community_id_kernel import flow_ids

    one, other, protocols = Texts.of(source), Texts.of(destination), _protocols(transport)
    ids, valid = np.zeros((len(protocols), _LENGTH), np.uint8), np.empty(len(protocols), bool)
    room = np.empty(64, np.uint8), np.empty(80, np.uint32), np.zeros(21, np.uint8)
    flow_ids(
        one.address, one.length, other.address, other.length, _ports(source_port), _ports(destination_port), protocols,
        np.int64(seed), _answer_table(), _SIGNS, *room, ids, valid,
    )  # fmt: skip
    return _strings(ids, valid)


def community_id(
    source: str | None,
    destination: str | None,
    source_port: int | None,
    destination_port: int | None,
    transport: str | None,
    seed: int = 0,
) -> str | None:
    """The id of one flow, for Spark."""
    texts = [pa.array([text], pa.string()) for text in (source, destination, transport)]
    ports = [pa.array([port], pa.int64()) for port in (source_port, destination_port)]
    found: str | None = community_ids(texts[0], texts[1], ports[0], ports[1], texts[2], seed)[0].as_py()
    return found


def _ports(numbers: pa.Array) -> Array:
    """Ports as int64, -1 for null."""
    ports: Array = pc.fill_null(pc.cast(numbers, pa.int64()), -1).to_numpy(zero_copy_only=False)
    return ports


@cache
def _answer_table() -> Array:
    table = np.full((2, 256), -1, np.int64)
    for row, answers in zip(table, _ANSWERS.values(), strict=True):
        row[list(answers)] = list(answers.values())
    return table


def _protocols(texts: pa.Array) -> Array:
    if not len(texts):
        return np.empty(0, np.int64)
    encoded = texts.dictionary_encode()
    numbers = [_protocol(text) for text in encoded.dictionary.to_pylist()]
    at = pc.fill_null(encoded.indices, len(numbers)).to_numpy(zero_copy_only=False)
    found: Array = np.array([*numbers, -1], np.int64)[at]
    return found


def _protocol(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) < 256:
        return int(text)
    return PROTOCOLS.get(text.lower(), -1)


def _strings(ids: Array, valid: Array) -> pa.StringArray:
    offsets = np.arange(0, _LENGTH * (len(valid) + 1), _LENGTH, dtype=np.int32)
    mask = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(pa.string(), len(valid), [mask, pa.py_buffer(offsets.tobytes()), pa.py_buffer(ids.tobytes())])
