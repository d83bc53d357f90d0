r"""Columns of CEF events → the fields of their headers, and their extensions as pairs.

A kernel cuts extensions into pairs: ``src=10.0.0.1 msg=values may hold blanks act=blocked``. A value ends before the next
key: white space, a name, and ``=``. A name is letters, digits and ``_``, then perhaps parts after dots (``ad.field``) and a
number in brackets (``ad.field[0]``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from etl.columns.intrinsics import load_byte
from etl.columns.kernels import kernel, kernel_function
from etl.columns.texts import Texts
from parsers.cef.names import LABELLED
from parsers.common.failures import Failures
from parsers.common.pipe_header_kernel import LINE_BREAK, READ
from parsers.common.pipe_headers import header_reasons, read_headers
from parsers.pairs.pair_buffer import VALUE_ESCAPES, PairBuffer, put_pair
from parsers.pairs.pair_columns import Pairs, encode_texts

Array = np.ndarray[Any, Any]

NO_KEY, EQUALS = np.uint8(5), np.uint8(6)
"""Further outcomes of a row: text before the first key, or ``=`` in a value where ``strict`` forbids it."""

_WORD, _PART, _BLANK, _BREAK, _DIGIT = (np.uint8(1 << bit) for bit in range(5))
_KINDS = np.zeros(256, np.uint8)
_KINDS[list(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")] |= _WORD
_KINDS[list(b"0123456789")] |= _DIGIT
_KINDS[[byte for byte in range(256) if byte not in b".= \t\n\v\f\r|\\[]"]] |= _PART
_KINDS[list(b" \t")] |= _BLANK
_KINDS[list(b"\r\n")] |= _BREAK

_ZERO, _ONE, _NONE = np.uint8(0), np.uint64(1), np.uint64(0)
_EQUALS, _DOT, _BACKSLASH = np.uint8(0x3D), np.uint8(0x2E), np.uint8(0x5C)
_OPEN, _CLOSE = np.uint8(0x5B), np.uint8(0x5D)


@kernel_function
def _run_end(at: Any, end: Any, kind: Any) -> Any:
    """After a run of bytes of a kind."""
    while at < end and _KINDS[load_byte(at)] & kind != _ZERO:
        at += _ONE
    return at


@kernel_function
def _is_byte(at: Any, end: Any, byte: Any) -> Any:
    return at < end and load_byte(at) == byte


@kernel_function
def _key_end(begin: Any, end: Any) -> Any:
    """Where the key that begins at ``begin`` ends; 0: there is none."""
    at = _run_end(begin, end, _WORD)
    if at == begin:
        return _NONE
    while _is_byte(at, end, _DOT):
        after = _run_end(at + _ONE, end, _PART)
        if after == at + _ONE:
            return _NONE
        at = after
    if _is_byte(at, end, _OPEN):
        after = _run_end(at + _ONE, end, _DIGIT)
        if after == at + _ONE or not _is_byte(after, end, _CLOSE):
            return _NONE
        at = after + _ONE
    return at if _is_byte(at, end, _EQUALS) else _NONE


@kernel_function
def _value_end(at: Any, end: Any, strict: Any) -> Any:
    """Where a value ends; where the next key begins and ends (0: there is none); the value's escapes; the outcome."""
    flags = _ZERO
    while at < end:
        byte = load_byte(at)
        kind = _KINDS[byte]
        if kind & _BLANK != _ZERO:
            key = _run_end(at, end, _BLANK)
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


@kernel_function
def _cut_row(buffer: Any, at: Any, end: Any, strict: Any, pair: Any) -> Any:
    """Write the pairs of one text, from number ``pair`` on; the next number, and the outcome."""
    at = _run_end(at, end, _BLANK)
    while end > at and _KINDS[load_byte(end - _ONE)] & _BLANK != _ZERO:
        end -= _ONE
    if at == end:
        return pair, READ
    key_end = _key_end(at, end)
    if key_end == _NONE:
        return pair, NO_KEY
    while key_end != _NONE:
        key, after, value = at, key_end, key_end + _ONE
        value_end, at, key_end, flags, outcome = _value_end(value, end, strict)
        if outcome != READ:
            return pair, outcome
        put_pair(buffer, pair, key, after, value, value_end - value, flags)
        pair += 1
    return pair, READ


