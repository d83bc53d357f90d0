"""The kernel that reads declared members of JSON objects in one pass, and finds the texts that are not an object."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import load_byte
from etl.columns.kernels import inlined, kernel, kernel_function
from etl.columns.text_layout import INLINE
from etl.columns.views import put_view
from parsers.json.lenient_tokens import (
    CLOSE,
    CLOSE_LIST,
    COLON,
    COMMA,
    ONE,
    OPEN,
    OPEN_LIST,
    QUOTE,
    UNKNOWN,
    find_member,
    space_end,
)
from parsers.json.strict_tokens import WRONG, name_end, scalar_end, string_end
from parsers.json.text_kernel import compact, unescape

NULL, THERE, IN_PYTHON = np.uint8(0), np.uint8(1), np.uint8(2)
"""How a value ended: missing or null, written, or Python has to make the text."""

_OBJECT, _NONE = np.int64(-1), np.int64(-1)
"""The index of an object's member: it has none; no leaf, no node."""

_LETTER_N = np.uint8(0x6E)
_VIEW = np.uint64(16)


@kernel_function
def _member_at(position: Any, node: Any, first: Any, positions: Any) -> Any:
    if node < 0:
        return UNKNOWN
    for number in range(first[node], first[node + 1]):
        if positions[number] == position:
            return np.int64(number)
    return UNKNOWN


@inlined
def _member_by_name(at: Any, end: Any, node: Any, trie: Any, names: Any) -> Any:
    """The member whose name begins at ``at``, and where its value begins (`WRONG`: there is none). A name with an escape could be
    any of a declared node's members."""
    first, slots, _, _, _, _, _, bounds = trie
    after, plain = name_end(at + ONE, end) if load_byte(at) == QUOTE else (WRONG, False)
    if after == WRONG or (node >= 0 and not plain):
        return UNKNOWN, WRONG
    number = UNKNOWN
    if node >= 0:
        number = find_member(at + ONE, np.int64(after - at) - 2, node, first, slots, bounds, names)
    at = space_end(after, end)
    if at >= end or load_byte(at) != COLON:
        return UNKNOWN, WRONG
    at = space_end(at + ONE, end)
    return number, at if at < end else WRONG


@inlined
def _is_expected(row: Any, leaf: Any, child: Any, byte: Any, trie: Any, last_rows: Any, starts: Any) -> Any:
    """Whether a declared member occurs for the first time, with a value that may have its own members, if it has any."""
    has_names, has_positions = trie[5], trie[6]
    if leaf >= 0 and starts[leaf, row] >= 0:
        return False
    if child < 0:
        return True
    again, last_rows[child] = last_rows[child] == row, row
    if byte == OPEN:
        return not again and not has_positions[child]
    return not again and (byte == _LETTER_N or (byte == OPEN_LIST and not has_names[child]))


@inlined
def _read_scalar(row: Any, at: Any, end: Any, byte: Any, leaf: Any, out: Any, target: Any, given: Any) -> Any:
    """A value without members begins at ``at``; after it (`WRONG`: it is not a value), and where the next text may begin."""
    views, valid, is_text = given[2], given[3], given[4]
    is_written, written, there = leaf >= 0 and is_text[leaf], target, True
    if byte != QUOTE:
        after, there = scalar_end(at, end), byte != _LETTER_N
        if is_written and there and after != WRONG:
            written = compact(at, after, target)
    elif is_written:
        after, written = unescape(at + ONE, end, target)
    else:
        after = string_end(at + ONE, end)
    if is_written and there and after != WRONG:
        target = _put_text(row, leaf, out, target, written, views, valid)
    return after, target


@inlined
def _put_text(row: Any, leaf: Any, out: Any, begun: Any, after: Any, views: Any, valid: Any) -> Any:
    """Write the view of the text from ``begun`` on; where the next text may begin."""
    size = np.int64(after - begun)
    put_view(views + _VIEW * np.uint64(leaf * valid.shape[1] + row), begun, size, begun - out)
    valid[leaf, row] = THERE
    return after if size > INLINE else begun


@inlined
def _open(level: Any, declared: Any, byte: Any, leaf: Any, child: Any, stack: Any) -> Any:
    """An object or array begins, on this level; the deepest level of declared members."""
    lists, nodes, position, opened, _ = stack
    lists[level] = byte == OPEN_LIST
    if level < opened.shape[0]:
        opened[level] = leaf
    if child >= 0:
        declared, nodes[level], position[level] = level, child, _OBJECT if byte == OPEN else np.int64(0)
    return declared


