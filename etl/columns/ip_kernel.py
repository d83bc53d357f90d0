"""Kernels that parse columns of IP addresses and networks (forms: `ip_addresses`).

In 128 bits an IPv4 address a.b.c.d is ::ffff:a.b.c.d (RFC 4291, 2.5.5.2), so that both versions share one range of numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import load_byte
from etl.columns.ip_addresses import ipv4, ipv6
from etl.columns.kernels import kernel, kernel_function

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_SLASH, _PERCENT = np.uint8(0x2F), np.uint8(0x25)
_MAPPED, _ALL = np.uint64(0xFFFF) << np.uint64(32), np.uint64(0xFFFFFFFFFFFFFFFF)
_NONE = np.int64(-1)


@kernel
def parse_ipv4(address: Any, length: Any, numbers: Any) -> Any:
    """int64[n]: IPv4 addresses as numbers, -1 for other texts and nulls. Returns the number of other texts."""
    others = 0
    for row in range(address.shape[0]):
        numbers[row] = ipv4(address[row], length[row])
        others += numbers[row] < 0 and length[row] >= 0
    return others


@kernel_function
def _without_zone(at: Any, size: Any) -> Any:
    """The size of an address without its zone (RFC 4007), which begins at ``%``; -1 if the zone is empty or has another ``%``."""
    found = size
    for index in range(size):
        if load_byte(at + np.uint64(index)) == _PERCENT:
            if found < size:
                return _NONE
            found = np.int64(index)
    return _NONE if found == size - 1 else found


@kernel
def parse_ipv6(address: Any, length: Any, high: Any, low: Any, valid: Any) -> None:
    """uint64[n] twice: the upper and lower half of each IPv6 address, with or without a zone; ``valid`` is False for others."""
    for row in range(address.shape[0]):
        size = _without_zone(address[row], length[row])
        valid[row] = False
        if size >= 0:
            valid[row], high[row], low[row] = ipv6(address[row], size)


@kernel_function
def _parse(at: Any, size: Any) -> Any:
    number = ipv4(at, size)
    if number >= 0:
        return True, _ZERO, _MAPPED | np.uint64(number)
    return ipv6(at, size)


@kernel
def parse_addresses(address: Any, length: Any, high: Any, low: Any, valid: Any) -> None:
    """uint64[n] twice: the upper and lower half of each address; ``valid`` is False where the text is not one."""
    for row in range(address.shape[0]):
        valid[row] = False
        if length[row] >= 0:
            valid[row], high[row], low[row] = _parse(address[row], length[row])


@kernel
def parse_networks(address: Any, length: Any, bounds: Any, valid: Any) -> None:
    """uint64[4, n]: the first and last address of each network ``a/n``; an address alone is a network of one. Host bits are
    ignored."""
    for row in range(address.shape[0]):
        valid[row] = False
        size = np.int64(0)
        while size < length[row] and load_byte(address[row] + np.uint64(size)) != _SLASH:
            size += 1
        if length[row] < 0:
            continue
        found, high, low = _parse(address[row], size)
        dotted = found and ipv4(address[row], size) >= 0
        bits = _parse_prefix(address[row] + np.uint64(size) + _ONE, length[row] - size - 1, 32 if dotted else 128)
        if not found or bits < 0:
            continue
        bits += 96 if dotted else 0
        rest_high = _ALL >> np.uint64(bits) if bits < 64 else _ZERO
        rest_low = _ALL if bits <= 64 else (_ALL >> np.uint64(bits - 64) if bits < 128 else _ZERO)
        bounds[0, row], bounds[1, row] = high & ~rest_high, low & ~rest_low
        bounds[2, row], bounds[3, row] = high | rest_high, low | rest_low
        valid[row] = True


@kernel_function
def _parse_prefix(at: Any, size: Any, max_bits: Any) -> Any:
    """The length of a prefix in bits; ``max_bits`` where there is none (``size`` -1), -1 if it is not a valid number."""
    if size < 0:
        return np.int64(max_bits)
    number = np.int64(0)
    for index in range(size):
        digit = np.int64(load_byte(at + np.uint64(index))) - 0x30
        if digit < 0 or digit > 9 or size > 3:
            return _NONE
        number = number * 10 + digit
    return number if size > 0 and number <= max_bits else _NONE
