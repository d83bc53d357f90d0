r"""The loop that cuts extensions of CEF into pairs: ``src=10.0.0.1 msg=values may hold blanks act=blocked``.

A value ends in front of the next key: white space, a name, and ``=``. A name is letters, digits and ``_``, then perhaps parts
behind dots (``ad.field``) and a number in brackets (``ad.field[0]``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import load_byte, store_byte, store_long
from etl.columns.kernels import kernel, part
from parsers.common.pipe_header_kernel import LINE_BREAK, READ
from parsers.pairs.room import VALUE_ESCAPES

NO_KEY, EQUALS = np.uint8(5), np.uint8(6)
"""What else may become of a row: text in front of the first key, or ``=`` in a value where `strict` forbids it."""

_WORD, _PART, _BLANK, _BREAK, _DIGIT = (np.uint8(1 << bit) for bit in range(5))
_KINDS = np.zeros(256, np.uint8)
_KINDS[list(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")] |= _WORD
_KINDS[list(b"0123456789")] |= _DIGIT
_KINDS[[byte for byte in range(256) if byte not in b".= \t\n\v\f\r|\\[]"]] |= _PART
_KINDS[list(b" \t")] |= _BLANK
_KINDS[list(b"\r\n")] |= _BREAK

_ZERO, _ONE, _NONE, _EIGHT = np.uint8(0), np.uint64(1), np.uint64(0), np.uint64(8)
_EQUALS, _DOT, _BACKSLASH = np.uint8(0x3D), np.uint8(0x2E), np.uint8(0x5C)
_OPEN, _CLOSE = np.uint8(0x5B), np.uint8(0x5D)


@part
def _run(at: Any, end: Any, kind: Any) -> Any:
    """Behind a run of bytes of a kind."""
    while at < end and _KINDS[load_byte(at)] & kind != _ZERO:
        at += _ONE
    return at


@part
def _is(at: Any, end: Any, byte: Any) -> Any:
    return at < end and load_byte(at) == byte


@part
def _key_end(begin: Any, end: Any) -> Any:
    """Where the key ends that begins here; 0 for none."""
    at = _run(begin, end, _WORD)
    if at == begin:
        return _NONE
    while _is(at, end, _DOT):
        behind = _run(at + _ONE, end, _PART)
        if behind == at + _ONE:
            return _NONE
        at = behind
    if _is(at, end, _OPEN):
        behind = _run(at + _ONE, end, _DIGIT)
        if behind == at + _ONE or not _is(behind, end, _CLOSE):
            return _NONE
        at = behind + _ONE
    return at if _is(at, end, _EQUALS) else _NONE


@part
def _value_end(at: Any, end: Any, strict: Any) -> Any:
    """Where a value ends; where the next key begins and ends (0: it is the last); its escapes; what is wrong."""
    flags = _ZERO
    while at < end:
        byte = load_byte(at)
        kind = _KINDS[byte]
        if kind & _BLANK != _ZERO:
            key = _run(at, end, _BLANK)
            key_end = _key_end(key, end)
            if key_end != _NONE:
                return at, key, key_end, flags, READ
            at = key
            continue
        if kind & _BREAK != _ZERO:
            return at, end, _NONE, flags, LINE_BREAK
        if byte == _EQUALS and strict:
            return at, end, _NONE, flags, EQUALS
        if byte == _BACKSLASH and at + _ONE < end and _KINDS[load_byte(at + _ONE)] & (_BLANK | _BREAK) == _ZERO:
            flags = VALUE_ESCAPES
            at += _ONE
        at += _ONE
    return end, end, _NONE, flags, READ


@part
def _cut(found: Any, at: Any, end: Any, strict: Any, pair: Any) -> Any:
    """The pairs of one text, from number ``pair`` on; the number behind them, and what became of it."""
    at = _run(at, end, _BLANK)
    while end > at and _KINDS[load_byte(end - _ONE)] & _BLANK != _ZERO:
        end -= _ONE
    if at == end:
        return pair, READ
    key_end = _key_end(at, end)
    if key_end == _NONE:
        return pair, NO_KEY
    while key_end != _NONE:
        key, key_length, value = at, key_end - at, key_end + _ONE
        value_end, at, key_end, flags, outcome = _value_end(value, end, strict)
        if outcome != READ:
            return pair, outcome
        place = np.uint64(pair) * _EIGHT
        store_long(found.key_address + place, key)
        store_long(found.key_length + place, key_length)
        store_long(found.value_address + place, value)
        store_long(found.value_length + place, value_end - value)
        store_byte(found.escaped + np.uint64(pair), flags)
        pair += 1
    return pair, READ


@kernel
def cut_extensions(body: Any, body_end: Any, strict: Any, found: Any, bounds: Any, outcomes: Any) -> None:
    """Bodies → pairs; rows that have failed already, or fail here, have none."""
    pair = np.int64(0)
    bounds[0] = 0
    for row in range(body.shape[0]):
        before, outcome = pair, outcomes[row]
        if outcome == READ:
            pair, outcome = _cut(found, body[row], body_end[row], strict, pair)
        if outcome != READ:
            pair = before
        outcomes[row], bounds[row + 1] = outcome, pair
