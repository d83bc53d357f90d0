"""Parses IP addresses in texts, for kernels.

It accepts the forms of RFC 4291, 2.2, without zones, and octets without leading zeros, as ``inet_pton`` does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import load_byte
from etl.columns.kernels import kernel_function

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_DOT, _COLON = np.uint8(0x2E), np.uint8(0x3A)
_NONE = np.int64(-1)


@kernel_function
def ipv4(at: Any, size: Any) -> Any:
    """int64: a dotted address as a number, -1 of any other text."""
    if size < 7 or size > 15:
        return _NONE
    number, octet, digits, dots = np.int64(0), np.int64(0), 0, 0
    for index in range(size):
        byte = load_byte(at + np.uint64(index))
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


@kernel_function
def _hex(byte: Any) -> Any:
    low = byte | np.uint8(0x20)
    if np.uint8(0x30) <= byte <= np.uint8(0x39):
        return np.int64(byte) - 0x30
    return np.int64(low) - 0x57 if np.uint8(0x61) <= low <= np.uint8(0x66) else _NONE


@kernel_function
def _shift_groups(high: Any, low: Any, groups: Any) -> Any:
    """128 bits, moved up by groups of 16."""
    bits = np.uint64(16 * groups)
    if bits == _ZERO:
        return high, low
    if bits >= np.uint64(64):
        return (low << (bits - np.uint64(64)) if bits < np.uint64(128) else _ZERO), _ZERO
    return (high << bits) | (low >> (np.uint64(64) - bits)), low << bits


@kernel_function
def ipv6(at: Any, size: Any) -> Any:
    """Whether the text is an IPv6 address, and its 128 bits. ``::`` separates the groups before it from those after it."""
    high, low, groups = _ZERO, _ZERO, 0
    before_high, before_low, before = _ZERO, _ZERO, -1
    index = 0
    if size < 2 or size > 45:
        return False, _ZERO, _ZERO
    if load_byte(at) == _COLON:
        if load_byte(at + _ONE) != _COLON:
            return False, _ZERO, _ZERO
        before, index = 0, 2
    while index < size:
        group, digits, first = np.int64(0), 0, index
        while index < size:
            digit = _hex(load_byte(at + np.uint64(index)))
            if digit < 0 or digits == 4:
                break
            group, digits, index = group * 16 + digit, digits + 1, index + 1
        if index < size and load_byte(at + np.uint64(index)) == _DOT:
            number = ipv4(at + np.uint64(first), size - first)
            if number < 0 or groups + max(before, 0) > 6:
                return False, _ZERO, _ZERO
            high, low = _shift_groups(high, low, 2)
            low, groups, index = low | np.uint64(number), groups + 2, size
            break
        if digits == 0 or groups + max(before, 0) > 7:
            return False, _ZERO, _ZERO
        high, low = _shift_groups(high, low, 1)
        low, groups = low | np.uint64(group), groups + 1
        if index == size:
            break
        if load_byte(at + np.uint64(index)) != _COLON or index + 1 == size:
            return False, _ZERO, _ZERO
        index += 1
        if load_byte(at + np.uint64(index)) == _COLON:
            if before >= 0:
                return False, _ZERO, _ZERO
            before_high, before_low, before = high, low, groups
            high, low, groups = _ZERO, _ZERO, 0
            index += 1
    if before < 0:
        return groups == 8, high, low
    if before + groups > 7:
        return False, _ZERO, _ZERO
    up_high, up_low = _shift_groups(before_high, before_low, 8 - before)
    return True, up_high | high, up_low | low
