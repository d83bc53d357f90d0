"""The kernel that copies the undeclared members of objects, as they were written."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import copy_block, load_byte, store_byte
from etl.columns.kernels import kernel, kernel_function
from parsers.json.lenient_tokens import (
    BLOCK,
    CLOSE,
    COLON,
    COMMA,
    ONE,
    OPEN,
    QUOTE,
    name_end,
    scan_members,
    space_end,
    value_end,
)

NULL, KEPT, IN_PYTHON = np.uint8(0), np.uint8(1), np.uint8(2)
"""How a row ended: all its members are declared, some are not, or Python has to read it, for a name has an escape."""

_UNDECLARED = np.int64(-2)
"""Among the children of a trie, beside nodes and -1 for a leaf."""


@kernel_function
def _copy(target: Any, source: Any, end: Any) -> Any:
    """Copy up to ``end``; where the copy ends. 16 bytes after it may be written."""
    while end - source >= BLOCK:
        copy_block(target, source)
        source, target = source + BLOCK, target + BLOCK
    while source < end:
        store_byte(target, load_byte(source))
        source, target = source + ONE, target + ONE
    return target


@kernel_function
def _put_comma(target: Any, member_count: Any) -> Any:
    if member_count == 0:
        return target
    store_byte(target, COMMA)
    return target + ONE


@kernel_function
def _put_byte(target: Any, byte: Any) -> Any:
    store_byte(target, byte)
    return target + ONE


@kernel_function
def _open_object(target: Any, name: Any, name_stop: Any) -> Any:
    """Write a name (with its quotes), a colon and the brace that opens its object."""
    return _put_byte(_put_byte(_copy(target, name, name_stop), COLON), OPEN)


@kernel_function
def _copy_row(
    at: Any, end: Any, target: Any, first: Any, bounds: Any, names: Any, children: Any, nodes: Any, counts: Any, before: Any
) -> Any:
    """The undeclared members of the object at ``at``, written to ``target``; how the row ended, and where its text ends.

    ``nodes``, ``counts`` and ``before`` are the open objects: their nodes, members written, and where their texts begin.
    """
    level, begin = 0, target
    nodes[0], counts[0] = 0, 0
    target = _put_byte(target, OPEN)
    at += ONE
    while at < end:
        at = space_end(at, end)
        byte = load_byte(at) if at < end else CLOSE
        if byte == CLOSE:
            at += ONE
            if level == 0:
                break
            level -= 1
            if counts[level + 1] == 0:
                target = np.uint64(before[level + 1])
            else:
                target = _put_byte(target, CLOSE)
                counts[level] += 1
            continue
        if byte != QUOTE:
            at += ONE
            continue
        start = at
        name_stop = name_end(at + ONE, end)
        if name_stop == 0:
            return IN_PYTHON, begin
        at = name_stop
        number = scan_members(start + ONE, np.int64(name_stop - start) - 2, nodes[level], first, bounds, names)
        child = children[number] if number >= 0 else _UNDECLARED
        at = space_end(space_end(at, end) + ONE, end)
        if child >= 0 and at < end and load_byte(at) == OPEN:
            before[level + 1] = np.int64(target)
            target = _open_object(_put_comma(target, counts[level]), start, name_stop)
            level += 1
            nodes[level], counts[level] = child, 0
            at += ONE
            continue
        at = value_end(at, end)
        if child == _UNDECLARED:
            target = _copy(_put_comma(target, counts[level]), start, at)
            counts[level] += 1
    if counts[0] == 0:
        return NULL, begin
    return KEPT, _put_byte(target, CLOSE)


@kernel
def copy_undeclared(
    address: Any, length: Any, first: Any, bounds: Any, names: Any, children: Any, stack: Any, out: Any, ends: Any, kinds: Any
) -> None:
    """Objects → texts of their undeclared members, end to end at ``out``; ``kinds`` is how each row ended.

    ``out`` has room for twice the texts and 18 bytes a row, which is more than any text can need, JSON or not. ``stack``
    is int64[3, depth of the trie + 1]. Rows of length -1 or that begin with no brace are null.
    """
    target = out
    for row in range(address.shape[0]):
        kinds[row] = NULL
        if length[row] > 1 and load_byte(address[row]) == OPEN:
            end = address[row] + np.uint64(length[row])
            kinds[row], target = _copy_row(
                address[row], end, target, first, bounds, names, children, stack[0], stack[1], stack[2]
            )
        ends[row] = np.int64(target - out)
