"""Kernels for responses of a search: the position of each hit, and a hash of each document's index and id."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import load_byte
from etl.columns.kernels import kernel, kernel_function

_QUOTE, _BACKSLASH, _COMMA, _CLOSE_LIST = (np.uint8(ord(one)) for one in '"\\,]')
_OPENS = np.array([chr(one) in "{[" for one in range(256)])
_CLOSES = np.array([chr(one) in "}]" for one in range(256)])

_ONE = np.uint64(1)
_PRIME = np.uint64(0x100000001B3)
_BASIS = np.uint64(0xCBF29CE484222325)
_MIX_A, _MIX_B = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)


@kernel
def find_objects(text: Any, at: Any, starts: Any, ends: Any) -> Any:
    """Locate the objects of an array whose first character (after the bracket) is at ``at``. Returns their number and the
    position of the array's end; -1 if the text (uint8[n]) is incomplete or has more objects than ``starts`` and ``ends``
    (int32[max_hits] each).
    """
    count, depth, quoted = 0, 0, False
    while at < len(text):
        byte = text[at]
        if quoted:
            if byte == _BACKSLASH:
                at += 1
            elif byte == _QUOTE:
                quoted = False
        elif byte == _QUOTE:
            quoted = True
        elif _OPENS[byte]:
            if depth == 0:
                if count == len(starts):
                    return -1, at
                starts[count] = at
            depth += 1
        elif _CLOSES[byte]:
            if depth == 0:
                return count, at
            depth -= 1
            if depth == 0:
                ends[count] = at + 1
                count += 1
        at += 1
    return -1, at


@kernel_function
def _hash(value: Any, address: Any, length: Any) -> Any:
    for _ in range(length):
        value = (value ^ np.uint64(load_byte(address))) * _PRIME
        address += _ONE
    return (value ^ np.uint64(0xFF)) * _PRIME


@kernel
def hash_names(index: Any, index_length: Any, id_: Any, id_length: Any, numbers: Any) -> None:
    """Write a hash from 0 to 2^63 - 1 of each document's index and id (FNV-1a, mixed), given by address and length."""
    for row in range(len(numbers)):
        value = _hash(_hash(_BASIS, index[row], index_length[row]), id_[row], id_length[row])
        value = (value ^ (value >> _30)) * _MIX_A
        value = (value ^ (value >> _27)) * _MIX_B
        numbers[row] = np.int64((value ^ (value >> _31)) >> _ONE)