@inlined
def _close(row: Any, begin: Any, at: Any, leaf: Any, out: Any, target: Any, given: Any) -> Any:
    """An array or object ends at ``at``: write its text where it is a leaf; where the next text may begin."""
    starts, ends, views, valid, is_text = given
    if leaf < 0:
        return target
    ends[leaf, row] = np.int32(at - begin)
    after = compact(begin + np.uint64(starts[leaf, row]), at, target) if is_text[leaf] else target
    if after == WRONG:
        valid[leaf, row] = IN_PYTHON
    if after == WRONG or not is_text[leaf]:
        return target
    return _put_text(row, leaf, out, target, after, views, valid)


@kernel_function
def _read_object(row: Any, at: Any, end: Any, out: Any, target: Any, trie: Any, names: Any, stack: Any, given: Any) -> Any:
    """Read one object; after its last text, or `WRONG` for what is not an object or is odd: a declared name twice or escaped, a
    value that is neither null nor of the kind that its members need. ``level`` counts open brackets; up to ``declared`` they
    belong to declared members. ``after``: a value has ended, so that a comma or bracket has to follow."""
    first, _, positions, leaves, children, _, _, _ = trie
    lists, nodes, position, opened, last_rows = stack
    starts, ends, begin = given[0], given[1], at
    at += ONE
    level, declared, after = np.int64(0), np.int64(0), False
    lists[0], nodes[0], position[0], opened[0] = False, 0, _OBJECT, _NONE
    while level >= 0:
        at = space_end(at, end)
        if at >= end:
            return WRONG
        byte, in_list = load_byte(at), lists[level]
        if byte == (CLOSE_LIST if in_list else CLOSE):
            at += ONE
            target = _close(row, begin, at, opened[level] if level < opened.shape[0] else _NONE, out, target, given)
            level, after = level - 1, True
            declared = min(declared, level)
            continue
        if after:
            at = space_end(at + ONE, end)
            if byte != COMMA or at >= end:
                return WRONG
            byte = load_byte(at)
            if in_list and level == declared:
                position[level] += 1
        node = nodes[level] if level == declared else _NONE
        if in_list:
            number = _member_at(position[declared], node, first, positions)
        else:
            number, at = _member_by_name(at, end, node, trie, names)
            if at == WRONG:
                return WRONG
            byte = load_byte(at)
        leaf, child = (leaves[number], children[number]) if number >= 0 else (_NONE, _NONE)
        if not _is_expected(row, leaf, child, byte, trie, last_rows, starts):
            return WRONG
        begun = at
        if byte in (OPEN, OPEN_LIST):
            level, at, after = level + 1, at + ONE, False
            declared = _open(level, declared, byte, leaf, child, stack)
        else:
            at, target = _read_scalar(row, at, end, byte, leaf, out, target, given)
            after = True
            if at == WRONG:
                return WRONG
        if leaf >= 0:
            starts[leaf, row], ends[leaf, row] = np.int32(begun - begin), np.int32(at - begin)
    return target if at == end else WRONG


@kernel
def read_members(
    address: Any, length: Any, trie: Any, names: Any, stack: Any, given: Any, overlap: Any, out: Any, room: Any, odd: Any
) -> Any:  # fmt: skip
    """The spans of the leaves of each object, and the texts of those in ``is_text``; returns the bytes written.

    ``given`` is ``starts`` and ``ends`` (int32[leaves, n], -1 at first), the address of the views of all leaves (16 bytes each,
    0 at first), ``valid`` (uint8[leaves, n], 0 at first) and ``is_text`` (bool[leaves]). Texts are written end to end at
    ``out``, which has ``room`` bytes and 32 more; no more than ``overlap`` leaves lie around the same byte. ``stack`` is
    bool[brackets + 1], three times int64[depth of the trie + 2], and int64[nodes] full of -1. Rows that are ``odd`` (bool[n])
    are skipped; those that only Python can read, or that are not objects, become odd and have no leaves.
    """
    starts, _, _, valid, _ = given
    target = out
    for row in range(address.shape[0]):
        if odd[row]:
            continue
        size, end_of_text = length[row], WRONG
        if size > 1 and load_byte(address[row]) == OPEN and np.int64(target - out) + size * overlap <= room:
            end_of_text = _read_object(row, address[row], address[row] + np.uint64(size), out, target, trie, names, stack, given)
        if end_of_text != WRONG:
            target = end_of_text
            continue
        odd[row] = True
        for leaf in range(starts.shape[0]):
            starts[leaf, row], valid[leaf, row] = -1, NULL
    return np.int64(target - out)
