"""Script functions of texts on Arrow. Arguments of any type count by their text."""

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
from etl.expressions.casts import cast
from etl.expressions.library.function import LibraryFunction
from etl.expressions.library.kernels import constant
from etl.expressions.library.rsql.arguments import as_whole, by_text, constant_text, of_texts, text_of
from etl.expressions.rows import ActiveRows
from etl.expressions.values import texts
from etl.expressions.widening import BOOLEAN, INT32, INT64, STRING

_NULL = "null if an argument is null"
_NULL_OR_EMPTY = "null for null and for an empty text"


def _without_empty(kernel: Callable[[Any], Any], text: Any) -> Any:
    return kernel(pc.if_else(pc.equal(text, ""), pa.scalar(None, STRING), text))


def _joined(separator: str, *parts: BoundNode) -> BoundNode:
    """Parts with a separator between them; null ones are left out."""
    if not parts:
        return b.literal("", STRING)
    nodes = [text_of(part) for part in parts]

    def run(rows: ActiveRows) -> Any:
        values = [node.run(rows) for node in nodes if node.run is not None]
        return join_texts(separator, *values)

    return b.lazily(STRING, run, *nodes)


def _concat(*parts: BoundNode) -> BoundNode:
    return _joined("", *parts)


def _concat_ws(separator: BoundNode, *parts: BoundNode) -> BoundNode:
    return _joined(constant_text(separator, "the separator"), *parts)


def _contains(text: BoundNode, part: BoundNode) -> BoundNode:
    is_constant, found = constant(part)
    if is_constant and found is not None:
        return b.apply(BOOLEAN, partial(pc.match_substring, pattern=str(found)), text_of(text))
    return by_text(BOOLEAN, lambda one, other: other in one)(text, part)


