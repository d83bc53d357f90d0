"""Parts of kernels over JSON that check nothing: where strings and values end, and which declared member a name is.

They are right for texts that are JSON, and stay inside any others. Declared members are a trie in flat arrays; names are
compared as they are written, so that Python reads a row with an escape in a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from etl.columns.byte_runs import same_bytes
from etl.columns.intrinsics import any_of_three, load_byte, trailing_zeros
from etl.columns.kernels import kernel_function

ONE = np.uint64(1)
BLOCK = np.uint64(16)
QUOTE, BACKSLASH, COLON, COMMA = np.uint8(0x22), np.uint8(0x5C), np.uint8(0x3A), np.uint8(0x2C)
OPEN, CLOSE = np.uint8(0x7B), np.uint8(0x7D)
OPEN_LIST, CLOSE_LIST = np.uint8(0x5B), np.uint8(0x5D)
SPACES = (np.uint8(0x20), np.uint8(0x0A), np.uint8(0x0D), np.uint8(0x09))

UNKNOWN = np.int64(-1)
"""No declared member."""

_LENGTH, _FIRST, _LAST, _NODE = np.int64(131), np.int64(31), np.int64(7), np.int64(17)


@kernel_function
def space_end(at: Any, end: Any) -> Any:
    """The address after white space."""
    while at < end:
        byte = load_byte(at)
        if byte not in SPACES:
            break
        at += ONE
    return at


@kernel_function
def _next_mark(at: Any, end: Any) -> Any:
    """At the next quote or backslash, or at the end."""
    while at < end:
        if end - at >= BLOCK:
            found = any_of_three(at, QUOTE, BACKSLASH, QUOTE)
            if found == 0:
                at += BLOCK
                continue
            return at + np.uint64(trailing_zeros(found))
        byte = load_byte(at)
        if byte in (QUOTE, BACKSLASH):
            break
        at += ONE
    return at


@kernel_function
def string_end(at: Any, end: Any) -> Any:
    """The address after the quote that ends the string whose first character is at ``at``."""
    while at < end:
        at = _next_mark(at, end)
        if at < end and load_byte(at) == QUOTE:
            return at + ONE
        at += np.uint64(2)
    return end


@kernel_function
def _nested_end(at: Any, end: Any) -> Any:
    """The address after the bracket that closes the one at ``at``."""
    depth = np.int64(0)
    while at < end:
        byte = load_byte(at)
        at += ONE
        if byte == QUOTE:
            at = string_end(at, end)
        elif byte in (OPEN, OPEN_LIST):
            depth += 1
        elif byte in (CLOSE, CLOSE_LIST):
            depth -= 1
            if depth == 0:
                return at
    return end


@kernel_function
def value_end(at: Any, end: Any) -> Any:
    """The address after the value that begins at ``at``."""
    if at >= end:
        return end
    byte = load_byte(at)
    if byte == QUOTE:
        return string_end(at + ONE, end)
    if byte in (OPEN, OPEN_LIST):
        return _nested_end(at, end)
    while at < end:
        byte = load_byte(at)
        if byte in SPACES or byte in (COMMA, CLOSE, CLOSE_LIST):
            break
        at += ONE
    return at


@kernel_function
def name_end(at: Any, end: Any) -> Any:
    """The address after the quote that ends the name whose first character is at ``at``; 0 where it has an escape or no end."""
    at = _next_mark(at, end)
    return at + ONE if at < end and load_byte(at) == QUOTE else np.uint64(0)


@kernel_function
def has_backslash(at: Any, end: Any) -> Any:
    """Whether a span has one."""
    while at < end:
        if load_byte(at) == BACKSLASH:
            return True
        at += ONE
    return False


@kernel_function
def scan_members(at: Any, length: Any, node: Any, first: Any, bounds: Any, names: Any) -> Any:
    """The number of the declared member of ``node`` whose name is the ``length`` bytes at ``at``, or `UNKNOWN`.

    ``names`` is the address of all names, ``bounds`` says where each lies.
    """
    for number in range(first[node], first[node + 1]):
        begin = bounds[number]
        if bounds[number + 1] - begin == length and same_bytes(at, names + np.uint64(begin), length):
            return np.int64(number)
    return UNKNOWN


def slots_of(first: Any, names: Sequence[bytes]) -> Any:
    """Where `find_member` finds the members of all nodes by their names: numbers in int64[power of two], -1 where none is."""
    room = 1 << max(3, (4 * len(names)).bit_length())
    slots = np.full(room, UNKNOWN)
    for node in range(len(first) - 1):
        for number in range(first[node], first[node + 1]):
            name = names[number] or b'"'
            slot = _slot(len(names[number]), name[0], name[-1], node, room)
            while slots[slot] >= 0:
                slot = slot + 1 & room - 1
            slots[slot] = number
    return slots


def _slot(length: int, first: int, last: int, node: int, room: int) -> int:
    return int(length * _LENGTH + first * _FIRST + last * _LAST + node * _NODE) & room - 1


@kernel_function
def find_member(at: Any, length: Any, node: Any, first: Any, slots: Any, bounds: Any, names: Any) -> Any:
    """As `scan_members`, at the cost of one look into ``slots``. The name stands between quotes."""
    mask = slots.shape[0] - 1
    begin, end = np.int64(load_byte(at)), np.int64(load_byte(at + np.uint64(length) - ONE))
    slot = (length * _LENGTH + begin * _FIRST + end * _LAST + node * _NODE) & mask
    while slots[slot] >= 0:
        number = slots[slot]
        here = first[node] <= number < first[node + 1]
        if here and bounds[number + 1] - bounds[number] == length and same_bytes(at, names + np.uint64(bounds[number]), length):
            return number
        slot = (slot + 1) & mask
    return UNKNOWN
