"""Kernels that extend the 128-bit hash of each row by the value of a further column.

``state`` is uint64[2, rows]: two hashes of the values before. ``keys`` is uint64[`SECRETS`]: secret numbers, those of the first
hash and of the second in turn. Each hash multiplies by a secret number to 128 bits and folds, which is the mixing step of wyhash.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.byte_runs import hash_bytes
from etl.columns.intrinsics import multiply_fold
from etl.columns.kernels import kernel, kernel_function

SECRETS = 8
"""Secret numbers: what the hashes begin with, multipliers, null, multipliers of the last step."""

BEGIN, MULTIPLIER, NULL, LAST = 0, 2, 4, 6
"""Positions of the secret numbers of the first hash; those of the second follow them."""

_SIZE = np.uint64(0xD1B54A32D192ED03)
"""Spreads a length over 64 bits: texts of different lengths for which `hash_bytes` is equal get different hashes."""


@kernel_function
def _absorb(state: Any, row: Any, first: Any, second: Any, keys: Any) -> None:
    """Extend both hashes of a row, each by a number."""
    state[0, row] = multiply_fold(state[0, row] ^ first, keys[MULTIPLIER])
    state[1, row] = multiply_fold(state[1, row] ^ second, keys[MULTIPLIER + 1])


@kernel_function
def _absorb_null(state: Any, row: Any, keys: Any) -> None:
    """Extend both hashes of a row by numbers that no value is likely to have."""
    _absorb(state, row, keys[NULL], keys[NULL + 1], keys)


@kernel
def absorb_numbers(numbers: Any, valid: Any, keys: Any, state: Any) -> None:
    """Numbers (uint64[rows]); ``valid`` (bool[rows]) is empty if none is null."""
    for row in range(numbers.shape[0]):
        if valid.shape[0] == 0 or valid[row]:
            _absorb(state, row, numbers[row], numbers[row], keys)
        else:
            _absorb_null(state, row, keys)


@kernel
def absorb_bytes(address: Any, length: Any, keys: Any, state: Any) -> None:
    """Runs of bytes at addresses; a length of -1 is null."""
    for row in range(address.shape[0]):
        if length[row] < 0:
            _absorb_null(state, row, keys)
            continue
        size = np.uint64(length[row]) * _SIZE
        first = hash_bytes(address[row], length[row], state[0, row])
        second = hash_bytes(address[row], length[row], state[1, row])
        state[0, row] = multiply_fold(first ^ size, keys[MULTIPLIER])
        state[1, row] = multiply_fold(second ^ size, keys[MULTIPLIER + 1])


@kernel
def absorb_lists(offsets: Any, valid: Any, elements: Any, keys: Any, state: Any) -> None:
    """Lists: row r has the elements from ``offsets[r]`` to ``offsets[r + 1]``, whose hashes are ``elements`` (uint64[2, n])."""
    for row in range(offsets.shape[0] - 1):
        if valid.shape[0] and not valid[row]:
            _absorb_null(state, row, keys)
            continue
        for at in range(offsets[row], offsets[row + 1]):
            _absorb(state, row, elements[0, at], elements[1, at], keys)
        size = np.uint64(offsets[row + 1] - offsets[row]) * _SIZE
        _absorb(state, row, size, size, keys)


@kernel
def finish(keys: Any, state: Any) -> None:
    """The last mixing step, after which each bit of a hash depends on all bits of each value."""
    for row in range(state.shape[1]):
        state[0, row] = multiply_fold(state[0, row] ^ keys[LAST + 1], keys[LAST])
        state[1, row] = multiply_fold(state[1, row] ^ keys[LAST], keys[LAST + 1])


_SHORT_RUN = 32
"""Rows with equal hashes that are sorted by insertion; more are left to a sort whose time does not grow with their square."""


@kernel_function
def _is_before(keys: Any, one: Any, other: Any) -> Any:
    """Whether a row is before another one by its keys, the last one first, or else by its number."""
    for number in range(keys.shape[0] - 1, -1, -1):
        if keys[number, one] != keys[number, other]:
            return keys[number, one] < keys[number, other]
    return one < other


@kernel
def sort_short_runs(hashes: Any, keys: Any, order: Any, unsorted: Any) -> Any:
    """Sort the rows of ``order`` (int64[rows]) that have equal ``hashes`` (in this order) by ``keys`` (int64[keys, rows]).
    ``unsorted`` (bool[rows]) says which are left, because more than `_SHORT_RUN` are equal. Returns whether there are such."""
    rows, begin, left = order.shape[0], 0, False
    while begin < rows:
        end = begin + 1
        while end < rows and hashes[end] == hashes[begin]:
            end += 1
        long = end - begin > _SHORT_RUN
        left |= long
        for at in range(begin, end):
            unsorted[at] = long
            row, to = order[at], at
            while not long and to > begin and _is_before(keys, row, order[to - 1]):
                order[to] = order[to - 1]
                to -= 1
            order[to] = row
        begin = end
    return left