def _padded(*, left: bool) -> Callable[[str, str, str], str | None]:
    def call(text: str, length: str, pad: str = " ") -> str | None:
        try:
            count = int(length)
        except ValueError:
            return None
        if count > MOST_CHARACTERS or count < 0:
            return None
        missing = (pad * ((count - len(text)) // max(len(pad), 1) + 1))[: max(count - len(text), 0)] if pad else ""
        return (missing + text if left else text + missing)[:count]

    return call


MOST_CHARACTERS = 1 << 20
"""Characters of a text that padding or repeating gives; more are null."""


def _repeated(text: str, count: str) -> str | None:
    try:
        number = int(count)
    except ValueError:
        return None
    return text * max(number, 0) if len(text) * number <= MOST_CHARACTERS else None


def _spaces(count: str) -> str | None:
    return _repeated(" ", count)


def substring(text: BoundNode, start: BoundNode, count: BoundNode | None = None) -> BoundNode:
    """From a position that counts from 0, so many characters; to the end without a number or with a negative one."""
    return _cut(text, start, count, first=0)


def _blink_substring(text: BoundNode, start: BoundNode, count: BoundNode | None = None) -> BoundNode:
    return _cut(text, start, count, first=1)


def _cut(text: BoundNode, start: BoundNode, count: BoundNode | None, *, first: int) -> BoundNode:
    known = [constant(node) for node in (start, count) if node is not None]
    if all(is_constant for is_constant, _ in known):
        try:
            numbers = [int(str(value)) for _, value in known]
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
    return by_text(STRING, lambda one, searched, given: one.replace(searched, given) if searched else one)(text, old, new)


def _cast(value: BoundNode, type_: BoundNode) -> BoundNode:
    name = constant_text(type_, "the type").lower()
    targets = {
        **dict.fromkeys(("int", "integer"), INT32),
        **dict.fromkeys(("long", "bigint"), INT64),
        **dict.fromkeys(("double", "float", "number", "decimal"), pa.float64()),
        "boolean": BOOLEAN,
    }
    if name in ("string", "varchar"):
        return text_of(value)
    if name in ("date", "timestamp", "datetime"):
        from etl.expressions.library.rsql.times import to_date

        return to_date(value)
    if name not in targets:
        raise MisuseError(f"there is no type {name!r}", hint=f"one of: {', '.join((*targets, 'string', 'date'))}")
    node = as_whole(value) if targets[name] in (INT32, INT64) else value
    return cast(node, targets[name], safe=True)


def _to_base64(value: BoundNode) -> BoundNode:
    def run(data: bytes) -> str:
        import base64

        return base64.b64encode(data if isinstance(data, bytes) else data.encode()).decode()

    from etl.expressions.library.kernels import by_value

    node = value if pa.types.is_binary(value.type) else text_of(value)
    return by_value(STRING, run, fails=False)(node)


def _from_base64(text: str) -> bytes | None:
    import base64
    import binascii

    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _bytes_text(value: BoundNode, charset: BoundNode) -> BoundNode:
    from etl.expressions.library.kernels import by_value

    if not pa.types.is_binary(value.type):
        return b.apply(STRING, lambda x: _no_texts(x), text_of(value))
    name = constant_text(charset, "the character set")
    try:
        "".encode(name)
    except LookupError as error:
        raise MisuseError(f"there is no character set {name!r}") from error
    return by_value(STRING, lambda data: data.decode(name, "replace"), fails=False)(value)


def _no_texts(values: Any) -> Any:
    return pa.scalar(None, STRING) if isinstance(values, pa.Scalar) else pa.nulls(len(values), STRING)


def _entry(
    name: str,
    arguments: str,
    result: str,
    build: Callable[..., BoundNode],
    about: str,
    example: str,
    gives: Any,
    null: str = _NULL,
    *,
    loops: bool = False,
) -> LibraryFunction:
    return LibraryFunction(f"rsql_{name}", arguments, result, build, about, f"rsql_{example}", gives, null=null, loops=loops)


_UPPER = of_texts(partial(_without_empty, texts.upper))
_LOWER = of_texts(partial(_without_empty, texts.lower))

FUNCTIONS = (
    _entry("lower", "text: any", "string", _LOWER, "Lower case.", "lower('ABC')", "abc", _NULL_OR_EMPTY),
    _entry("upper", "text: any", "string", _UPPER, "Upper case.", "upper('abc')", "ABC", _NULL_OR_EMPTY),
    _entry(
        "trim",
        "text: any",
        "string",
        of_texts(partial(_without_empty, partial(pc.utf8_trim, characters=" "))),
        "Without blanks on both sides.",
        "trim('  a ')",
        "a",
        _NULL_OR_EMPTY,
    ),
    _entry(
        "ltrim",
        "text: any",
        "string",
        of_texts(partial(pc.utf8_ltrim, characters=" ")),
        "Without blanks on the left.",
        "ltrim(' a ')",
        "a ",
    ),
    _entry(
        "rtrim",
        "text: any",
        "string",
        of_texts(partial(pc.utf8_rtrim, characters=" ")),
        "Without blanks on the right.",
        "rtrim(' a ')",
        " a",
    ),
    _entry(
        "length",
        "text: any",
        "bigint",
        of_texts(lambda x: pc.cast(pc.utf8_length(x), INT64), INT64),
        "Number of characters.",
        "length(123)",
        3,
    ),
    _entry("char_length", "text: any", "int", of_texts(texts.length, INT32), "Number of characters.", "char_length('abc')", 3),
    _entry(
        "lengthb",
        "text: any",
        "bigint",
        of_texts(lambda x: pc.cast(pc.binary_length(x), INT64), INT64),
        "Number of bytes.",
        "lengthb('é')",
        2,
    ),
    _entry(
        "reverse", "text: any", "string", of_texts(pc.utf8_reverse), "The characters in reverse order.", "reverse('abc')", "cba"
    ),
    _entry(
        "concat", "parts: any...", "string", _concat, "Parts joined.", "concat('a', 7, null)", "a7", "null parts are left out"
    ),
    _entry(
        "concat_ws",
        "separator: any, parts: any...",
        "string",
        _concat_ws,
        "Parts joined with a separator, which is a constant.",
        "concat_ws('|', 'a', null, 7)",
        "a|7",
        "null parts are left out",
    ),
    _entry("contains", "text: any, part: any", "boolean", _contains, "Whether a text has a part.", "contains('abc', 'b')", True),
    _entry(
        "replace",
        "text: any, old: any, new: any",
        "string",
        _replace,
        "Every occurrence of a text replaced.",
        "replace('a.b', '.', '')",
        "ab",
    ),
    _entry(
        "substring",
        "text: any, start: any, count: any?",
        "string",
        substring,
        "Characters from a position that counts from 0; to the end without a count or with a negative one.",
        "substring('Hello', 1, 3)",
        "ell",
    ),
    _entry(
        "blink_substr",
        "text: any, start: any, count: any?",
        "string",
        _blink_substring,
        "Characters from a position that counts from 1.",
        "blink_substr('Hello', '1', 3)",
        "Hel",
    ),
    _entry(
        "lpad",
        "text: any, length: any, pad: any?",
        "string",
        by_text(STRING, _padded(left=True)),
        "Filled on the left to a length, or cut to it.",
        "lpad('abc', 6, '*')",
        "***abc",
        loops=True,
    ),
    _entry(
        "rpad",
        "text: any, length: any, pad: any?",
        "string",
        by_text(STRING, _padded(left=False)),
        "Filled on the right to a length, or cut to it.",
        "rpad('abc', '8', 'xy')",
        "abcxyxyx",
        loops=True,
    ),
    _entry(
        "repeat",
        "text: any, count: any",
        "string",
        by_text(STRING, _repeated),
        "A text so many times.",
        "repeat('ab', 2)",
        "abab",
        loops=True,
    ),
    _entry("space", "count: any", "string", by_text(STRING, _spaces), "So many blanks.", "space('3')", "   ", loops=True),
    _entry("tostring", "value: any", "string", text_of, "The text of a value.", "tostring(2.5)", "2.5"),
    _entry(
        "cast",
        "value: any, type: string",
        "the type that is named",
        _cast,
        "A value as int, long, double, string, boolean or date.",
        "cast('7', 'int')",
        7,
        "null if the value is null or cannot be converted",
    ),
    _entry(
        "tobase64", "value: any", "string", _to_base64, "Base64 of bytes or of a text.", "tobase64('abc')", "YWJj", loops=True
    ),
    _entry(
        "frombase64",
        "text: any",
        "binary",
        by_text(pa.binary(), _from_base64),
        "The bytes of a Base64 text.",
        "byte2string(rsql_frombase64('YWJj'), 'utf-8')",
        "abc",
        "null if the argument is null or no Base64",
        loops=True,
    ),
    _entry(
        "byte2string",
        "value: any, charset: string",
        "string",
        _bytes_text,
        "The text of bytes in a character set.",
        "byte2string(rsql_frombase64('YWJj'), 'utf-8')",
        "abc",
        "null for null and for what are no bytes",
        loops=True,
    ),
)
