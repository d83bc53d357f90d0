"""The kernel that finds parameters in structured data (RFC 5424, 6.3): ``[id name="value" …][id …]``.

Texts are addresses and lengths (-1: null).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.byte_runs import same_bytes
from etl.columns.intrinsics import load_byte
from etl.columns.kernels import kernel, kernel_function

ABSENT, PLAIN, REPEATED, WRONG = np.uint8(0), np.uint8(1), np.uint8(2), np.uint8(3)
"""Kinds of a text: null, well formed, well formed with repeated or very many names, malformed."""

MAX_NAMES = 64
"""Elements of a text, and parameters of an element, that are compared with each other; one with more counts as `REPEATED`."""

_ONE = np.uint64(1)
_SPACE, _QUOTE, _EQUALS, _BACKSLASH = np.uint8(0x20), np.uint8(0x22), np.uint8(0x3D), np.uint8(0x5C)
_OPEN, _CLOSE, _DOT = np.uint8(0x5B), np.uint8(0x5D), np.uint8(0x2E)

_ENDS_NAME, _ENDS_STRICT_NAME, _ODD_IN_VALUE = np.uint8(1), np.uint8(2), np.uint8(4)
_BYTES = np.zeros(256, np.uint8)
"""Kinds of each byte."""

_BYTES[[*range(0x21), *b'="]']] |= _ENDS_NAME | _ENDS_STRICT_NAME
_BYTES[0x7F:] |= _ENDS_STRICT_NAME
_BYTES[[*range(0x20), *b'"]\\']] |= _ODD_IN_VALUE

ANY = np.int64(1 << 62)
"""More than any text has."""


@kernel_function
def _byte(at: Any, end: Any) -> Any:
    """The byte at an address, 0 after the end; 0 is not part of any name, nor of the syntax."""
    return load_byte(at) if at < end else np.uint8(0)


@kernel_function
def name_end(at: Any, end: Any, strict: Any) -> Any:
    mask = _ENDS_STRICT_NAME if strict else _ENDS_NAME
    while at < end and not _BYTES[load_byte(at)] & mask:
        at += _ONE
    return at


@kernel_function
def spaces_end(at: Any, end: Any, max_spaces: Any) -> Any:
    while max_spaces > 0 and at < end and load_byte(at) == _SPACE:
        at += _ONE
        max_spaces -= 1
    return at


@kernel_function
def is_escape(at: Any, end: Any) -> Any:
    """Whether the backslash at an address is one that escapes."""
    following = _byte(at + _ONE, end)
    return following in (_QUOTE, _BACKSLASH, _CLOSE)


@kernel_function
def _value_end(at: Any, end: Any, strict: Any) -> Any:
    """The quote that ends a value, or where it goes wrong; whether something is escaped, and how many control characters."""
    escaped, controls = False, np.int64(0)
    while at < end:
        byte = load_byte(at)
        if _BYTES[byte] & _ODD_IN_VALUE:
            if byte in (_QUOTE, _CLOSE):
                break
            if byte == _BACKSLASH:
                if is_escape(at, end):
                    escaped = True
                    at += _ONE
                elif strict:
                    break
            else:
                controls += 1
        at += _ONE
    return at, escaped, controls


@kernel_function
def _is_repeated(at: Any, length: Any, known_names: Any, count: Any) -> Any:
    """Whether a name is one of the ``count`` in ``known_names``; if not, it becomes the next."""
    if count >= MAX_NAMES:
        return True
    for index in range(count):
        if known_names[1, index] == length and same_bytes(at, np.uint64(known_names[0, index]), length):
            return True
    known_names[0, count], known_names[1, count] = np.int64(at), length
    return False


@kernel_function
def _is_text(at: Any, length: Any, texts: Any, begin: Any) -> Any:
    k = 0
    while k < length and load_byte(at + np.uint64(k)) == texts[begin + k]:
        k += 1
    return k == length


@kernel_function
def parameter(at: Any, end: Any, strict: Any, max_name_length: Any) -> Any:
    """The parameter whose name begins at ``at``: where its name ends, its value begins and ends, and what is in that.

    A value that begins at 0 is none: the text goes wrong where it ends.
    """
    after = name_end(at, end, strict)
    length = np.int64(after - at)
    blanks = 0 if strict else ANY
    equals = spaces_end(after, end, blanks)
    quote = spaces_end(equals + _ONE, end, blanks)
    if length == 0 or length > max_name_length or _byte(equals, end) != _EQUALS or _byte(quote, end) != _QUOTE:
        return after, np.uint64(0), after, False, np.int64(0)
    stop, escaped, controls = _value_end(quote + _ONE, end, strict)
    value = quote + _ONE if _byte(stop, end) == _QUOTE else np.uint64(0)
    return after, value, stop, escaped, controls


@kernel_function
def _put_span(
    element: Any, size: Any, name: Any, length: Any, value: Any, stop: Any, paths: Any, bounds: Any, spans: Any
) -> None:
    """Write a value's span for its path, when that is declared and has none."""
    for path in range(spans.shape[0]):
        begin = bounds[path]
        if spans[path, 0] >= 0 or bounds[path + 1] - begin != size + length + 1 or paths[begin + size] != _DOT:
            continue
        if _is_text(element, size, paths, begin) and _is_text(name, length, paths, begin + size + 1):
            spans[path, 0], spans[path, 1] = np.int64(value), np.int64(stop)


