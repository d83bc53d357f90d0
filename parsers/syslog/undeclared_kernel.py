"""The kernel that writes the undeclared parameters of structured data as JSON.

It reads only texts that `structured_data_kernel` found `PLAIN`: well formed and without repeated names.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import load_byte, store_byte
from etl.columns.kernels import kernel, kernel_function
from parsers.syslog.structured_data_kernel import ANY, PLAIN, is_escape, name_end, parameter, spaces_end

_ONE = np.uint64(1)
_SPACE, _QUOTE, _BACKSLASH, _CLOSE = np.uint8(0x20), np.uint8(0x22), np.uint8(0x5C), np.uint8(0x5D)
_OPEN_OBJECT, _CLOSE_OBJECT, _COLON, _COMMA = np.uint8(0x7B), np.uint8(0x7D), np.uint8(0x3A), np.uint8(0x2C)


@kernel_function
def _put_byte(target: Any, byte: Any) -> Any:
    store_byte(target, np.uint8(byte))
    return target + _ONE


@kernel_function
def _hex_digit(digit: Any) -> Any:
    return digit + np.uint8(0x30 if digit < 10 else 0x57)


@kernel_function
def _put_string(target: Any, at: Any, end: Any, has_escapes: Any) -> Any:
    """A name or value as a JSON string; values have escapes of their own."""
    target = _put_byte(target, _QUOTE)
    while at < end:
        byte = load_byte(at)
        if has_escapes and byte == _BACKSLASH and is_escape(at, end):
            at += _ONE
            byte = load_byte(at)
        if byte in (_QUOTE, _BACKSLASH):
            target = _put_byte(target, _BACKSLASH)
        if byte < _SPACE:
            for letter in (0x5C, 0x75, 0x30, 0x30):
                target = _put_byte(target, letter)
            target = _put_byte(_put_byte(target, _hex_digit(byte >> np.uint8(4))), _hex_digit(byte & np.uint8(15)))
        else:
            target = _put_byte(target, byte)
        at += _ONE
    return _put_byte(target, _QUOTE)


@kernel_function
def _is_declared(value: Any, spans: Any) -> Any:
    path = 0
    while path < spans.shape[0] and spans[path, 0] != np.int64(value):
        path += 1
    return path < spans.shape[0]


@kernel_function
def _put_members(at: Any, end: Any, spans: Any, target: Any) -> Any:
    """The undeclared parameters of an element, from after its id: where they are written to, where the element ends, and
    whether one was declared."""
    begin, declared = target, False
    while True:
        name = spaces_end(at, end, ANY)
        if name >= end or load_byte(name) == _CLOSE:
            return target, name + _ONE, declared
        after, value, stop, _, _ = parameter(name, end, False, ANY)
        if _is_declared(value, spans):
            declared = True
        else:
            if target != begin:
                target = _put_byte(target, _COMMA)
            target = _put_string(_put_byte(_put_string(target, name, after, False), _COLON), value, stop, True)
        at = stop + _ONE


@kernel_function
def _put_object(at: Any, end: Any, spans: Any, target: Any) -> Any:
    """The undeclared parameters of one text, written as an object of objects; where that ends (its beginning: none)."""
    begin = target
    while at < end:
        before, name = target, at + _ONE
        after = name_end(name, end, False)
        target = _put_byte(target, _OPEN_OBJECT if before == begin else _COMMA)
        empty = _put_byte(_put_byte(_put_string(target, name, after, False), _COLON), _OPEN_OBJECT)
        target, at, declared = _put_members(after, end, spans, empty)
        target = before if target == empty and declared else _put_byte(target, _CLOSE_OBJECT)
    return target if target == begin else _put_byte(target, _CLOSE_OBJECT)


@kernel
def write_rest(address: Any, length: Any, kinds: Any, spans: Any, out: Any, ends: Any) -> None:
    """Undeclared parameters of plain texts, end to end at ``out``; ``ends`` (int64) says where each ends.

    Each takes at most three times its bytes, 2 more, and 5 more for each control character.
    """
    target = out
    for row in range(address.shape[0]):
        if kinds[row] == PLAIN:
            target = _put_object(address[row], address[row] + np.uint64(length[row]), spans[row], target)
        ends[row] = np.int64(target - out)
