"""Kernels that find declared members in JSON objects: where each lies in its text, and what kind of value it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.scanner.compiled import kernel, part
from etl.scanner.intrinsics import any_of_three, load_byte, trailing_zeros
from parsers.json.scan import (
    BLOCK,
    CLOSE,
    CLOSE_LIST,
    COLON,
    COMMA,
    ONE,
    OPEN,
    OPEN_LIST,
    QUOTE,
    UNKNOWN,
    has_backslash,
    known,
    name_end,
    space_end,
    value_end,
)

MISSING, TEXT, SCALAR, NESTED, ESCAPED = np.uint8(0), np.uint8(1), np.uint8(2), np.uint8(3), np.uint8(4)
"""Kinds of values: none or null, a string, a number or truth value, an array or object, and what has a backslash in it."""

_LETTER_N = np.uint8(0x6E)
_OBJECT = np.int64(-1)
"""The place in an object, which has none."""


@part
def _at_place(place: Any, node: Any, first: Any, places: Any) -> Any:
    for number in range(first[node], first[node + 1]):
        if places[number] == place:
            return np.int64(number)
    return UNKNOWN


@part
def _entered(byte: Any, node: Any, has_names: Any, has_places: Any) -> Any:
    """Whether a declared node's value is what its members need: 1, 0 for null, -1 for anything else."""
    if byte == OPEN:
        return -1 if has_places[node] else 1
    if byte == OPEN_LIST:
        return -1 if has_names[node] else 1
    return 0 if byte == _LETTER_N else -1


@part
def _named(at: Any, end: Any, node: Any, first: Any, slots: Any, bounds: Any, names: Any) -> Any:
    """The member whose name begins at ``at``, and where its value begins: 0 where there is no plain name and value."""
    nowhere = np.uint64(0)
    behind = name_end(at + ONE, end) if load_byte(at) == QUOTE else nowhere
    if behind == 0:
        return UNKNOWN, nowhere
    number = known(at + ONE, np.int64(behind - at) - 2, node, first, slots, bounds, names)
    at = space_end(behind, end)
    if at >= end or load_byte(at) != COLON:
        return UNKNOWN, nowhere
    at = space_end(at + ONE, end)
    return number, at if at < end else nowhere


@part
def _row(
    row: Any, at: Any, end: Any, trie: Any, bounds: Any, names: Any, nodes: Any, place: Any, seen: Any, starts: Any, ends: Any
) -> Any:
    """Find the leaves of one object; whether that is a plain case: no declared name twice or escaped, no odd value."""
    first, slots, places, leaves, children, has_names, has_places = trie
    base = at
    level = np.int64(0)
    nodes[0], place[0] = 0, _OBJECT
    at += ONE
    while level >= 0:
        at = space_end(at, end)
        if at >= end:
            return False
        byte = load_byte(at)
        if byte in (CLOSE, CLOSE_LIST):
            level -= 1
            at += ONE
            continue
        if byte == COMMA:
            at += ONE
            if place[level] >= 0:
                place[level] += 1
            continue
        if place[level] == _OBJECT:
            number, at = _named(at, end, nodes[level], first, slots, bounds, names)
            if at == 0:
                return False
        else:
            number = _at_place(place[level], nodes[level], first, places)
        if number == UNKNOWN:
            at = value_end(at, end)
            continue
        behind = at
        if leaves[number] >= 0:
            if starts[leaves[number], row] >= 0:
                return False
            behind = value_end(at, end)
            starts[leaves[number], row], ends[leaves[number], row] = np.int32(at - base), np.int32(behind - base)
        child = children[number]
        if child >= 0:
            entered = _entered(load_byte(at), child, has_names, has_places)
            if seen[child] == row or entered < 0:
                return False
            seen[child] = row
            if entered == 1:
                level += 1
                nodes[level], place[level] = child, _OBJECT if load_byte(at) == OPEN else 0
                at += ONE
                continue
        at = value_end(at, end) if behind == at else behind
    return True


@kernel
def find(
    address: Any,
    length: Any,
    trie: Any,
    bounds: Any,
    names: Any,
    nodes: Any,
    place: Any,
    seen: Any,
    starts: Any,
    ends: Any,
    odd: Any,
) -> None:
    """Where the leaves of each object lie in its text: ``starts`` and ``ends`` (int32[leaves, n], -1 at first).

    Rows that are ``odd`` (bool[n]) are passed over, and those that need more care become odd. ``nodes`` and ``place`` are
    int64[depth of the trie + 1], ``seen`` int64[nodes] full of -1.
    """
    for row in range(address.shape[0]):
        if odd[row]:
            continue
        plain = length[row] > 1 and load_byte(address[row]) == OPEN
        if plain:
            end = address[row] + np.uint64(length[row])
            plain = _row(row, address[row], end, trie, bounds, names, nodes, place, seen, starts, ends)
        odd[row] = not plain


@kernel
def classify(address: Any, starts: Any, ends: Any, kinds: Any) -> None:
    """The kind of each value; the span of a string becomes that of its characters."""
    for row in range(address.shape[0]):
        if starts[row] < 0:
            kinds[row] = MISSING
            continue
        at, end = address[row] + np.uint64(starts[row]), address[row] + np.uint64(ends[row])
        byte = load_byte(at) if at < end else _LETTER_N
        if byte == _LETTER_N:
            kinds[row] = MISSING
            starts[row] = -1
        elif has_backslash(at, end):
            kinds[row] = ESCAPED
        elif byte == QUOTE:
            kinds[row] = TEXT
            starts[row] += 1
            ends[row] -= 1
        else:
            kinds[row] = NESTED if byte in (OPEN, OPEN_LIST) else SCALAR


@kernel
def first_ends(address: Any, length: Any, ends: Any) -> None:
    """Where the first value of each text ends, white space behind it included: bytes from the text's beginning."""
    for row in range(address.shape[0]):
        end = address[row] + np.uint64(max(length[row], np.int64(0)))
        ends[row] = np.int64(space_end(value_end(address[row], end), end) - address[row])


CLEAN, NUL, MAYBE_NUMBER = np.uint8(0), np.uint8(1), np.uint8(2)
"""What may be wrong with a text: nothing, a NUL in it, or letters with which ``NaN`` and ``Infinity`` begin."""

_BIG_N, _BIG_I = np.uint8(0x4E), np.uint8(0x49)
_SMALL_A, _SMALL_N = np.uint8(0x61), np.uint8(0x6E)


@part
def _suspicion(at: Any, end: Any) -> Any:
    mark = CLEAN
    while at < end:
        if end - at >= BLOCK:
            found = any_of_three(at, np.uint8(0), _BIG_N, _BIG_I)
            if found == 0:
                at += BLOCK
                continue
            at += np.uint64(trailing_zeros(found))
        byte = load_byte(at)
        if byte == 0:
            return NUL
        following = load_byte(at + ONE) if at + ONE < end else np.uint8(0)
        if (byte == _BIG_N and following == _SMALL_A) or (byte == _BIG_I and following == _SMALL_N):
            mark = MAYBE_NUMBER
        at += ONE
    return mark


@kernel
def suspicious(address: Any, length: Any, marks: Any) -> None:
    """Which texts may hold what Arrow's reader takes for its end or for a number."""
    for row in range(address.shape[0]):
        marks[row] = _suspicion(address[row], address[row] + np.uint64(max(length[row], np.int64(0))))
