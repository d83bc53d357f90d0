"""Kernels that find JSON objects in bytes, and the members of objects, without reading their values.

They follow strings and brackets only: what is between them is checked by whoever reads the values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.kernels import kernel, kernel_function

_QUOTE, _ESCAPE, _COMMA, _COLON = (np.uint8(ord(text)) for text in '"\\,:')
_OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST = (np.uint8(ord(text)) for text in "{}[]")
_SPACE, _TAB, _NEWLINE, _RETURN = (np.uint8(ord(text)) for text in " \t\n\r")


@kernel_function
def _skip_space(data: Any, at: Any, end: Any) -> Any:
    while at < end and data[at] in (_SPACE, _NEWLINE, _RETURN, _TAB):
        at += 1
    return at


@kernel_function
def _string_end(data: Any, at: Any, end: Any) -> Any:
    """The position after the string that begins at ``at``; -1 if it does not end."""
    at += 1
    while at < end:
        if data[at] == _ESCAPE:
            at += 1
        elif data[at] == _QUOTE:
            return at + 1
        at += 1
    return -1


@kernel_function
def _nested_end(data: Any, at: Any, end: Any) -> Any:
    """The position after the object or array that begins at ``at``; -1 if it does not end."""
    depth = 0
    while at < end:
        byte = data[at]
        if byte == _QUOTE:
            at = _string_end(data, at, end)
            if at < 0:
                return -1
            continue
        if byte in (_OPEN, _OPEN_LIST):
            depth += 1
        elif byte in (_CLOSE, _CLOSE_LIST):
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return -1


@kernel_function
def _value_end(data: Any, at: Any, end: Any) -> Any:
    """The position after any value; -1 if it does not end, ``at`` if there is none."""
    if data[at] == _QUOTE:
        return _string_end(data, at, end)
    if data[at] in (_OPEN, _OPEN_LIST):
        return _nested_end(data, at, end)
    while at < end and data[at] not in (_COMMA, _CLOSE, _CLOSE_LIST, _SPACE, _NEWLINE, _RETURN, _TAB):
        at += 1
    return at


@kernel
def find_objects(data: Any, begin: Any, spans: Any, error: Any) -> Any:
    """Objects one after the other, with white space or commas between them, until the end or a ``]``: their begins and ends
    → ``spans`` (int64[2, n]).

    Returns their number. ``error`` (int64[1]) is where something else begins or an object does not end, -1 if nothing does.
    """
    at, count, end = begin, 0, len(data)
    error[0] = -1
    while True:
        at = _skip_space(data, at, end)
        if count and at < end and data[at] == _COMMA:
            at = _skip_space(data, at + 1, end)
        if at >= end:
            return count
        if data[at] == _CLOSE_LIST and _skip_space(data, at + 1, end) == end:
            return count
        after = _nested_end(data, at, end) if data[at] == _OPEN else -1
        if after < 0:
            error[0] = at
            return count
        spans[0, count], spans[1, count] = at, after
        count += 1
        at = after


@kernel_function
def _is_key(data: Any, at: Any, end: Any, keys: Any, begin: Any, stop: Any) -> Any:
    if end - at != stop - begin:
        return False
    for k in range(stop - begin):  # noqa: SIM110
        if data[at + k] != keys[begin + k]:
            return False
    return True


@kernel
def find_members(data: Any, starts: Any, ends: Any, keys: Any, key_ends: Any, values: Any) -> Any:
    """The values of some members of objects: their begins and ends → ``values`` (int64[keys, 2, rows]), -1 where an object does
    not have the member; of several the last one.

    ``keys`` (uint8[]) are the names one after the other, ``key_ends`` (int64[]) their ends. A span that is not an object has
    no members; a damaged object those before the damage.
    """
    for row in range(len(starts)):
        for k in range(len(key_ends)):
            values[k, 0, row] = values[k, 1, row] = -1
        end = ends[row]
        at = starts[row]
        if at < 0 or at >= end or data[at] != _OPEN:
            continue
        at = _skip_space(data, at + 1, end)
        while at < end and data[at] == _QUOTE:
            key = at + 1
            at = _string_end(data, at, end)
            if at < 0:
                break
            key_end = at - 1
            at = _skip_space(data, at, end)
            if at >= end or data[at] != _COLON:
                break
            at = _skip_space(data, at + 1, end)
            if at >= end:
                break
            after = _value_end(data, at, end)
            if after <= at:
                break
            begin = 0
            for k in range(len(key_ends)):
                if _is_key(data, key, key_end, keys, begin, key_ends[k]):
                    values[k, 0, row], values[k, 1, row] = at, after
                begin = key_ends[k]
            at = _skip_space(data, after, end)
            if at < end and data[at] == _COMMA:
                at = _skip_space(data, at + 1, end)
            else:
                break
    return 0
