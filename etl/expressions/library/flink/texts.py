"""Flink's functions that change texts: parts, padding, replacement, case."""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.library.function import flink_function
from etl.expressions.library.kernels import RowError, by_value, constant, on_arrow, usually_on_arrow
from etl.expressions.output_limit import MAX_CHARACTERS, TOO_LONG
from etl.expressions.values import longer_texts, texts
from etl.expressions.widening import STRING

STRINGS = pa.list_(STRING)


def _substring_value(text: str, position: int, length: int | None = None) -> str | None:
    if length is not None and length < 0:
        return None
    begin = position - 1 if position > 0 else max(0, len(text) + position) if position < 0 else 0
    if position < 0 and -position > len(text):
        return ""
    return text[begin : None if length is None else begin + length]


def substring(text: BoundNode, position: BoundNode, length: BoundNode | None = None) -> BoundNode:
    """Arrow slices from constant positions; a negative length is null."""
    is_known, at = constant(position)
    known_length, count = (True, None) if length is None else constant(length)
    if not (is_known and known_length) or at is None or (length is not None and (count is None or count < 0)) or at < 0:
        args = (text, position) if length is None else (text, position, length)
        return usually_on_arrow(STRING, _cut_ascii, _substring_value)(*args)
    return b.apply(STRING, partial(texts.substring, max(1, at), count), text)


def _cut_ascii(text: pa.Array, position: pa.Array, length: pa.Array | None = None) -> tuple[pa.Array, Any]:
    """`_substring_value` of texts in ASCII, whose characters are bytes."""
    import numpy as np

    from etl.expressions.values import ascii_texts

    size, at = ascii_texts.sizes(text), _whole(position)
    begin = np.where(at > 0, at - 1, np.where(at < 0, np.where(-at > size, size, size + at), 0))
    count = size if length is None else np.clip(_whole(length), -1, size)
    found = ascii_texts.cut(text, begin, np.clip(begin, 0, size) + count)
    is_done = ascii_texts.find_ascii(text) & (count >= 0)
    return found, is_done


def _end_ascii(keeps_left: bool, text: pa.Array, count: pa.Array) -> tuple[pa.Array, Any]:
    import numpy as np

    from etl.expressions.values import ascii_texts

    size = ascii_texts.sizes(text)
    number = np.clip(_whole(count), 0, size)
    found = ascii_texts.cut(text, *((0, number) if keeps_left else (size - number, size)))
    return found, ascii_texts.find_ascii(text)


def _whole(numbers: pa.Array) -> Any:
    """int64[n], 0 for null; far numbers are as good as those beyond the longest text."""
    import numpy as np

    found = pc.fill_null(pc.cast(numbers, pa.int64()), 0).to_numpy(zero_copy_only=False)
    return np.clip(found, -(1 << 32), 1 << 32)


def _end(keeps_left: bool) -> Any:
    def value(text: str, count: int) -> str:
        return "" if count <= 0 else text[:count] if keeps_left else text[-count:]

    def build(text: BoundNode, count: BoundNode) -> BoundNode:
        is_known, number = constant(count)
        if not is_known or number is None:
            return usually_on_arrow(STRING, partial(_end_ascii, keeps_left), value)(text, count)
        if number <= 0:
            return b.apply(STRING, lambda x: pc.utf8_slice_codeunits(x, 0, 0), text)
        bounds = (0, number) if keeps_left else (-number, None)
        return b.apply(STRING, lambda x: pc.utf8_slice_codeunits(x, *bounds), text)

    return build


def _trim(kernel: str, side: str) -> Any:
    """The three trims; characters are a set."""

    def value(text: str, characters: str) -> str:
        return str(getattr(text, side)(characters)) if characters else text

    def build(text: BoundNode, characters: BoundNode | None = None) -> BoundNode:
        is_known, given = (True, " ") if characters is None else constant(characters)
        if is_known and given:
            return b.apply(STRING, lambda x: getattr(pc, kernel)(x, given), text)
        return by_value(STRING, value, fails=False)(text, *(() if characters is None else (characters,)))

    return build


