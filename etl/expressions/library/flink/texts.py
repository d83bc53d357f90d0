"""Flink's functions of texts, as far as Arrow computes them."""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.library.function import LibraryFunction
from etl.expressions.library.kernels import RowError, by_value, constant, on_arrow
from etl.expressions.rows import ActiveRows
from etl.expressions.values import texts
from etl.expressions.widening import BOOLEAN, INT32, STRING, is_decimal

STRINGS = pa.list_(STRING)


# ── Parts ─────────────────────────────────────────────────────────────────────────────────────────


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
        return by_value(STRING, _substring_value, fails=False)(*args)
    return b.apply(STRING, partial(texts.substring, max(1, at), count), text)


def _end(keeps_left: bool) -> Any:
    def value(text: str, count: int) -> str:
        return "" if count <= 0 else text[:count] if keeps_left else text[-count:]

    def build(text: BoundNode, count: BoundNode) -> BoundNode:
        is_known, number = constant(count)
        if not is_known or number is None:
            return by_value(STRING, value, fails=False)(text, count)
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
    if count < 0:
        return text[: position - 1] + new + text[position - 1 :]
    return text[: position - 1] + new + text[position - 1 + count :]


def _pad(text: str, length: int, pad: str, *, left: bool) -> str | None:
    if length < 0 or (not pad and length > len(text)):
        return None
    if length > MAX_CHARACTERS:
        raise RowError(f"the text would have more than {MAX_CHARACTERS:,} characters")
    missing = length - len(text)
    filling = (pad * (missing // max(1, len(pad)) + 1))[:missing] if missing > 0 else ""
    return text[:length] if missing <= 0 else filling + text if left else text + filling


def _locate(part: str, text: str, position: int = 1) -> int:
    return text.find(part, max(0, position - 1)) + 1


def _instr(text: str, part: str, start: int = 1, occurrence: int = 1) -> int | None:
    if start == 0 or occurrence < 1:
        return 0
    at = -1
    if start > 0:
        at = start - 2
        for _ in range(occurrence):
            at = text.find(part, at + 1)
            if at < 0:
                return 0
        return at + 1
    end = len(text) + start + len(part)
    for _ in range(occurrence):
        at = text.rfind(part, 0, end)
        if at < 0:
            return 0
        end = at + len(part) - 1
    return at + 1


def find_part(part: BoundNode, text: BoundNode) -> BoundNode | None:
    """The position of a constant in code points, on Arrow; None if it is not a constant."""
    is_known, searched = constant(part)
    if not is_known or not searched:
        return None

    def kernel(values: Any) -> Any:
        at = pc.find_substring(values, searched)
        is_ascii = pc.equal(pc.utf8_length(values), pc.binary_length(values))
        if pc.all(is_ascii).as_py() is not False:
            return pc.cast(pc.add(at, 1), INT32)
        return _each_pair(values, searched)

    return b.apply(INT32, kernel, text)


def _each_pair(values: Any, part: str) -> Any:
    if isinstance(values, pa.Scalar):
        return pa.scalar(None if not values.is_valid else values.as_py().find(part) + 1, INT32)
    encoded = pc.dictionary_encode(values)
    return pa.array([one.find(part) + 1 for one in encoded.dictionary.to_pylist()], INT32).take(encoded.indices)


def locate(part: BoundNode, text: BoundNode, position: BoundNode | None = None) -> BoundNode:
    found = find_part(part, text) if position is None else None
    return found or by_value(INT32, _locate, fails=False)(part, text, *(() if position is None else (position,)))


def instr(text: BoundNode, part: BoundNode, *more: BoundNode) -> BoundNode:
    found = None if more else find_part(part, text)
    return found or by_value(INT32, _instr, fails=False)(text, part, *more)


def part_test(kernel: Any, function: Any) -> Any:
    def build(text: BoundNode, part: BoundNode) -> BoundNode:
        is_known, searched = constant(part)
        if is_known and searched is not None:
            return b.apply(BOOLEAN, lambda x: kernel(x, searched), text)
        return by_value(BOOLEAN, function, fails=False)(text, part)

    return build


def replace(text: BoundNode, old: BoundNode, new: BoundNode) -> BoundNode:
    (is_known, searched), (is_new_known, given) = constant(old), constant(new)
    if is_known and is_new_known and searched and given is not None:
        return b.apply(STRING, lambda x: pc.replace_substring(x, searched, given), text)
    return by_value(STRING, lambda value, one, other: value.replace(one, other), fails=False)(text, old, new)


def _translate(text: str, old: str, new: str) -> str:
    table: dict[int, str | None] = {}
    for at, sign in enumerate(old):
        table.setdefault(ord(sign), new[at] if at < len(new) else None)
    return text.translate(table)


def _init_cap(text: str) -> str:
    """Words are letters and digits of ASCII, as for Flink."""
    out, begins = [], True
    for sign in text:
        is_word = sign.isascii() and sign.isalnum()
        out.append((sign.upper() if begins else sign.lower()) if is_word else sign)
        begins = not is_word
    return "".join(out)


# ── Splitting ─────────────────────────────────────────────────────────────────────────────────────


def _split_index(text: str, separator: str | int, index: int) -> str | None:
    if isinstance(separator, int):
        separator = chr(separator)
    if not text or index < 0 or not separator:
        return None
    parts = text.split(separator)
    return parts[index] if index < len(parts) else None


def split_index(text: BoundNode, separator: BoundNode, index: BoundNode) -> BoundNode:
    """Arrow splits at a constant; the part is taken from the list."""
    (is_known, sign), (is_index_known, number) = constant(separator), constant(index)
    sign = chr(sign) if isinstance(sign, int) and 0 < sign < 0x10FFFF else sign
    if not (is_known and is_index_known and isinstance(sign, str) and sign and number is not None):
        return by_value(STRING, _split_index, fails=False)(text, separator, index)
    if number < 0:
        return b.apply(STRING, lambda x: pc.if_else(pc.is_null(x), x, pa.scalar(None, STRING)), text)
    return b.apply(STRING, partial(_part, sign, number), text)


def _part(separator: str, number: int, values: Any) -> Any:
    if isinstance(values, pa.Scalar):
        return _part(separator, number, pa.array([values.as_py()], STRING))[0]
    lists = pc.split_pattern(pc.if_else(pc.equal(values, ""), pa.scalar(None, STRING), values), separator)
    enough = pc.greater(pc.list_value_length(lists), number)
    starts = pc.add(pc.cast(lists.offsets[:-1], pa.int64()), number)
    return lists.values.take(pc.if_else(enough, starts, pa.scalar(None, pa.int64())))


def _split(text: str, separator: str) -> list[str]:
    return [] if not text else list(text) if not separator else text.split(separator)


def _str_to_map(text: str, pairs: str = ",", keys: str = "=") -> list[tuple[str, str | None]] | None:
    """Separators are regular expressions; the last of equal keys counts."""
    from etl.expressions.library.flink.patterns import compiled

    between, inside = compiled(pairs), compiled(keys)
    if between is None or inside is None:
        return None
    found: dict[str, str | None] = {}
    for pair in between.split(text) if text else []:
        key, *value = inside.split(pair, maxsplit=1)
        found[key] = value[0] if value else None
    return list(found.items())


# ── Kinds of characters ───────────────────────────────────────────────────────────────────────────


def _is(kernel: Any) -> Any:
    return lambda value: b.apply(BOOLEAN, lambda x: pc.fill_null(kernel(x), False), value)


def is_decimal_text(value: BoundNode) -> BoundNode:
    """Whether a text is a number, with a sign, a fraction or an exponent."""
    if value.type != STRING:
        is_number = pa.types.is_integer(value.type) or pa.types.is_floating(value.type) or is_decimal(value.type)
        return b.apply(BOOLEAN, lambda x: pc.and_(pc.is_valid(x), is_number), value)
    pattern = r"\A[ ]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?[ ]*\z"
    found: BoundNode = _is(lambda x: pc.match_substring_regex(x, pattern))(value)
    return found


def _elt(index: int | None, *values: Any) -> Any:
    return values[index - 1] if index is not None and 1 <= index <= len(values) else None


def elt(index: BoundNode, *values: BoundNode) -> BoundNode:
    return by_value(values[0].type, _elt, nulls=True, fails=False)(index, *values)


MAX_CHARACTERS = 1 << 20
"""Most characters that a text is repeated or filled to: a count in the data must not take all memory."""


def _repeat(rows: ActiveRows, text: Any, count: Any) -> Any:
    number = pc.cast(pc.max_element_wise(count, pa.scalar(0, count.type), skip_nulls=False), pa.int64())
    size = pc.cast(pc.utf8_length(text), pa.int64())
    too_long = pc.greater(number, pc.divide(MAX_CHARACTERS, pc.max_element_wise(size, 1)))
    rows.fail(too_long, f"the text would have more than {MAX_CHARACTERS:,} characters")
    return pc.binary_repeat(text, pc.if_else(too_long, pa.scalar(0, pa.int64()), number))


def _entry(
    name: str, arguments: str, result: str, build: Any, about: str, example: str, gives: Any, **more: Any
) -> LibraryFunction:
    return LibraryFunction(f"flink_{name}", arguments, result, build, about, example, gives, **more)


_TWO = "text: string, characters: string?"

FUNCTIONS = (
    _entry(
        "substring",
        "text: string, position: integer, length: integer?",
        "string",
        substring,
        "A part of a text, counted from 1 or from the end; position 0 is 1.",
        "flink_substring('hello', 0, 2)",
        "he",
        null="null if an argument is null or the length negative",
    ),
    _entry("left", "text: string, count: integer", "string", _end(True), "The first characters.", "flink_left('hello', 2)", "he"),
    _entry(
        "right", "text: string, count: integer", "string", _end(False), "The last characters.", "flink_right('hello', 2)", "lo"
    ),
    _entry(
        "btrim",
        _TWO,
        "string",
        _trim("utf8_trim", "strip"),
        "The text without characters (blanks) at its ends.",
        "flink_btrim('xyaxy', 'xy')",
        "a",
    ),
    _entry(
        "ltrim",
        _TWO,
        "string",
        _trim("utf8_ltrim", "lstrip"),
        "The text without characters (blanks) at its beginning.",
        "flink_ltrim('xxa', 'x')",
        "a",
    ),
    _entry(
        "rtrim",
        _TWO,
        "string",
        _trim("utf8_rtrim", "rstrip"),
        "The text without characters (blanks) at its end.",
        "flink_rtrim('axx', 'x')",
        "a",
    ),
    _entry(
        "repeat",
        "text: string, count: integer",
        "string",
        lambda *args: b.apply_failing(STRING, _repeat, *args),
        "The text again and again.",
        "flink_repeat('ab', 3)",
        "ababab",
    ),
    _entry(
        "overlay",
        "text: string, new: string, position: integer, length: integer?",
        "string",
        by_value(STRING, _overlay, fails=False),
        "The text with another in the place of some characters, as many as it has itself.",
        "flink_overlay('xxxxxtest', 'xxxx', 6)",
        "xxxxxxxxx",
        loops=True,
    ),
    _entry(
        "replace",
        "text: string, old: string, new: string",
        "string",
        replace,
        "The text with another for each part; an empty part is between all characters.",
        "flink_replace('abc', '', 'x')",
        "xaxbxcx",
    ),
    _entry(
        "translate",
        "text: string, old: string, new: string",
        "string",
        by_value(STRING, _translate, fails=False),
        "Each character of the second text as the one in its place of the third; without one it is dropped.",
        "flink_translate('abcabc', 'ab', 'x')",
        "xcxc",
        loops=True,
    ),
    _entry(
        "translate3",
        "text: string, old: string, new: string",
        "string",
        by_value(STRING, _translate, fails=False),
        "The same as translate.",
        "flink_translate3('abc', 'a', 'b')",
        "bbc",
        loops=True,
    ),
    _entry(
        "initcap",
        "text: string",
        "string",
        by_value(STRING, _init_cap, fails=False),
        "Words in lower case with their first letter in upper case; words are of letters and digits of ASCII.",
        "flink_initcap('hello wORLD')",
        "Hello World",
        loops=True,
    ),
    _entry(
        "lpad",
        "text: string, length: integer, pad: string",
        "string",
        by_value(STRING, partial(_pad, left=True)),
        "The text filled at its beginning, or cut, to a length.",
        "flink_lpad('hi', 4, '??')",
        "??hi",
        null="null if an argument is null, the length negative or the filling empty",
        loops=True,
    ),
    _entry(
        "rpad",
        "text: string, length: integer, pad: string",
        "string",
        by_value(STRING, partial(_pad, left=False)),
        "The text filled at its end, or cut, to a length.",
        "flink_rpad('hi', 5, 'abc')",
        "hiabc",
        null="null if an argument is null, the length negative or the filling empty",
        loops=True,
    ),
    _entry(
        "locate",
        "part: string, text: string, position: integer?",
        "int",
        locate,
        "The position of a part, from 1; 0 without one.",
        "flink_locate('l', 'hello', 4)",
        4,
    ),
    _entry(
        "instr",
        "text: string, part: string, start: integer?, occurrence: integer?",
        "int",
        instr,
        "The position of an occurrence of a part, from 1; a negative start searches backwards.",
        "flink_instr('hello', 'l', -1)",
        4,
    ),
    _entry(
        "startswith",
        "text: string, part: string",
        "boolean",
        part_test(lambda x, s: pc.starts_with(x, s), str.startswith),
        "Whether a text begins with another.",
        "flink_startswith('hello', 'he')",
        True,
    ),
    _entry(
        "endswith",
        "text: string, part: string",
        "boolean",
        part_test(lambda x, s: pc.ends_with(x, s), str.endswith),
        "Whether a text ends with another.",
        "flink_endswith('hello', 'lo')",
        True,
    ),
    _entry(
        "reverse",
        "text: string",
        "string",
        on_arrow(STRING, lambda x: pc.utf8_reverse(x)),
        "The text backwards.",
        "flink_reverse('hello')",
        "olleh",
    ),
    _entry(
        "split_index",
        "text: string, separator: string|integer, index: integer",
        "string",
        split_index,
        "A part of a text, counted from 0; the separator is a text or the number of a character.",
        "flink_split_index('a,b,c', ',', 1)",
        "b",
        null="null if an argument is null, the text empty, or without such a part",
    ),
    _entry(
        "split",
        "text: string, separator: string",
        "array<string>",
        by_value(STRINGS, _split, fails=False),
        "The parts of a text; its characters for an empty separator, none of an empty text.",
        "flink_split('a,b', ',')",
        ["a", "b"],
        loops=True,
    ),
    _entry(
        "str_to_map",
        "text: string, pairs: string?, keys: string?",
        "map<string,string>",
        by_value(pa.map_(STRING, STRING), _str_to_map),
        "Pairs of key and value; the separators (`,` and `=`) are regular expressions.",
        "flink_str_to_map('a=1,b=2')",
        [("a", "1"), ("b", "2")],
        loops=True,
    ),
    _entry(
        "is_alpha",
        "value: text",
        "boolean",
        _is(lambda x: pc.utf8_is_alpha(x)),
        "Whether a text has letters only, of any alphabet.",
        "flink_is_alpha('abc1')",
        False,
        null="false",
    ),
    _entry(
        "is_digit",
        "value: text",
        "boolean",
        _is(lambda x: pc.utf8_is_decimal(x)),
        "Whether a text has digits only, of any alphabet.",
        "flink_is_digit('123')",
        True,
        null="false",
    ),
    _entry(
        "is_decimal",
        "value: any",
        "boolean",
        is_decimal_text,
        "Whether a text is a number.",
        "flink_is_decimal('1e5')",
        True,
        null="false",
    ),
    _entry(
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
