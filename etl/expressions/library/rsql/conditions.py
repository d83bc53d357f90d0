"""Script functions that compare: a missing value makes every comparison false, also those of a negative name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.casts import cast
from etl.expressions.library.function import LibraryFunction
from etl.expressions.library.rsql.arguments import as_double, constant_text, text_of
from etl.expressions.rows import ActiveRows
from etl.expressions.widening import BOOLEAN, INT32, STRING

_NEVER_NULL = "false if an argument is null"
_TOLERANCE = 0.001
"""Numbers that differ by less are equal, as in RocketMQ Streams."""


def _equal_numbers(one: Any, other: Any) -> Any:
    return pc.less(pc.abs(pc.subtract(one, other)), _TOLERANCE)


_TESTS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "=": (_equal_numbers, pc.equal),
    "<>": (lambda one, other: pc.invert(_equal_numbers(one, other)), pc.not_equal),
    ">": (pc.greater, pc.greater),
    ">=": (pc.greater_equal, pc.greater_equal),
    "<": (pc.less, pc.less),
    "<=": (pc.less_equal, pc.less_equal),
}
"""Operator → how numbers and how texts are compared."""


def compare(operator: str, one: BoundNode, other: BoundNode) -> BoundNode:
    """Numbers, and texts that hold numbers, are compared as numbers, anything else as texts; false for null."""
    numbers, texts = _TESTS[operator]
    if _is_word(one) or _is_word(other):
        return _false_for_null(b.apply(BOOLEAN, texts, text_of(one), text_of(other)))
    nodes = (as_double(one), as_double(other), text_of(one), text_of(other))

    def run(rows: ActiveRows) -> Any:
        left, right, left_text, right_text = (node.run(rows) for node in nodes if node.run is not None)
        found = pc.if_else(pc.and_(pc.is_valid(left), pc.is_valid(right)), numbers(left, right), texts(left_text, right_text))
        return pc.fill_null(found, False)

    return b.lazily(BOOLEAN, run, *nodes)


def _is_word(value: BoundNode) -> bool:
    """Whether it is a constant text that holds no number."""
    if not value.is_literal or not isinstance(value.value, str):
        return False
    try:
        float(value.value)
    except ValueError:
        return value.value.strip().lower() not in ("nan", "infinity", "inf")
    return False


def _between(one: BoundNode, low: BoundNode, high: BoundNode) -> BoundNode:
    return b.apply(BOOLEAN, pc.and_, compare(">=", one, low), compare("<=", one, high))


def _not_between(one: BoundNode, low: BoundNode, high: BoundNode) -> BoundNode:
    return b.apply(BOOLEAN, pc.invert, _between(one, low, high))


def _in(value: BoundNode, *others: BoundNode) -> BoundNode:
    found = [compare("=", value, other) for other in others]
    return found[0] if len(found) == 1 else b.apply(BOOLEAN, _any, *found)


def _any(*conditions: Any) -> Any:
    found = conditions[0]
    for one in conditions[1:]:
        found = pc.or_(found, one)
    return found


def _all(*conditions: Any) -> Any:
    found = conditions[0]
    for one in conditions[1:]:
        found = pc.and_(found, one)
    return found


def _not_in(value: BoundNode, *others: BoundNode) -> BoundNode:
    return b.apply(BOOLEAN, pc.invert, _in(value, *others))


def _in_by_regex(value: BoundNode, *patterns: BoundNode) -> BoundNode:
    found = [regex(value, pattern) for pattern in patterns]
    return found[0] if len(found) == 1 else b.apply(BOOLEAN, _any, *found)


def regex(value: BoundNode, pattern: BoundNode) -> BoundNode:
    """Whether a regular expression is found; false for null."""
    from etl.expressions.calls import regex_calls

    constant_text(pattern, "the regular expression")
    return _false_for_null(regex_calls.rlike(text_of(value), pattern))


def not_regex(value: BoundNode, pattern: BoundNode) -> BoundNode:
    """Whether a regular expression is not found; false for null."""
    from etl.expressions.calls import regex_calls

    constant_text(pattern, "the regular expression")
    return _false_for_null(b.apply(BOOLEAN, pc.invert, regex_calls.rlike(text_of(value), pattern)))


def _false_for_null(node: BoundNode) -> BoundNode:
    def run(rows: ActiveRows) -> Any:
        assert node.run is not None
        return pc.fill_null(node.run(rows), False)

    return b.lazily(BOOLEAN, run, node)


def is_missing(value: BoundNode, *, words: tuple[str, ...] = ("", "null")) -> BoundNode:
    """Whether a value is null or one of some words."""
    if pa.types.is_nested(value.type):
        return b.lazily(BOOLEAN, lambda rows: pc.is_null(_run(value, rows)), value)
    text = text_of(value)

    def run(rows: ActiveRows) -> Any:
        found = _run(text, rows)
        return pc.or_(pc.is_null(found), pc.fill_null(pc.is_in(found, value_set=pa.array(words, STRING)), False))

    return b.lazily(BOOLEAN, run, text)


def _run(node: BoundNode, rows: ActiveRows) -> Any:
    assert node.run is not None
    return node.run(rows)


def _negate(build: Callable[..., BoundNode]) -> Callable[..., BoundNode]:
    return lambda *args: b.apply(BOOLEAN, pc.invert, build(*args))


def as_condition(value: BoundNode) -> BoundNode:
    """A value as a condition: a boolean, or the word ``true``; false for null."""
    if value.type == BOOLEAN:
        return _false_for_null(value)
    return _false_for_null(b.apply(BOOLEAN, lambda text: pc.equal(pc.ascii_lower(text), "true"), text_of(value)))


def _logical(kernel: Callable[..., Any]) -> Callable[..., BoundNode]:
    return lambda *args: b.apply(BOOLEAN, kernel, *map(as_condition, args))


def _one_if_true(value: BoundNode) -> BoundNode:
    return cast(as_condition(value), INT32)


def _condition(
    name: str,
    arguments: str,
    build: Callable[..., BoundNode],
    about: str,
    example: str,
    gives: Any = True,
    null: str = _NEVER_NULL,
) -> LibraryFunction:
    return LibraryFunction(f"rsql_{name}", arguments, "boolean", build, about, f"rsql_{example}", gives, null=null)


def _comparison(name: str, operator: str, words: str, example: str) -> LibraryFunction:
    about = f"Whether the first value is {words} the second; numbers in texts count as numbers."
    return _condition(name, "value: any, other: any", partial(compare, operator), about, f"{name}({example})")


_PLAIN = "true or false for null too"

FUNCTIONS = (
    *(_comparison(name, "=", "equal to", "7, '7'") for name in ("equal", "equals", "equalsbyfield")),
    _comparison("not_equals", "<>", "different from", "7, 8"),
    *(_comparison(name, ">=", "at least", "'10', 7") for name in ("greateeq", "ge", "gebyfield")),
    *(_comparison(name, ">", "greater than", "'10', 7") for name in ("great", "gt", "gtbyfield")),
    *(_comparison(name, "<=", "at most", "'7', 10") for name in ("lesseq", "le", "lebyfield")),
    *(_comparison(name, "<", "less than", "'7', 10") for name in ("less", "lt", "ltbyfield")),
    _condition(
        "between",
        "value: any, low: any, high: any",
        _between,
        "Whether a value lies between two, both included.",
        "between(7, 1, '7')",
    ),
    _condition(
        "between_not",
        "value: any, low: any, high: any",
        _not_between,
        "Whether a value lies outside two.",
        "between_not(7, 8, 9)",
    ),
    _condition("in", "value: any, other: any, others: any...", _in, "Whether a value is one of some.", "in('7', 7, 8)"),
    _condition(
        "contain", "value: any, other: any, others: any...", _in, "Whether a value is one of some.", "contain('a', 'a', 'b')"
    ),
    _condition(
        "not_contain",
        "value: any, other: any, others: any...",
        _not_in,
        "Whether a value is not one of several.",
        "not_contain('c', 'a', 'b')",
    ),
    _condition(
        "inbyregex",
        "value: any, pattern: string, patterns: string...",
        _in_by_regex,
        "Whether one of some regular expressions is found in a text.",
        "inbyregex('abc', 'x', 'a.c')",
    ),
    _condition("regex", "text: any, pattern: string", regex, "Whether a regular expression is found.", "regex('Hello', '^He')"),
    _condition(
        "dipperregex",
        "text: any, pattern: string",
        regex,
        "Whether a regular expression is found.",
        "dipperregex('Hello', '^He')",
    ),
    _condition(
        "not_regex", "text: any, pattern: string", not_regex, "Whether a regular expression is not found.", "not_regex('a', 'b')"
    ),
    _condition(
        "isnull", "value: any", is_missing, "Whether a value is missing, empty or the word null.", "isnull('')", null=_PLAIN
    ),
    _condition(
        "isnotnull",
        "value: any",
        _negate(is_missing),
        "Whether a value is neither missing, empty nor the word null.",
        "isnotnull('a')",
        null=_PLAIN,
    ),
    _condition("null", "value: any", partial(is_missing, words=()), "Whether a value is missing.", "null(null)", null=_PLAIN),
    _condition(
        "not_null",
        "value: any",
        _negate(partial(is_missing, words=())),
        "Whether a value is not null.",
        "not_null('')",
        null=_PLAIN,
    ),
    _condition(
        "isfieldempty",
        "value: any, unused: any?",
        lambda value, *unused: is_missing(value, words=("",)),
        "Whether a value is missing or empty.",
        "isfieldempty('')",
        null=_PLAIN,
    ),
    _condition("and", "condition: any, others: any...", _logical(_all), "Whether all are true.", "and(true, 'true')"),
    _condition("or", "condition: any, others: any...", _logical(_any), "Whether one is true.", "or(false, 'true')"),
    _condition("not", "condition: any", _logical(pc.invert), "Whether a value is not true.", "not('no')", null="true for null"),
    _condition("true", "condition: any", _logical(lambda x: x), "Whether a value is true, or the word.", "true('true')"),
    LibraryFunction(
        "rsql_convertboolen",
        "value: any",
        "int",
        _one_if_true,
        "1 for true and the word true, else 0.",
        "rsql_convertboolen('true')",
        1,
        null="0 for null",
    ),
)