@kernel_function
def _read_text(
    at: Any, end: Any, strict: Any, max_name_length: Any, paths: Any, bounds: Any, spans: Any, known_names: Any
) -> Any:
    """The kind of one text, where it is wrong, and its escapes and control characters (see `_value_end`).

    ``spans`` (int64[paths, 2]) get where the values of declared parameters begin and end.
    """
    kind, elements = PLAIN, 0
    escaped, controls = False, np.int64(0)
    while at < end:
        element = at + _ONE
        at = name_end(element, end, strict)
        size = np.int64(at - element)
        if load_byte(element - _ONE) != _OPEN or size == 0 or size > max_name_length:
            return WRONG, at, escaped, controls
        if _is_repeated(element, size, known_names[0], elements):
            kind = REPEATED
        elements += 1
        params = 0
        while True:
            name = spaces_end(at, end, 1 if strict else ANY)
            if _byte(name, end) == _CLOSE and (name == at or not strict):
                at = name + _ONE
                break
            after, value, stop, escapes, more = parameter(name, end, strict, max_name_length)
            if name == at or value == 0:
                return WRONG, stop, escaped, controls
            escaped |= escapes
            controls += more
            if _is_repeated(name, np.int64(after - name), known_names[1], params):
                kind = REPEATED
            params += 1
            _put_span(element, size, name, np.int64(after - name), value, stop, paths, bounds, spans)
            at = stop + _ONE
    return kind, at, escaped, controls


@kernel
def find_parameters(
    address: Any,
    length: Any,
    strict: Any,
    max_name_length: Any,
    paths: Any,
    bounds: Any,
    spans: Any,
    known_names: Any,
    kinds: Any,
    escaped: Any,
    controls: Any,
    stops: Any,
) -> None:
    """Find declared parameters, and the kind of each text.

    A name has at most ``max_name_length`` bytes; ``paths`` are declared ones (uint8, text n from ``bounds[n]``), ``spans``
    (int64[n, paths, 2], -1) get the addresses of their values; ``known_names`` is scratch for names, int64[2, 2, MAX_NAMES].
    ``escaped`` says whether a value has escapes, ``controls`` how many control characters are in all, ``stops`` where
    a text is wrong.
    """
    for row in range(address.shape[0]):
        kinds[row], escaped[row], controls[row], stops[row] = ABSENT, False, 0, 0
        if length[row] >= 0:
            end = address[row] + np.uint64(length[row])
            found = _read_text(address[row], end, strict, max_name_length, paths, bounds, spans[row], known_names)
            kinds[row], escaped[row], controls[row] = found[0], found[2], found[3]
            stops[row] = np.int64(found[1] - address[row])
