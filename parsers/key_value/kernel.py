"""The kernel that cuts texts into pairs: ``key=value key="quoted value" alone``.

It moves forward only. Bytes that it reads without result (after a quote that nothing closes) count against a budget, so that
the time is in proportion to the length of the text.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from etl.columns.intrinsics import load_byte, load_word
from etl.columns.kernels import kernel, kernel_function
from parsers.pairs.pair_buffer import KEY_ESCAPES, VALUE_ESCAPES, put_pair
from parsers.pairs.separators import MAX_SEPARATOR_BYTES, STEP_ENDS, STEP_NONE

PAIR, VALUE, BLANK, QUOTE, BRACKET, ESCAPE = (np.uint8(1 << bit) for bit in range(6))
"""Kinds of a byte: the beginning of a separator of pairs or of key and value, a blank, the beginning of a quoted or
bracketed text, and a backslash that makes the next blank a part of its text."""

FLAG, IGNORE, REJECT = np.uint8(0), np.uint8(1), np.uint8(2)
"""What happens to a key without a value."""

READ, NO_TEXT, ALONE, FEW = np.uint8(0), np.uint8(1), np.uint8(2), np.uint8(3)
"""How a row ended: with pairs; or a null text, a key without a value, too few pairs."""

_ONE = np.uint64(1)
_ZERO = np.uint8(0)
_NONE = np.uint64(0)
_ROW, _WORD = np.uint64(256), np.uint64(4)
_NO_STEP, _ENDS, _NO_END = np.uint32(STEP_NONE), np.uint32(STEP_ENDS), np.uint32(0)
_BACKSLASH, _SPACE = np.uint8(0x5C), np.uint8(0x20)
_MAX_SEPARATOR = np.uint64(MAX_SEPARATOR_BYTES)
_BUDGET, _SPARE = 8, 4096
"""Bytes that may be read without result: for each byte of the text, and in addition."""


class PairSyntax(NamedTuple):
    """The syntax of pairs. Tables are addresses: numba counts the users of an array each time that it is read out of a tuple."""

    kinds: Any
    """uint8[256]: the kinds of each byte."""

    closers: Any
    """uint8[256]: the byte that closes a quote or bracket."""

    pairs: Any
    values: Any
    """uint32[states, 256]: separators of pairs, and of key and value (`parsers.pairs.separators`)."""

    lenient: bool
    """Blanks may stand around the separator of key and value."""

    escapes: bool
    """A backslash in quotes keeps the character after it."""

    keeps_empty: bool
    alone: Any
    fewest: int


@kernel_function
def _kind(syntax: Any, at: Any) -> Any:
    return load_byte(syntax.kinds + np.uint64(load_byte(at)))


@kernel_function
def _separator_size(steps: Any, at: Any, end: Any) -> Any:
    """Bytes of the longest separator at ``at``, 0: there is none."""
    state, position, found = np.uint64(0), at, at
    end = min(end, at + _MAX_SEPARATOR)
    while position < end:
        step = load_word(steps + (state * _ROW + np.uint64(load_byte(position))) * _WORD)
        if step == _NO_STEP:
            break
        position += _ONE
        if step & _ENDS != _NO_END:
            found = position
        state = np.uint64(step & ~_ENDS)
    return found - at


@kernel_function
def _pair_separator_size(syntax: Any, at: Any, end: Any) -> Any:
    if at < end and _kind(syntax, at) & PAIR != _ZERO:
        return _separator_size(syntax.pairs, at, end)
    return _NONE


@kernel_function
def _value_separator_size(syntax: Any, at: Any, end: Any) -> Any:
    if at < end and _kind(syntax, at) & VALUE != _ZERO:
        return _separator_size(syntax.values, at, end)
    return _NONE


@kernel_function
def _blanks_end(syntax: Any, at: Any, end: Any) -> Any:
    while at < end and _kind(syntax, at) & BLANK != _ZERO:
        at += _ONE
    return at


@kernel_function
def _trimmed_end(syntax: Any, begin: Any, end: Any) -> Any:
    """Where a text ends without the blanks at its end."""
    while end > begin and _kind(syntax, end - _ONE) & BLANK != _ZERO:
        end -= _ONE
    return end


@kernel_function
def _token_end(syntax: Any, stops: Any, at: Any, end: Any) -> Any:
    """Where the next separator of the kinds ``stops`` begins, how long it is, and whether it is of key and value."""
    stops |= ESCAPE
    while at < end:
        kind = _kind(syntax, at) & stops
        if kind != _ZERO:
            if kind & VALUE != _ZERO:
                many = _value_separator_size(syntax, at, end)
                if many != _NONE:
                    return at, many, True
            many = _pair_separator_size(syntax, at, end)
            if many != _NONE:
                return at, many, False
            if kind & ESCAPE != _ZERO and at + _ONE < end and load_byte(at + _ONE) == _SPACE:
                at += _ONE
        at += _ONE
    return end, _NONE, False


@kernel_function
def _find_closer(syntax: Any, at: Any, end: Any, budget: Any) -> Any:
    """Where the quote or bracket at ``at`` is closed (0: nowhere), whether there are escapes, and the rest of the budget."""
    opens = load_byte(at)
    closes = load_byte(syntax.closers + np.uint64(opens))
    depth, escaped = 1, False
    at += _ONE
    while at < end and budget > 0:
        byte = load_byte(at)
        budget -= 1
        if byte == closes:
            depth -= 1
            if depth == 0:
                return at, escaped, budget
        elif byte == opens:
            depth += 1
        elif byte == _BACKSLASH and syntax.escapes and opens == closes:
            escaped = True
            at += _ONE
        at += _ONE
    return _NONE, False, budget


@kernel_function
def _quoted_key(syntax: Any, at: Any, end: Any, budget: Any) -> Any:
    """A key in quotes: where it ends (0: it is none); then as `_plain_key`, its escapes and the rest of the budget."""
    close, inside, budget = _find_closer(syntax, at, end, budget)
    if close <= at + _ONE:
        return _NONE, at, _NONE, False, False, budget
    after = _blanks_end(syntax, close + _ONE, end) if syntax.lenient else close + _ONE
    many = _value_separator_size(syntax, after, end)
    if many != _NONE:
        return close, after, many, True, inside, budget
    many = _pair_separator_size(syntax, close + _ONE, end)
    if many != _NONE or close + _ONE == end:
        return close, close + _ONE, many, False, inside, budget
    return _NONE, at, _NONE, False, False, budget


@kernel_function
def _plain_key(syntax: Any, begin: Any, end: Any) -> Any:
    """Where a key ends, where its separator begins, how long that is, and whether a value follows."""
    at, many, is_value = _token_end(syntax, PAIR | VALUE, begin, end)
    if is_value and at == begin:  # no key before a value
        if syntax.alone == IGNORE:
            return begin, at, many, False
        at, many, is_value = _token_end(syntax, PAIR, begin, end)
    key_end = at
    if syntax.lenient and not is_value and at < end and _kind(syntax, at) & BLANK != _ZERO:
        after = _blanks_end(syntax, at, end)
        ahead = _value_separator_size(syntax, after, end)
        if ahead != _NONE:
            at, many, is_value = after, ahead, True
    if syntax.lenient or not is_value:
        key_end = _trimmed_end(syntax, begin, key_end)
    return key_end, at, many, is_value


@kernel_function
def _value(syntax: Any, begin: Any, end: Any, budget: Any) -> Any:
    """Where a value begins and ends, where the next pair begins, and whether there are escapes."""
    if syntax.lenient:
        begin = _blanks_end(syntax, begin, end)
    if begin < end and _kind(syntax, begin) & (QUOTE | BRACKET) != _ZERO:
        close, inside, budget = _find_closer(syntax, begin, end, budget)
        if close != _NONE:
            after = close + _ONE
            many = _pair_separator_size(syntax, after, end)
            if many == _NONE:
                after = _blanks_end(syntax, after, end)
                many = _pair_separator_size(syntax, after, end)
            if many != _NONE or after == end:
                return begin + _ONE, close, after + many, inside, budget
    at, many, _ = _token_end(syntax, PAIR, begin, end)
    return begin, _trimmed_end(syntax, begin, at), at + many, False, budget


@kernel_function
def _cut_row(syntax: Any, buffer: Any, at: Any, end: Any, pair: Any) -> Any:
    """Write the pairs of one text, from number ``pair`` on; the next number, how many have values, and the outcome."""
    budget, whole = np.int64(end - at) * _BUDGET + _SPARE, 0
    while True:
        at = _blanks_end(syntax, at, end)
        if at >= end:
            return pair, whole, READ
        many = _pair_separator_size(syntax, at, end)
        if many != _NONE:
            at += many
            continue
        begin, key_end, inside, is_value = at, _NONE, False, False
        if _kind(syntax, at) & QUOTE != _ZERO:
            key_end, at, many, is_value, inside, budget = _quoted_key(syntax, at, end, budget)
        if key_end != _NONE:
            begin += _ONE
        else:
            key_end, at, many, is_value = _plain_key(syntax, begin, end)
        at += many
        flags = KEY_ESCAPES if inside else _ZERO
        if is_value:
            value, value_end, at, inside, budget = _value(syntax, at, end, budget)
            whole += 1
            if value_end > value or syntax.keeps_empty:
                put_pair(
                    buffer, pair, begin, key_end, value, np.int64(value_end - value), flags | (VALUE_ESCAPES if inside else _ZERO)
                )
                pair += 1
        elif syntax.alone == FLAG:
            put_pair(buffer, pair, begin, key_end, begin, np.int64(-1), flags)
            pair += 1
        elif syntax.alone == REJECT:
            return pair, whole, ALONE


@kernel
def cut_pairs(address: Any, length: Any, syntax: Any, buffer: Any, bounds: Any, outcomes: Any) -> None:
    """Texts → pairs; a row that fails has none. ``bounds`` is int64[rows + 1], ``outcomes`` uint8[rows]."""
    pair = np.int64(0)
    bounds[0] = 0
    for row in range(address.shape[0]):
        before, outcome = pair, NO_TEXT
        if length[row] >= 0:
            pair, whole, outcome = _cut_row(syntax, buffer, address[row], address[row] + np.uint64(length[row]), pair)
            if outcome == READ and whole < syntax.fewest:
                outcome = FEW
        if outcome != READ:
            pair = before
        outcomes[row], bounds[row + 1] = outcome, pair
