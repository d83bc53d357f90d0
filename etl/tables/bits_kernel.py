"""Kernels over numbers of a few bits, packed end to end in 64-bit words, lowest bits first."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.kernels import kernel

_WORD, _ONE, _SIX, _LOW = np.uint64(64), np.uint64(1), np.uint64(6), np.uint64(63)


@kernel
def pack(numbers: Any, width: Any, words: Any) -> None:
    """``numbers`` (uint32[n], each below 2 ** width) into zeroed ``words`` (uint64)."""
    bits = np.uint64(width)
    for row in range(numbers.shape[0]):
        at = np.uint64(row) * bits
        word, shift = at >> _SIX, at & _LOW
        words[word] |= np.uint64(numbers[row]) << shift
        if shift + bits > _WORD:
            words[word + _ONE] |= np.uint64(numbers[row]) >> (_WORD - shift)


@kernel
def unpack(words: Any, width: Any, rows: Any, null: Any, numbers: Any, valid: Any) -> Any:
    """int32[n]: the numbers at ``rows`` (int64[n]). Where a row is below 0, or its number is ``null``, ``valid`` is False;
    returns how often."""
    bits = np.uint64(width)
    mask = (_ONE << bits) - _ONE
    nulls = 0
    for row in range(rows.shape[0]):
        number = np.int64(null)
        if rows[row] >= 0:
            at = np.uint64(rows[row]) * bits
            word, shift = at >> _SIX, at & _LOW
            value = words[word] >> shift
            if shift + bits > _WORD:
                value |= words[word + _ONE] << (_WORD - shift)
            number = np.int64(value & mask)
        valid[row] = number != null
        numbers[row] = number if number != null else 0
        nulls += number == null
    return nulls
