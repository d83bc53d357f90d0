"""Functions on texts that scripts of RocketMQ Streams call, on Arrow. Arguments of other types are converted to text."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.joined_texts import join_texts
from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError
from etl.expressions.library.flink.texts import replaced
from etl.expressions.library.function import rsql_functions
from etl.expressions.library.kernels import constant
from etl.expressions.library.rsql.arguments import by_text, clipped, constant_text, of_texts, text_of
from etl.expressions.output_limit import MAX_CHARACTERS
from etl.expressions.rows import ActiveRows
from etl.expressions.values import texts
from etl.expressions.widening import BOOLEAN, INT32, INT64, STRING

_NULL = "null if an argument is null"


_NULL_OR_EMPTY = "null for null and for an empty text"


def _without_empty(kernel: Callable[[Any], Any], text: Any) -> Any:
    return kernel(pc.if_else(pc.equal(text, ""), pa.scalar(None, STRING), text))


def _join(separator: str, *parts: BoundNode) -> BoundNode:
    """Join the texts of the parts that are not null, with a separator between them."""
    if not parts:
        return b.literal("", STRING)
    nodes = [text_of(part) for part in parts]

    def run(rows: ActiveRows) -> Any:
        values = [node.run(rows) for node in nodes if node.run is not None]
        return join_texts(separator, *values)

    return b.lazily(STRING, run, *nodes)


def _concat(*parts: BoundNode) -> BoundNode:
    return _join("", *parts)


def _concat_ws(separator: BoundNode, *parts: BoundNode) -> BoundNode:
    return _join(constant_text(separator, "the separator"), *parts)


def _contains(text: BoundNode, part: BoundNode) -> BoundNode:
    is_constant, found = constant(part)
    if is_constant and found is not None:
        return b.apply(BOOLEAN, partial(pc.match_substring, pattern=str(found)), text_of(text))
    return by_text(BOOLEAN, lambda one, other: other in one)(text, part)


def _pad(*, left: bool) -> Callable[[str, str, str], str | None]:
    def call(text: str, length: str, pad: str = " ") -> str | None:
        try:
            count = int(length)
        except ValueError:
            return None
        if count > MAX_CHARACTERS or count < 0:
            return None
        missing = (pad * ((count - len(text)) // max(len(pad), 1) + 1))[: max(count - len(text), 0)] if pad else ""
        return (missing + text if left else text + missing)[:count]

    return call


def _repeat(text: str, count: str) -> str | None:
    try:
        number = int(count)
    except ValueError:
        return None
    return text * max(number, 0) if len(text) * number <= MAX_CHARACTERS else None


def _spaces(count: str) -> str | None:
    return _repeat(" ", count)


def substring(text: BoundNode, start: BoundNode, count: BoundNode | None = None) -> BoundNode:
    """``count`` characters from a position that counts from 0; to the end without a count or with a negative one."""
    return _cut(text, start, count, first=0)


def _blink_substring(text: BoundNode, start: BoundNode, count: BoundNode | None = None) -> BoundNode:
    return _cut(text, start, count, first=1)


def _cut(text: BoundNode, start: BoundNode, count: BoundNode | None, *, first: int) -> BoundNode:
    known = [constant(node) for node in (start, count) if node is not None]
    if all(is_constant for is_constant, _ in known):
        try:
            numbers = [clipped(int(str(value))) for _, value in known]
        except ValueError as error:
            raise MisuseError("positions and lengths are whole numbers") from error
        begin = max(numbers[0] - first, 0)
        stop = begin + numbers[1] if len(numbers) > 1 and numbers[1] >= 0 else None
        return b.apply(STRING, lambda x: pc.utf8_slice_codeunits(x, begin, stop), text_of(text))
    return by_text(STRING, partial(_slice, first))(*(node for node in (text, start, count) if node is not None))


def _slice(first: int, text: str, start: str, count: str = "-1") -> str | None:
    try:
        begin, length = max(int(start) - first, 0), int(count)
    except ValueError:
        return None
    return text[begin:] if length < 0 else text[begin : begin + length]


def _replace(text: BoundNode, old: BoundNode, new: BoundNode) -> BoundNode:
    pairs = [constant(node) for node in (old, new)]
    if all(is_constant and value is not None for is_constant, value in pairs) and pairs[0][1] != "":
        return b.apply(STRING, partial(texts.replace, str(pairs[0][1]), str(pairs[1][1])), text_of(text))
    return by_text(STRING, lambda one, searched, given: replaced(one, searched, given) if searched else one, grows=True)(
        text, old, new
    )


_UPPER = of_texts(partial(_without_empty, texts.upper))


_LOWER = of_texts(partial(_without_empty, texts.lower))


rsql_function = rsql_functions()

FUNCTIONS = (
    rsql_function("lower", "text: any", "string", _LOWER, "Lower case.", "lower('ABC')", "abc", _NULL_OR_EMPTY),
    rsql_function("upper", "text: any", "string", _UPPER, "Upper case.", "upper('abc')", "ABC", _NULL_OR_EMPTY),
    rsql_function(
        "trim",
        "text: any",
        "string",
        of_texts(partial(_without_empty, partial(pc.utf8_trim, characters=" "))),
        "Without blanks on both sides.",
        "trim('  a ')",
        "a",
        _NULL_OR_EMPTY,
    ),
    rsql_function(
        "ltrim",
        "text: any",
        "string",
        of_texts(partial(pc.utf8_ltrim, characters=" ")),
        "Without blanks on the left.",
        "ltrim(' a ')",
        "a ",
    ),
    rsql_function(
        "rtrim",
        "text: any",
        "string",
        of_texts(partial(pc.utf8_rtrim, characters=" ")),
        "Without blanks on the right.",
        "rtrim(' a ')",
        " a",
    ),
    rsql_function(
        "length",
        "text: any",
        "bigint",
        of_texts(lambda x: pc.cast(pc.utf8_length(x), INT64), INT64),
        "Number of characters.",
        "length(123)",
        3,
    ),
    rsql_function(
        "char_length", "text: any", "int", of_texts(texts.length, INT32), "Number of characters.", "char_length('abc')", 3
    ),
    rsql_function(
        "lengthb",
        "text: any",
        "bigint",
        of_texts(lambda x: pc.cast(pc.binary_length(x), INT64), INT64),
        "Number of bytes.",
        "lengthb('é')",
        2,
    ),
    rsql_function(
        "reverse", "text: any", "string", of_texts(pc.utf8_reverse), "The characters in reverse order.", "reverse('abc')", "cba"
    ),
    rsql_function(
        "concat",
        "parts: any...",
        "string",
        _concat,
        "The texts of the parts, joined.",
        "concat('a', 7, null)",
        "a7",
        "null parts are left out",
    ),
    rsql_function(
        "concat_ws",
        "separator: any, parts: any...",
        "string",
        _concat_ws,
        "Parts joined with a separator, which is a constant.",
        "concat_ws('|', 'a', null, 7)",
        "a|7",
        "null parts are left out",
    ),
    rsql_function(
        "contains", "text: any, part: any", "boolean", _contains, "Whether a text has a part.", "contains('abc', 'b')", True
    ),
    rsql_function(
        "replace",
        "text: any, old: any, new: any",
        "string",
        _replace,
        "Every occurrence of a text replaced.",
        "replace('a.b', '.', '')",
        "ab",
    ),
    rsql_function(
        "substring",
        "text: any, start: any, count: any?",
        "string",
        substring,
        "Characters from a position that counts from 0; to the end without a count or with a negative one.",
        "substring('Hello', 1, 3)",
        "ell",
    ),
    rsql_function(
        "blink_substr",
        "text: any, start: any, count: any?",
        "string",
        _blink_substring,
        "Characters from a position that counts from 1.",
        "blink_substr('Hello', '1', 3)",
        "Hel",
    ),
    rsql_function(
        "lpad",
        "text: any, length: any, pad: any?",
        "string",
        by_text(STRING, _pad(left=True), grows=True),
        "Filled on the left to a length, or cut to it.",
        "lpad('abc', 6, '*')",
        "***abc",
        loops=True,
    ),
    rsql_function(
        "rpad",
        "text: any, length: any, pad: any?",
        "string",
        by_text(STRING, _pad(left=False), grows=True),
        "Filled on the right to a length, or cut to it.",
        "rpad('abc', '8', 'xy')",
        "abcxyxyx",
        loops=True,
    ),
    rsql_function(
        "repeat",
        "text: any, count: any",
        "string",
        by_text(STRING, _repeat, grows=True),
        "The text repeated a number of times.",
        "repeat('ab', 2)",
        "abab",
        loops=True,
    ),
    rsql_function(
        "space",
        "count: any",
        "string",
        by_text(STRING, _spaces, grows=True),
        "A text of a number of blanks.",
        "space('3')",
        "   ",
        loops=True,
    ),
)
