"""Script functions of regular expressions: patterns are constants, and find anywhere in a text."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls import regex_calls
from etl.expressions.calls.arguments import MisuseError
from etl.expressions.library.function import rsql_functions
from etl.expressions.library.rsql.arguments import constant_text, constant_whole, text_of
from etl.expressions.library.rsql.texts import substring
from etl.expressions.widening import INT32, INT64, STRING

_NULL = "null if the text is null"
_NO_MATCH = "null if the text is null or nothing is found"


def _pattern(value: BoundNode) -> BoundNode:
    return b.literal(constant_text(value, "the regular expression"), STRING)


def _group(text: BoundNode, pattern: BoundNode, number: BoundNode | None = None) -> BoundNode:
    """A group of the first match; null without a match."""
    index = 1 if number is None else constant_whole(number, "the group")
    found = regex_calls.regexp_extract(text_of(text), _pattern(pattern), b.literal(index, INT32))
    return b.apply(STRING, _null_if_empty, found)


def _null_if_empty(text: Any) -> Any:
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, STRING), text)


def _replace(text: BoundNode, pattern: BoundNode, new: BoundNode) -> BoundNode:
    given = b.literal(constant_text(new, "the replacement"), STRING)
    return regex_calls.regexp_replace(text_of(text), _pattern(pattern), given)


def _from(text: BoundNode, position: BoundNode | None) -> tuple[BoundNode, int]:
    """The text from a position that counts from 1, and the number of characters before it."""
    before = 0 if position is None else max(constant_whole(position, "the position") - 1, 0)
    return (text_of(text) if not before else substring(text, b.literal(before, INT32))), before


def _only_first(occurrence: BoundNode | None) -> None:
    if occurrence is not None and constant_whole(occurrence, "the occurrence") != 1:
        raise MisuseError("only the first occurrence is supported", hint="give a later position")


def _count(text: BoundNode, pattern: BoundNode, position: BoundNode | None = None) -> BoundNode:
    found = regex_calls.regexp_count(_from(text, position)[0], _pattern(pattern))
    return b.apply(INT64, lambda number: pc.cast(number, INT64), found)


def _extract(
    text: BoundNode, pattern: BoundNode, position: BoundNode | None = None, occurrence: BoundNode | None = None
) -> BoundNode:
    _only_first(occurrence)
    found = regex_calls.regexp_extract(_from(text, position)[0], _pattern(pattern), b.literal(0, INT32))
    return b.apply(STRING, _null_if_empty, found)


def _position(
    text: BoundNode,
    pattern: BoundNode,
    position: BoundNode | None = None,
    occurrence: BoundNode | None = None,
    side: BoundNode | None = None,
) -> BoundNode:
    """Where the match begins, from 1; with ``side`` 1 where it has ended; 0 if nothing is found."""
    _only_first(occurrence)
    rest, before = _from(text, position)
    at = regex_calls.regexp_instr(rest, _pattern(pattern))
    is_end = side is not None and constant_whole(side, "the side") == 1
    found = _extract(text, pattern, position)

    def run(begin: Any, match: Any) -> Any:
        length = pc.fill_null(pc.utf8_length(match), 0) if is_end else 0
        return pc.cast(pc.if_else(pc.equal(begin, 0), 0, pc.add(pc.add(begin, before), length)), INT64)

    filled = b.apply(STRING, lambda match, searched: pc.coalesce(match, searched), found, text_of(text)) if is_end else found
    return b.apply(INT64, run, at, filled) if is_end else b.apply(INT64, lambda begin: run(begin, None), at)


_regex_function = rsql_functions(_NULL)

FUNCTIONS = (
    _regex_function(
        "regexgroup",
        "text: any, pattern: string",
        "string",
        _group,
        "The first group of the first match.",
        "regexgroup('ip=10.0.0.1 x', 'ip=([0-9.]+)')",
        "10.0.0.1",
        _NO_MATCH,
    ),
    _regex_function(
        "regexgroupindex",
        "text: any, pattern: string, group: any",
        "string",
        _group,
        "A group of the first match; 0 is all of it.",
        "regexgroupindex('a=1', '(a)=([0-9])', '2')",
        "1",
        _NO_MATCH,
    ),
    _regex_function(
        "regexreplace",
        "text: any, pattern: string, new: any",
        "string",
        _replace,
        "All matches replaced.",
        "regexreplace('a1b2', '[0-9]', '#')",
        "a#b#",
    ),
    _regex_function(
        "regexcount",
        "text: any, pattern: string, position: any?",
        "bigint",
        _count,
        "Number of matches, from a position on.",
        "regexcount('a1b2', '[0-9]', 3)",
        1,
    ),
    _regex_function(
        "regexinstr",
        "text: any, pattern: string, position: any?, occurrence: any?, side: any?",
        "bigint",
        _position,
        "Where the first match begins, from 1, or with side 1 where it has ended; else 0.",
        "regexinstr('a=1 b=2', 'b=', 1, 1, 1)",
        7,
    ),
    _regex_function(
        "regexsubstr",
        "text: any, pattern: string, position: any?, occurrence: any?",
        "string",
        _extract,
        "The text of the first match, from a position on.",
        "regexsubstr('a=1 b=2', '[a-z]=', 2)",
        "b=",
        _NO_MATCH,
    ),
)
