"""Spark SQL conditions in front of a schema: taken apart at ``and``, ``or``, ``not`` into predicates that rules share.

SQL knows true, false and null. A condition here is only asked whether it is true; so ``not`` is moved down to the parts,
where "is false" is asked for. A part that cannot be computed for an event (a cast that fails) counts as null.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from etl.api import Schema, format_type
from etl.expressions import analyse
from etl.rules.conditions.column_types import TEXTS
from etl.rules.conditions.predicates import Network, Number, Order, Present, Sql, Text, TextKind
from etl.rules.conditions.tree import Condition, Leaf, both, either, opposite
from etl.rules.search.regex_literals import required

MOST_JOINED = 5_000
"""Words `and` and `or` of a condition: each part is analysed alone, which takes milliseconds."""

_JOINS = re.compile(r"\b(?:and|or)\b", re.IGNORECASE)


class BindError(ValueError):
    """A rule cannot be decided in front of these fields."""


def sql_condition(where: str, schema: Schema) -> Condition:
    """Where the text is true. Raises BindError."""
    if (joined := len(_JOINS.findall(where))) > MOST_JOINED:
        raise BindError(
            f"it joins {joined + 1:,} parts with `and` and `or`, more than {MOST_JOINED:,}; `in`, `rlike` and tables take more"
        )
    analysis = analyse(where, schema)
    if analysis.errors:
        raise BindError("; ".join(finding.message for finding in analysis.findings if finding.severity == "error"))
    if analysis.spark_reason:
        raise BindError(f"it needs Spark, where rules do not run: {analysis.spark_reason}")
    if analysis.type not in (pa.bool_(), pa.null()):
        raise BindError(f"a condition is needed, and {where!r} is {format_type(analysis.type)}")
    from sqlglot.dialects.spark import Spark

    try:
        return _read(where, list(Spark().tokenize(where)), schema, True)
    except _NotApartError:
        return Leaf(Sql(where, tuple(sorted(analysis.fields))))


def names_in(where: str) -> list[str]:
    """The fields that a condition names, in order; none of one that cannot be read."""
    from etl.expressions.tree import BadExpressionError, parse

    try:
        columns: list[Any] = [node for node in parse(where).walk() if type(node).__name__ == "Column"]
    except BadExpressionError:
        return []
    return sorted({".".join(part.name for part in column.parts) for column in columns})


class _NotApartError(Exception):
    """A part that means nothing on its own."""


def _read(text: str, tokens: Sequence[Any], schema: Schema, truth: bool) -> Condition:
    tokens = _without_brackets(tokens)
    for word, join in (("OR", either if truth else both), ("AND", both if truth else either)):
        parts = _split(tokens, word)
        if len(parts) > 1:
            return join(_read(text, part, schema, truth) for part in parts)
    if tokens and tokens[0].text.upper() == "NOT" and tokens[0].token_type.name == "NOT":
        return _read(text, tokens[1:], schema, not truth)
    if not tokens:
        raise _NotApartError
    return _part(text[tokens[0].start : tokens[-1].end + 1], schema, truth)


_DEEPER = {"L_PAREN": 1, "R_PAREN": -1, "L_BRACKET": 1, "R_BRACKET": -1, "CASE": 1, "END": -1}


def _without_brackets(tokens: Sequence[Any]) -> Sequence[Any]:
    while len(tokens) > 2 and tokens[0].token_type.name == "L_PAREN" and _closing(tokens) == len(tokens) - 1:
        tokens = tokens[1:-1]
    return tokens


def _closing(tokens: Sequence[Any]) -> int:
    depth = 0
    for at, token in enumerate(tokens):
        depth += _DEEPER.get(token.token_type.name, 0)
        if depth == 0:
            return at
    return -1


def _split(tokens: Sequence[Any], word: str) -> list[Sequence[Any]]:
    """Parts between words outside of brackets; the ``and`` of a ``between`` is none."""
    parts, first, depth, between = [], 0, 0, 0
    for at, token in enumerate(tokens):
        name = token.token_type.name
        depth += _DEEPER.get(name, 0)
        if depth:
            continue
        between += name == "BETWEEN"
        if name == "AND" and between:
            between -= 1
        elif name == word:
            parts.append(tokens[first:at])
            first = at + 1
    return [*parts, tokens[first:]]


# ── Parts ─────────────────────────────────────────────────────────────────────────────────────────


def _part(text: str, schema: Schema, truth: bool) -> Condition:
    from etl.expressions.tree import parse

    analysis = analyse(text, schema)
    if analysis.errors or analysis.spark_reason or analysis.type not in (pa.bool_(), pa.null()):
        raise _NotApartError
    fields = tuple(sorted(analysis.fields))
    if len(fields) == 1:
        node = parse(text)
        build = _SIMPLE.get(type(node).__name__)
        made = build(node, fields[0], schema.field(fields[0]).type) if build else None
        if made is not None:
            return made if truth else _false(made, fields[0])
        if truth and type(node).__name__ == "RegexpLike" and _on_text(node, schema.field(fields[0]).type):
            return Leaf(Sql(text, fields, True, required(str(node.expression.this), "java")))
    return Leaf(Sql(text, fields, truth))


def _false(condition: Condition, field: str) -> Condition:
    """Where a condition on a field is false, and not null."""
    if isinstance(condition, Leaf) and isinstance(condition.predicate, Present):
        return opposite(condition)
    return both([opposite(condition), Leaf(Present(field))])


def _on_text(node: Any, type_: pa.DataType) -> bool:
    return type(node.this).__name__ == "Column" and type_ in TEXTS and _string(node.expression) is not None


def _string(node: Any) -> str | None:
    literal = type(node).__name__ == "Literal" and node.args.get("is_string")
    return str(node.this) if literal else None


def _equal(node: Any, field: str, type_: pa.DataType) -> Condition | None:
    if _on_text(node, type_):
        return Leaf(Text(field, "equals", str(node.expression.this), True))
    return _ordered("=")(node, field, type_)


def _unequal(node: Any, field: str, type_: pa.DataType) -> Condition | None:
    equal = _equal(node, field, type_)
    return None if equal is None else _false(equal, field)


def _ordered(order: Order) -> Callable[[Any, str, pa.DataType], Condition | None]:
    def build(node: Any, field: str, type_: pa.DataType) -> Condition | None:
        value = node.expression
        whole = type(value).__name__ == "Literal" and not value.args.get("is_string") and str(value.this).isdigit()
        if type(node.this).__name__ != "Column" or not whole or not pa.types.is_integer(type_):
            return None
        return Leaf(Number(field, order, int(value.this))) if int(value.this) < 1 << 31 else None

    return build


def _one_of(node: Any, field: str, type_: pa.DataType) -> Condition | None:
    items = [_string(item) for item in node.expressions]
    if type(node.this).__name__ != "Column" or type_ not in TEXTS or not items or None in items:
        return None
    return either(Leaf(Text(field, "equals", item, True)) for item in items if item is not None)


_SHAPES: Mapping[tuple[bool, bool], TextKind] = {
    (False, False): "equals",
    (False, True): "startswith",
    (True, False): "endswith",
    (True, True): "contains",
}


def _like(node: Any, field: str, type_: pa.DataType) -> Condition | None:
    if not _on_text(node, type_):
        return None
    pattern = str(node.expression.this)
    inner = pattern.removeprefix("%").removesuffix("%")
    if not inner or any(sign in inner for sign in "%_\\"):
        return None
    return Leaf(Text(field, _SHAPES[pattern.startswith("%"), pattern.endswith("%")], inner, True))


def _is_null(node: Any, field: str, type_: pa.DataType) -> Condition | None:
    plain = type(node.this).__name__ == "Column" and type(node.expression).__name__ == "Null"
    return Leaf(Present(field), negated=True) if plain else None


def _call(node: Any, field: str, type_: pa.DataType) -> Condition | None:
    first, *others = node.expressions or [None]
    texts = [_string(other) for other in others]
    if type(first).__name__ != "Column" or type_ not in TEXTS or not texts or None in texts:
        return None
    name = str(node.this).lower()
    if name == "ip_in":
        return either(Leaf(Network(field, text)) for text in texts if text is not None)
    if name in ("contains", "startswith", "endswith") and len(texts) == 1 and texts[0]:
        return Leaf(Text(field, name, texts[0], True))  # type: ignore[arg-type]
    return None


_SIMPLE: Mapping[str, Callable[[Any, str, pa.DataType], Condition | None]] = {
    "EQ": _equal,
    "NEQ": _unequal,
    "LT": _ordered("<"),
    "LTE": _ordered("<="),
    "GT": _ordered(">"),
    "GTE": _ordered(">="),
    "In": _one_of,
    "Like": _like,
    "Is": _is_null,
    "Anonymous": _call,
}