def _overlay(text: str, new: str, position: int, length: int | None = None) -> str:
    if position <= 0 or position > len(text):
        return text
    count = len(new) if length is None else length
    return text[: position - 1] + new + (text[position - 1 + count :] if count > 0 else "")


def _padded(text: str, length: int, pad: str, *, left: bool) -> str | None:
    if length < 0 or not pad:
        return None
    if length > MAX_CHARACTERS:
        raise RowError(TOO_LONG)
    missing = length - len(text)
    filling = (pad * (missing // max(1, len(pad)) + 1))[:missing] if missing > 0 else ""
    return text[:length] if missing <= 0 else filling + text if left else text + filling


def _pad(*, left: bool) -> Any:
    def build(text: BoundNode, length: BoundNode, pad: BoundNode) -> BoundNode:
        (is_known, count), (is_pad_known, filling) = constant(length), constant(pad)
        if is_known and is_pad_known and filling and count is not None and 0 <= count <= longer_texts.MAX_FILLED:
            return b.apply_failing(STRING, partial(longer_texts.fill, count, filling, left), text)
        return by_value(STRING, partial(_padded, left=left), grows=True)(text, length, pad)

    return build


def replaced(text: str, old: str, new: str) -> str:
    """The text with another for each part. Raises RowError where it would grow by more than a text may have."""
    if len(new) > len(old) and text.count(old) * (len(new) - len(old)) > MAX_CHARACTERS:
        raise RowError(TOO_LONG)
    return text.replace(old, new)


def replace(text: BoundNode, old: BoundNode, new: BoundNode) -> BoundNode:
    (is_known, searched), (is_new_known, given) = constant(old), constant(new)
    if is_known and is_new_known and searched and given is not None:
        return b.apply_failing(STRING, partial(longer_texts.replace_all, searched, given), text)
    return by_value(STRING, replaced, grows=True)(text, old, new)


def _translate(text: str, old: str, new: str) -> str:
    table: dict[int, str | None] = {}
    for at, character in enumerate(old):
        table.setdefault(ord(character), new[at] if at < len(new) else None)
    return text.translate(table)


def _build_translate(text: BoundNode, old: BoundNode, new: BoundNode) -> BoundNode:
    return translate_ascii(text, old, new) or by_value(STRING, _translate, fails=False)(text, old, new)


def translate_ascii(text: BoundNode, old: BoundNode, new: BoundNode) -> BoundNode | None:
    """``translate`` of constant characters of ASCII; None for others."""
    (is_old_known, characters), (is_new_known, given) = constant(old), constant(new)
    if not (is_old_known and is_new_known and isinstance(characters, str) and isinstance(given, str)):
        return None
    if not characters.isascii() or not given[: len(characters)].isascii():
        return None
    return usually_on_arrow(
        STRING, partial(_translate_ascii, characters, given), lambda value: _translate(value, characters, given)
    )(text)


def _translate_ascii(old: str, new: str, text: pa.Array) -> tuple[pa.Array, Any]:
    import numpy as np

    from etl.expressions.values import ascii_texts

    return ascii_texts.translate(old, new, text), np.ones(len(text), bool)


def _init_cap_of_bytes(text: pa.Array) -> tuple[pa.Array, Any]:
    import numpy as np

    from etl.expressions.values import ascii_texts

    return ascii_texts.init_cap(text), np.ones(len(text), bool)


def _init_cap(text: str) -> str:
    """Words are letters and digits of ASCII, as for Flink."""
    out, begins = [], True
    for character in text:
        is_word = character.isascii() and character.isalnum()
        out.append((character.upper() if begins else character.lower()) if is_word else character)
        begins = not is_word
    return "".join(out)


def _elt(index: int | None, *values: Any) -> Any:
    return values[index - 1] if index is not None and 1 <= index <= len(values) else None


def elt(index: BoundNode, *values: BoundNode) -> BoundNode:
    return by_value(values[0].type, _elt, nulls=True, fails=False)(index, *values)


_TWO = "text: string, characters: string?"


FUNCTIONS = (
    flink_function(
        "substring",
        "text: string, position: integer, length: integer?",
        "string",
        substring,
        "A part of a text, counted from 1 or from the end; position 0 is 1.",
        "flink_substring('hello', 0, 2)",
        "he",
        null="null if an argument is null or the length negative",
    ),
    flink_function(
        "left", "text: string, count: integer", "string", _end(True), "The first characters.", "flink_left('hello', 2)", "he"
    ),
    flink_function(
        "right", "text: string, count: integer", "string", _end(False), "The last characters.", "flink_right('hello', 2)", "lo"
    ),
    flink_function(
        "btrim",
        _TWO,
        "string",
        _trim("utf8_trim", "strip"),
        "The text without characters (blanks) at its ends.",
        "flink_btrim('xyaxy', 'xy')",
        "a",
    ),
    flink_function(
        "ltrim",
        _TWO,
        "string",
        _trim("utf8_ltrim", "lstrip"),
        "The text without characters (blanks) at its beginning.",
        "flink_ltrim('xxa', 'x')",
        "a",
    ),
    flink_function(
        "rtrim",
        _TWO,
        "string",
        _trim("utf8_rtrim", "rstrip"),
        "The text without characters (blanks) at its end.",
        "flink_rtrim('axx', 'x')",
        "a",
    ),
    flink_function(
        "repeat",
        "text: string, count: integer",
        "string",
        lambda *args: b.apply_failing(STRING, longer_texts.repeat, *args),
        "The text again and again.",
        "flink_repeat('ab', 3)",
        "ababab",
    ),
    flink_function(
        "overlay",
        "text: string, new: string, position: integer, length: integer?",
        "string",
        by_value(STRING, _overlay, fails=False),
        "The text with another in the place of some characters, as many as it has itself; with none of them it ends there.",
        "flink_overlay('xxxxxtest', 'xxxx', 6)",
        "xxxxxxxxx",
        loops=True,
    ),
    flink_function(
        "replace",
        "text: string, old: string, new: string",
        "string",
        replace,
        "The text with another for each part; an empty part is between all characters.",
        "flink_replace('abc', '', 'x')",
        "xaxbxcx",
    ),
    flink_function(
        "translate",
        "text: string, old: string, new: string",
        "string",
        _build_translate,
        "Each character of the second text as the one in its place of the third; without one it is dropped.",
        "flink_translate('abcabc', 'ab', 'x')",
        "xcxc",
    ),
    flink_function(
        "translate3",
        "text: string, old: string, new: string",
        "string",
        _build_translate,
        "The same as translate.",
        "flink_translate3('abc', 'a', 'b')",
        "bbc",
    ),
    flink_function(
        "initcap",
        "text: string",
        "string",
        usually_on_arrow(STRING, _init_cap_of_bytes, _init_cap),
        "Words in lower case with their first letter in upper case; words are of letters and digits of ASCII.",
        "flink_initcap('hello wORLD')",
        "Hello World",
    ),
    flink_function(
        "lpad",
        "text: string, length: integer, pad: string",
        "string",
        _pad(left=True),
        "The text filled at its beginning, or cut, to a length.",
        "flink_lpad('hi', 4, '??')",
        "??hi",
        null="null if an argument is null, the length negative or the filling empty",
        loops=True,
    ),
    flink_function(
        "rpad",
        "text: string, length: integer, pad: string",
        "string",
        _pad(left=False),
        "The text filled at its end, or cut, to a length.",
        "flink_rpad('hi', 5, 'abc')",
        "hiabc",
        null="null if an argument is null, the length negative or the filling empty",
        loops=True,
    ),
    flink_function(
        "reverse",
        "text: string",
        "string",
        on_arrow(STRING, lambda x: pc.utf8_reverse(x)),
        "The text backwards.",
        "flink_reverse('hello')",
        "olleh",
    ),
    flink_function(
        "elt",
        "index: integer, value: any, more: any...",
        "the values' type",
        elt,
        "One of the values, counted from 1.",
        "flink_elt(2, 'a', 'b')",
        "b",
        null="null if the index is null or not that of a value",
        loops=True,
    ),
)