@kernel
def cut_extensions(body: Any, body_end: Any, strict: Any, buffer: Any, bounds: Any, outcomes: Any) -> None:
    """Bodies → pairs; rows that fail, in their header or here, have none."""
    pair = np.int64(0)
    bounds[0] = 0
    for row in range(body.shape[0]):
        before, outcome = pair, outcomes[row]
        if outcome == READ:
            pair, outcome = _cut_row(buffer, body[row], body_end[row], strict, pair)
        if outcome != READ:
            pair = before
        outcomes[row], bounds[row + 1] = outcome, pair


# ── Columns ───────────────────────────────────────────────────────────────────────────────────────

_FIELDS = 7
_MEANINGS = {"=": "=", "\\": "\\", "n": "\n", "r": "\r"}
_REASONS = header_reasons("CEF:", _FIELDS) | {
    int(NO_KEY): "has text before its first extension",
    int(EQUALS): "has an extension with '=' in its value and no backslash before it",
}


def compile_cut(strict: bool, custom_labels: bool) -> Callable[[pa.Array], tuple[list[pa.Array], Pairs, Failures]]:
    """A function of a column: the fields of its headers, its extensions, and the rows that fail."""

    def cut(column: pa.Array) -> tuple[list[pa.Array], Pairs, Failures]:
        texts = Texts.of(column)
        headers = read_headers(texts, b"CEF:", _FIELDS)
        buffer = PairBuffer.of(texts, headers.outcomes)
        cut_extensions(headers.body, headers.body_end, strict, buffer.addresses(), buffer.bounds, buffer.outcomes)
        pairs = buffer.pairs(texts, _MEANINGS)
        failures = buffer.failures(_REASONS)
        if custom_labels:
            pairs, wrong = use_labels(pairs)
            failures.add(wrong, pa.repeat(UNLABELLED, len(column)))
        return headers.fields, pairs, failures

    return cut


# ── Labels of custom fields ───────────────────────────────────────────────────────────────────────

UNLABELLED = "has a custom field without a label, or a custom field or label twice"


def use_labels(pairs: Pairs) -> tuple[Pairs, Array]:
    """Custom fields get their labels for keys: ``cs1=block cs1Label=Rule`` becomes ``Rule=block``. The second result are the rows
    (bool[n]) in which a custom field has no label, or a field or label occurs twice."""
    rows = len(pairs.bounds) - 1
    numbers, keys = encode_texts(pairs.keys)
    known = [LABELLED.get(key.decode("utf-8", "replace"), (-1, False)) for key in keys]
    custom, is_label = (np.array([entry[index] for entry in known], np.int64)[numbers] for index in (0, 1))
    row = np.repeat(np.arange(rows), np.diff(pairs.bounds))
    slots = row * (len(LABELLED) + 1) + custom
    values, labels = (np.flatnonzero((custom >= 0) & (is_label == kind)) for kind in (0, 1))
    labels = labels[np.argsort(slots[labels], kind="stable")]
    at = np.searchsorted(slots[labels], slots[values])
    found = np.append(slots[labels], -1)[at] == slots[values]
    wrong = np.zeros(rows, bool)
    wrong[row[values[~found]]] = True
    for several in (slots[labels], np.sort(slots[values])):
        wrong[several[1:][several[1:] == several[:-1]] // (len(LABELLED) + 1)] = True
    return _rename_labels(pairs, values[found], labels[at[found]]), wrong


def _rename_labels(pairs: Pairs, values: Array, labels: Array) -> Pairs:
    """The pairs ``values`` get the values of ``labels`` as keys; the pairs ``labels`` are removed."""
    address, length = pairs.keys.address.copy(), pairs.keys.length.copy()
    address[values], length[values] = pairs.values.address[labels], pairs.values.length[labels]
    is_remaining = np.ones(len(address), bool)
    is_remaining[labels] = False
    bounds = np.concatenate([[0], np.cumsum(is_remaining)])[pairs.bounds]
    stay = np.flatnonzero(is_remaining)
    owner = (pairs.keys.owner, pairs.values.owner)
    keys = pairs.keys._replace(address=address[stay], length=length[stay], buffer=None, base=0, owner=owner)
    return Pairs(bounds, keys, pairs.values.at(stay))
