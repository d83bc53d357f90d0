"""Kernels that read IP addresses and networks out of texts, as numbers of 128 bits.

An IPv4 address a.b.c.d is ::ffff:a.b.c.d (RFC 4291, 2.5.5.2), so both kinds are one line of numbers. Forms accepted are those
of RFC 4291, 2.2, without zones; octets have no leading zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import load_byte
from etl.columns.kernels import kernel, part

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_DOT, _COLON, _SLASH = np.uint8(0x2E), np.uint8(0x3A), np.uint8(0x2F)
_MAPPED, _ALL = np.uint64(0xFFFF) << np.uint64(32), np.uint64(0xFFFFFFFFFFFFFFFF)
_NONE = np.int64(-1)


@part
def ipv4(at: Any, size: Any) -> Any:
    """int64: a dotted address as a number, -1 of any other text."""
    if size < 7 or size > 15:
        return _NONE
    number, octet, digits, dots = np.int64(0), np.int64(0), 0, 0
    for place in range(size):
        byte = load_byte(at + np.uint64(place))
        if byte == _DOT:
            if digits == 0 or dots == 3:
                return _NONE
            number, octet, digits, dots = (number << 8) | octet, np.int64(0), 0, dots + 1
        else:
            digit = np.int64(byte) - 0x30
            if digit < 0 or digit > 9 or (digits > 0 and octet == 0):
                return _NONE
            octet, digits = octet * 10 + digit, digits + 1
            if octet > 255:
                return _NONE
    return (number << 8) | octet if digits > 0 and dots == 3 else _NONE


@part
def _hex(byte: Any) -> Any:
    low = byte | np.uint8(0x20)
    if np.uint8(0x30) <= byte <= np.uint8(0x39):
        return np.int64(byte) - 0x30
    return np.int64(low) - 0x57 if np.uint8(0x61) <= low <= np.uint8(0x66) else _NONE


@part
def _shifted(high: Any, low: Any, groups: Any) -> Any:
    """128 bits, moved up by groups of 16."""
    bits = np.uint64(16 * groups)
    if bits == _ZERO:
        return high, low
    if bits >= np.uint64(64):
        return (low << (bits - np.uint64(64)) if bits < np.uint64(128) else _ZERO), _ZERO
    return (high << bits) | (low >> (np.uint64(64) - bits)), low << bits


@part
def ipv6(at: Any, size: Any) -> Any:
    """Whether it is an address with colons, and its 128 bits. ``::`` parts the groups in front of it from those behind."""
    high, low, groups = _ZERO, _ZERO, 0
    before_high, before_low, before = _ZERO, _ZERO, -1
    place = 0
    if size < 2 or size > 45:
        return False, _ZERO, _ZERO
    if load_byte(at) == _COLON:
        if load_byte(at + _ONE) != _COLON:
            return False, _ZERO, _ZERO
        before, place = 0, 2
    while place < size:
        group, digits, first = np.int64(0), 0, place
        while place < size:
            digit = _hex(load_byte(at + np.uint64(place)))
            if digit < 0 or digits == 4:
                break
            group, digits, place = group * 16 + digit, digits + 1, place + 1
        if place < size and load_byte(at + np.uint64(place)) == _DOT:
            number = ipv4(at + np.uint64(first), size - first)
            if number < 0 or groups + max(before, 0) > 6:
                return False, _ZERO, _ZERO
            high, low = _shifted(high, low, 2)
            low, groups, place = low | np.uint64(number), groups + 2, size
            break
        if digits == 0 or groups + max(before, 0) > 7:
            return False, _ZERO, _ZERO
        high, low = _shifted(high, low, 1)
        low, groups = low | np.uint64(group), groups + 1
        if place == size:
            break
        if load_byte(at + np.uint64(place)) != _COLON or place + 1 == size:
            return False, _ZERO, _ZERO
        place += 1
        if load_byte(at + np.uint64(place)) == _COLON:
            if before >= 0:
                return False, _ZERO, _ZERO
            before_high, before_low, before = high, low, groups
            high, low, groups = _ZERO, _ZERO, 0
            place += 1
    if before < 0:
        return groups == 8, high, low
    if before + groups > 7:
        return False, _ZERO, _ZERO
    up_high, up_low = _shifted(before_high, before_low, 8 - before)
    return True, up_high | high, up_low | low


@part
def _read(at: Any, size: Any) -> Any:
    number = ipv4(at, size)
    if number >= 0:
        return True, _ZERO, _MAPPED | np.uint64(number)
    return ipv6(at, size)


@kernel
def addresses(address: Any, length: Any, high: Any, low: Any, valid: Any) -> None:
    """uint64[n] twice: each address; ``valid`` is False where the text is none."""
    for row in range(address.shape[0]):
        valid[row] = False
        if length[row] >= 0:
            valid[row], high[row], low[row] = _read(address[row], length[row])


@kernel
def networks(address: Any, length: Any, bounds: Any, valid: Any) -> None:
    """uint64[4, n]: the first and last address of each network (``a/n``, or an address: itself); bits behind the prefix do not
    count."""
    for row in range(address.shape[0]):
        valid[row] = False
        size = np.int64(0)
        while size < length[row] and load_byte(address[row] + np.uint64(size)) != _SLASH:
            size += 1
        if length[row] < 0:
            continue
        found, high, low = _read(address[row], size)
        dotted = found and ipv4(address[row], size) >= 0
        bits = _prefix(address[row] + np.uint64(size) + _ONE, length[row] - size - 1, 32 if dotted else 128)
        if not found or bits < 0:
            continue
        bits += 96 if dotted else 0
        rest_high = _ALL >> np.uint64(bits) if bits < 64 else _ZERO
        rest_low = _ALL if bits <= 64 else (_ALL >> np.uint64(bits - 64) if bits < 128 else _ZERO)
        bounds[0, row], bounds[1, row] = high & ~rest_high, low & ~rest_low
        bounds[2, row], bounds[3, row] = high | rest_high, low | rest_low
        valid[row] = True


@part
def _prefix(at: Any, size: Any, most: Any) -> Any:
    """The bits of a prefix; all where nothing is said (``size`` -1), -1 of what is no such number."""
    if size < 0:
        return np.int64(most)
    number = np.int64(0)
    for place in range(size):
        digit = np.int64(load_byte(at + np.uint64(place))) - 0x30
        if digit < 0 or digit > 9 or size > 3:
            return _NONE
        number = number * 10 + digit
    return number if size > 0 and number <= most else _NONE
