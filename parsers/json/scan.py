"""What kernels over JSON texts share: where strings and values end, and which of the declared members one is.

They read texts that are JSON and stay inside any others. Declared members are a trie in flat arrays; a member's name
is compared as it is written, so that a row with an escape in a name is left to Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.scanner.compiled import part
from etl.scanner.intrinsics import any_of_three, load_byte, trailing_zeros

ONE = np.uint64(1)
BLOCK = np.uint64(16)
QUOTE, BACKSLASH, COLON, COMMA = np.uint8(0x22), np.uint8(0x5C), np.uint8(0x3A), np.uint8(0x2C)
OPEN, CLOSE = np.uint8(0x7B), np.uint8(0x7D)
OPEN_LIST, CLOSE_LIST = np.uint8(0x5B), np.uint8(0x5D)
SPACES = (np.uint8(0x20), np.uint8(0x0A), np.uint8(0x0D), np.uint8(0x09))

UNKNOWN = np.int64(-1)
"""No declared member."""


@part
def space_end(at: Any, end: Any) -> Any:
    """Behind white space."""
    while at < end:
        byte = load_byte(at)
        if byte not in SPACES:
            break
        at += ONE
    return at


@part
def _mark(at: Any, end: Any) -> Any:
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


@part
def string_end(at: Any, end: Any) -> Any:
    """Behind the quote that ends the string whose first character is at ``at``."""
    while at < end:
        at = _mark(at, end)
        if at < end and load_byte(at) == QUOTE:
            return at + ONE
        at += np.uint64(2)
    return end


@part
def _nested_end(at: Any, end: Any) -> Any:
    """Behind the bracket that closes the one at ``at``."""
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


@part
def value_end(at: Any, end: Any) -> Any:
    """Behind the value that begins at ``at``."""
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


@part
def _same(at: Any, name: Any, length: Any) -> Any:
    behind = at + np.uint64(length)
    while at < behind and load_byte(at) == load_byte(name):
        at, name = at + ONE, name + ONE
    return at == behind


@part
def name_end(at: Any, end: Any) -> Any:
    """Behind the quote that ends the name whose first character is at ``at``; 0 where it has an escape or no end."""
    at = _mark(at, end)
    return at + ONE if at < end and load_byte(at) == QUOTE else np.uint64(0)


@part
def has_backslash(at: Any, end: Any) -> Any:
    """Whether a span has one."""
    while at < end:
        if load_byte(at) == BACKSLASH:
            return True
        at += ONE
    return False


@part
def member(at: Any, length: Any, node: Any, first: Any, bounds: Any, names: Any) -> Any:
    """The number of the declared member of ``node`` whose name is the ``length`` bytes at ``at``, or `UNKNOWN`.

    ``names`` is the address of all names, ``bounds`` says where each lies.
    """
    for number in range(first[node], first[node + 1]):
        begin = bounds[number]
        if bounds[number + 1] - begin == length and _same(at, names + np.uint64(begin), length):
            return np.int64(number)
    return UNKNOWN
