"""Kernels over texts: IPv4 addresses as numbers, and one column's texts inside another's."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import load_byte
from etl.columns.kernels import kernel, part

_ZERO, _NINE, _POINT = np.uint8(48), np.uint8(57), np.uint8(46)


@part
def _ipv4(at: Any, size: Any) -> Any:
    value, octet, digits, points = np.int64(0), np.int64(0), 0, 0
    for place in range(size):
        byte = load_byte(at + np.uint64(place))
        if byte == _POINT:
            if digits == 0 or points == 3:
                return np.int64(-1)
            value, octet, digits, points = value << 8 | octet, np.int64(0), 0, points + 1
        elif _ZERO <= byte <= _NINE:
            if digits > 0 and octet == 0:
                return np.int64(-1)
            octet, digits = octet * 10 + np.int64(byte - _ZERO), digits + 1
            if octet > 255:
                return np.int64(-1)
        else:
            return np.int64(-1)
    return value << 8 | octet if points == 3 and digits > 0 else np.int64(-1)


@kernel
def parse_ipv4(address: Any, length: Any, value: Any) -> None:
    """Dotted addresses → int64, -1 for anything else (a zero in front of digits included)."""
    for row in range(address.shape[0]):
        value[row] = _ipv4(address[row], length[row]) if 7 <= length[row] <= 15 else np.int64(-1)


@part
def _equal(one: Any, other: Any, size: Any) -> Any:
    for place in range(size):  # noqa: SIM110 (kernels know no generators)
        if load_byte(one + np.uint64(place)) != load_byte(other + np.uint64(place)):
            return False
    return True


@kernel
def compare_texts(left: Any, left_size: Any, right: Any, right_size: Any, kind: Any, result: Any) -> None:
    """``result`` bool[n]: whether the left text is (0), has (1), begins (2) or ends (3) with the right one."""
    for row in range(left.shape[0]):
        size, inner = left_size[row], right_size[row]
        if size < 0 or inner < 0 or inner > size or (kind == 0 and inner != size):
            continue
        first = size - inner if kind == 3 else np.int64(0)
        last = size - inner if kind in (1, 3) else np.int64(0)
        while first <= last and not result[row]:
            result[row] = _equal(left[row] + np.uint64(first), right[row], inner)
            first += 1
