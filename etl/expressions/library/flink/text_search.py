"""Flink's functions that search, split and test texts."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError
from etl.expressions.library.flink.texts import STRINGS
from etl.expressions.library.function import flink_function
from etl.expressions.library.kernels import RowError, by_value, constant, usually_on_arrow
from etl.expressions.widening import BOOLEAN, INT32, STRING, is_decimal

BINARY = pa.binary()


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
        if BINARY in (text.type, part.type) and text.type != part.type:
            raise MisuseError("both are texts, or both are bytes")
        is_known, searched = constant(part)
        if text.type == BINARY:
            test = bytes.startswith if function is str.startswith else bytes.endswith
            return by_value(BOOLEAN, test, fails=False)(text, part)
        if is_known and searched is not None:
            return b.apply(BOOLEAN, lambda x: kernel(x, searched), text)
        return by_value(BOOLEAN, function, fails=False)(text, part)

    return build


_MAX_CHARACTER = 255
"""The greatest number of a separator; with another one there are no parts."""


_WHITE_SPACE = re.compile("[\t-\r\x1c-\x20\u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000]")
"""Of Java: without spaces that do not break a line."""


def _split_index(text: str, separator: str | int, index: int) -> str | None:
    if isinstance(separator, int):
        separator = chr(separator) if 0 < separator <= _MAX_CHARACTER else ""
        if not separator:
            return None
    if not text or index < 0:
        return None
    parts = text.split(separator) if separator else _WHITE_SPACE.split(text)
    return parts[index] if index < len(parts) else None


def split_index(text: BoundNode, separator: BoundNode, index: BoundNode) -> BoundNode:
    """Arrow splits at a constant; the part is taken from the list."""
    (is_known, delimiter), (is_index_known, number) = constant(separator), constant(index)
    delimiter = chr(delimiter) if isinstance(delimiter, int) and 0 < delimiter <= _MAX_CHARACTER else delimiter
    if not (is_known and is_index_known and isinstance(delimiter, str) and delimiter and number is not None):
        return by_value(STRING, _split_index, fails=False)(text, separator, index)
    if number < 0:
        return b.apply(STRING, lambda x: pc.if_else(pc.is_null(x), x, pa.scalar(None, STRING)), text)
    without_empty = b.apply(STRING, lambda x: pc.if_else(pc.equal(x, ""), pa.scalar(None, STRING), x), text)
    return b.apply(STRING, partial(take_part, delimiter, number), without_empty)


def take_part(separator: str, number: int, values: Any) -> Any:
    """A part of each text, counted from 0; null without such a part."""
    if isinstance(values, pa.Scalar):
        return take_part(separator, number, pa.array([values.as_py()], STRING))[0]
    lists = pc.split_pattern(values, separator)
    enough = pc.greater(pc.list_value_length(lists), number)
    starts = pc.add(pc.cast(lists.offsets[:-1], pa.int64()), number)
    return lists.values.take(pc.if_else(enough, starts, pa.scalar(None, pa.int64())))


def _split(text: str, separator: str) -> list[str]:
    return [] if not text else list(text) if not separator else text.split(separator)


def _build_split(text: BoundNode, separator: BoundNode) -> BoundNode:
    is_known, delimiter = constant(separator)
    if not is_known or not isinstance(delimiter, str) or not delimiter:
        return by_value(STRINGS, _split, fails=False)(text, separator)
    return usually_on_arrow(STRINGS, partial(_split_at, delimiter), lambda value: _split(value, delimiter))(text)


def _split_at(delimiter: str, text: pa.Array) -> tuple[pa.Array, Any]:
    """Python splits an empty text, of which Arrow makes one part."""
    return pc.split_pattern(text, delimiter), pc.fill_null(pc.not_equal(text, ""), True).to_numpy(zero_copy_only=False)


def _str_to_map(text: str, pairs: str = ",", keys: str = "=") -> list[tuple[str, str | None]] | None:
    """Separators are regular expressions; the last of equal keys counts."""
    from etl.expressions.library.flink.java_patterns import MAX_PATTERN, compile_timed

    if max(len(pairs), len(keys)) > MAX_PATTERN:
        raise RowError(f"a separator has more than {MAX_PATTERN} characters")
    between, inside = compile_timed(pairs), compile_timed(keys)
    if between is None or inside is None:
        return None
    found: dict[str, str | None] = {}
    for pair in between.split(text) if text else []:
        key, *value = inside.split(pair, maxsplit=1)
        found[key] = value[0] if value else None
    return list(found.items())


def _is(kernel: Any) -> Any:
    return lambda value: b.apply(BOOLEAN, lambda x: pc.fill_null(kernel(x), False), value)


def is_decimal_text(value: BoundNode) -> BoundNode:
    """Whether a text is a number, with a sign, a fraction or an exponent."""
    if value.type != STRING:
        is_number = pa.types.is_integer(value.type) or pa.types.is_floating(value.type) or is_decimal(value.type)
        return b.apply(BOOLEAN, lambda x: pc.and_(pc.is_valid(x), is_number), value)
    pattern = r"\A[\x00-\x20]*[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?)[\x00-\x20]*\z"
    found: BoundNode = _is(lambda x: pc.match_substring_regex(x, pattern))(value)
    return found


FUNCTIONS = (
    flink_function(
        "locate",
        "part: string, text: string, position: integer?",
        "int",
        locate,
        "The position of a part, from 1; 0 without one.",
        "flink_locate('l', 'hello', 4)",
        4,
    ),
    flink_function(
        "instr",
        "text: string, part: string, start: integer?, occurrence: integer?",
        "int",
        instr,
        "The position of an occurrence of a part, from 1; a negative start searches backwards.",
        "flink_instr('hello', 'l', -1)",
        4,
    ),
    flink_function(
        "startswith",
        "text: string|binary, part: string|binary",
        "boolean",
        part_test(lambda x, s: pc.starts_with(x, s), str.startswith),
        "Whether a text begins with another.",
        "flink_startswith('hello', 'he')",
        True,
    ),
    flink_function(
        "endswith",
        "text: string|binary, part: string|binary",
        "boolean",
        part_test(lambda x, s: pc.ends_with(x, s), str.endswith),
        "Whether a text ends with another.",
        "flink_endswith('hello', 'lo')",
        True,
    ),
    flink_function(
        "split_index",
        "text: string, separator: string|integer, index: integer",
        "string",
        split_index,
        "A part of a text, counted from 0; the separator is a text (empty: white space) or the number of a character up to 255.",
        "flink_split_index('a,b,c', ',', 1)",
        "b",
        null="null if an argument is null, the text empty, or without such a part",
    ),
    flink_function(
        "split",
        "text: string, separator: string",
        "array<string>",
        _build_split,
        "The parts of a text; its characters for an empty separator, none of an empty text.",
        "flink_split('a,b', ',')",
        ["a", "b"],
    ),
    flink_function(
        "str_to_map",
        "text: string, pairs: string?, keys: string?",
        "map<string,string>",
        by_value(pa.map_(STRING, STRING), _str_to_map),
        "Pairs of key and value; the separators (`,` and `=`) are regular expressions.",
        "flink_str_to_map('a=1,b=2')",
        [("a", "1"), ("b", "2")],
        loops=True,
    ),
    flink_function(
        "is_alpha",
        "value: text",
        "boolean",
        _is(lambda x: pc.utf8_is_alpha(x)),
        "Whether a text has letters only, of any alphabet.",
        "flink_is_alpha('abc1')",
        False,
        null="false",
    ),
    flink_function(
        "is_digit",
        "value: text",
        "boolean",
        _is(lambda x: pc.utf8_is_decimal(x)),
        "Whether a text has digits only, of any alphabet.",
        "flink_is_digit('123')",
        True,
        null="false",
    ),
    flink_function(
        "is_decimal",
        "value: any",
        "boolean",
        is_decimal_text,
        "Whether a text is a number.",
        "flink_is_decimal('1e5')",
        True,
        null="false",
    ),
)
