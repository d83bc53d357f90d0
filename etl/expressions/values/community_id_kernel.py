"""The kernel of `community_id`: parses addresses, orders endpoints, computes SHA-1 (FIPS 180-4) and Base64, flow by flow."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.ip_addresses import ipv4, ipv6
from etl.columns.kernels import inlined, kernel, kernel_function

_ZERO = np.uint64(0)
_ICMP, _TCP, _UDP, _ICMP6, _SCTP = 1, 6, 17, 58, 132
_PADDING_START = np.uint8(0x80)
"""The byte after a message, before the padding zeros."""


@kernel_function
def _read(at: Any, size: Any) -> Any:
    """The length of an address in bytes (0 if it is not an address) and its 128 bits; an IPv4 address is the lower 32."""
    if size <= 0:
        return 0, _ZERO, _ZERO
    number = ipv4(at, size)
    if number >= 0:
        return 4, _ZERO, np.uint64(number)
    found, high, low = ipv6(at, size)
    return 16 if found else 0, high, low


@kernel_function
def _put(block: Any, at: Any, number: Any, count: Any) -> Any:
    """Write the last ``count`` bytes of a number in big-endian order; returns the index after them."""
    for n in range(count):
        block[at + n] = np.uint8((number >> np.uint64(8 * (count - 1 - n))) & np.uint64(0xFF))
    return at + count


@kernel_function
def _put_address(block: Any, at: Any, width: Any, high: Any, low: Any) -> Any:
    if width == 16:
        at = _put(block, at, high, 8)
        return _put(block, at, low, 8)
    return _put(block, at, low, 4)


@inlined
def _rotate(word: Any, bits: Any) -> Any:
    wide = np.uint64(word)
    return np.uint32((wide << np.uint64(bits)) | (wide >> np.uint64(32 - bits)))


@kernel_function
def _sha1(block: Any, size: Any, words: Any, digest: Any) -> None:
    """The SHA-1 digest of a message of at most 55 bytes in ``block`` (uint8[64]), whose other bytes are overwritten."""
    block[size] = _PADDING_START
    for at in range(size + 1, 64):
        block[at] = 0
    block[62], block[63] = np.uint8(size * 8 >> 8), np.uint8(size * 8 & 0xFF)
    for t in range(16):
        words[t] = np.uint32(block[4 * t] << 24 | block[4 * t + 1] << 16 | block[4 * t + 2] << 8 | block[4 * t + 3])
    for t in range(16, 80):
        words[t] = _rotate(words[t - 3] ^ words[t - 8] ^ words[t - 14] ^ words[t - 16], 1)
    a, b, c = np.uint32(0x67452301), np.uint32(0xEFCDAB89), np.uint32(0x98BADCFE)
    d, e = np.uint32(0x10325476), np.uint32(0xC3D2E1F0)
    for t in range(80):
        if t < 20:
            mixed, constant = np.uint32(d ^ (b & (c ^ d))), np.uint32(0x5A827999)
        elif t < 40:
            mixed, constant = np.uint32(b ^ c ^ d), np.uint32(0x6ED9EBA1)
        elif t < 60:
            mixed, constant = np.uint32((b & c) | (d & (b | c))), np.uint32(0x8F1BBCDC)
        else:
            mixed, constant = np.uint32(b ^ c ^ d), np.uint32(0xCA62C1D6)
        new = np.uint32(_rotate(a, 5) + mixed + e + constant + words[t])
        a, b, c, d, e = new, a, _rotate(b, 30), c, d
    _put(digest, 0, np.uint64(np.uint32(a + np.uint32(0x67452301))), 4)
    _put(digest, 4, np.uint64(np.uint32(b + np.uint32(0xEFCDAB89))), 4)
    _put(digest, 8, np.uint64(np.uint32(c + np.uint32(0x98BADCFE))), 4)
    _put(digest, 12, np.uint64(np.uint32(d + np.uint32(0x10325476))), 4)
    _put(digest, 16, np.uint64(np.uint32(e + np.uint32(0xC3D2E1F0))), 4)


@kernel_function
def _put_text(digest: Any, alphabet: Any, ids: Any, row: Any) -> None:
    """Write ``1:`` and the Base64 of the digest: 20 bytes, followed by a zero."""
    ids[row, 0], ids[row, 1] = np.uint8(0x31), np.uint8(0x3A)
    for n in range(7):
        group = np.int64(digest[3 * n]) << 16 | np.int64(digest[3 * n + 1]) << 8 | np.int64(digest[3 * n + 2])
        for index in range(4):
            ids[row, 2 + 4 * n + index] = alphabet[group >> (18 - 6 * index) & 63]
    ids[row, 29] = np.uint8(0x3D)


@kernel
def flow_ids(
    address: Any, length: Any, other_address: Any, other_length: Any, ports: Any, other_ports: Any, protocols: Any,
    seed: Any, answers: Any, alphabet: Any, block: Any, words: Any, digest: Any, ids: Any, valid: Any,
) -> None:  # fmt: skip
    """Write ids as rows of 30 bytes, and to ``valid`` which rows have one.

    ``answers`` (int64[2, 256]): for each type of ICMP and ICMPv6 messages the type of the reply, -1 if there is none. ``block``
    (uint8[64]), ``words`` (uint32[80]) and ``digest`` (uint8[21], the last 0) are scratch arrays.
    """
    for row in range(protocols.shape[0]):
        valid[row] = False
        protocol, port, other_port = protocols[row], ports[row], other_ports[row]
        ported = protocol in (_TCP, _UDP, _SCTP, _ICMP, _ICMP6)
        in_range = port >= 0 and port < 65536 and other_port >= 0 and other_port < 65536
        if protocol < 0 or (ported and not in_range):
            continue
        width, high, low = _read(address[row], length[row])
        if width == 0:
            continue
        other_width, other_high, other_low = _read(other_address[row], other_length[row])
        if other_width != width:
            continue
        one_way = False
        if protocol in (_ICMP, _ICMP6):
            answer = answers[0 if protocol == _ICMP else 1, port] if port < 256 else np.int64(-1)
            one_way = bool(answer < 0)
            other_port = other_port if one_way else answer
        is_greater = high > other_high if high != other_high else low > other_low if low != other_low else port > other_port
        if is_greater and not one_way:
            high, low, port, other_high, other_low, other_port = other_high, other_low, other_port, high, low, port
        at = _put(block, 0, np.uint64(seed), 2)
        at = _put_address(block, at, width, high, low)
        at = _put_address(block, at, width, other_high, other_low)
        at = _put(block, at, np.uint64(protocol) << np.uint64(8), 2)
        if ported:
            at = _put(block, at, np.uint64(port), 2)
            at = _put(block, at, np.uint64(other_port), 2)
        _sha1(block, at, words, digest)
        _put_text(digest, alphabet, ids, row)
        valid[row] = True
