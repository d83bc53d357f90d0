"""Spark SQL conditions, split at ``and``, ``or``, ``not`` into predicates that rules share.

SQL has true, false and null; a rule only needs to know where its condition is true. So ``not`` is moved down to the parts, which
are then evaluated for "is false". A part that fails for an event (such as a cast) counts as null.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from etl.api import Schema, format_type
from etl.expressions import analyse
from etl.rules.conditions.column_types import TEXT_TYPES
from etl.rules.conditions.tree import Condition, Leaf, all_of, any_of, negate
from etl.rules.predicates.families import FAMILIES
from etl.rules.predicates.predicate import SqlBuilder
from etl.rules.predicates.present import Present
from etl.rules.predicates.sql import Sql
from etl.rules.predicates.sql_nodes import compares_text, is_column, text_of
from etl.rules.search.regex_literals import required_literals

MAX_OPERATORS = 5_000
"""Largest number of words `and` and `or` in a condition: each part is analysed alone, which takes milliseconds."""

_JOINS = re.compile(r"\b(?:and|or)\b", re.IGNORECASE)


class BindError(ValueError):
    """A condition cannot be evaluated on these fields."""


def parse_sql_condition(where: str, schema: Schema) -> Condition:
    """The condition that is true where the SQL is. Raises BindError."""
    if (joined := len(_JOINS.findall(where))) > MAX_OPERATORS:
        raise BindError(
            f"it joins {joined + 1:,} parts with `and` and `or`, more than {MAX_OPERATORS:,}; `in`, `rlike` and tables take more"
        )
    analysis = analyse(where, schema)
    if analysis.errors:
        raise BindError("; ".join(finding.message for finding in analysis.findings if finding.severity == "error"))
    if analysis.spark_reason:
        raise BindError(f"it needs Spark, where rules do not run: {analysis.spark_reason}")
    if not analysis.is_condition:
        raise BindError(f"a condition is needed, and {where!r} is {format_type(analysis.type)}")
    from sqlglot.dialects.spark import Spark

    try:
        return _parse(where, list(Spark().tokenize(where)), schema, True)
    except _IndivisibleError:
        return Leaf(Sql(where, tuple(sorted(analysis.fields))))


def column_names(where: str) -> list[str]:
    """The columns of a condition, sorted; none if the condition cannot be parsed."""
    from etl.expressions.tree import BadExpressionError, parse

    try:
        columns: list[Any] = [node for node in parse(where).walk() if is_column(node)]
    except BadExpressionError:
        return []
    return sorted({".".join(part.name for part in column.parts) for column in columns})


class _IndivisibleError(Exception):
    """A part of the text is not a condition by itself."""


def _parse(text: str, tokens: Sequence[Any], schema: Schema, truth: bool) -> Condition:
    """The condition that is true where the SQL of the tokens is true, or, without ``truth``, where it is false."""
    tokens = _strip_brackets(tokens)
    for word, join in (("OR", any_of if truth else all_of), ("AND", all_of if truth else any_of)):
        parts = _split(tokens, word)
        if len(parts) > 1:
            return join(_parse(text, part, schema, truth) for part in parts)
    if tokens and tokens[0].text.upper() == "NOT" and tokens[0].token_type.name == "NOT":
        return _parse(text, tokens[1:], schema, not truth)
    if not tokens:
        raise _IndivisibleError
    return _parse_part(text[tokens[0].start : tokens[-1].end + 1], schema, truth)


_DEPTH_CHANGES = {"L_PAREN": 1, "R_PAREN": -1, "L_BRACKET": 1, "R_BRACKET": -1, "CASE": 1, "END": -1}


def _strip_brackets(tokens: Sequence[Any]) -> Sequence[Any]:
    while len(tokens) > 2 and tokens[0].token_type.name == "L_PAREN" and _find_closing_token(tokens) == len(tokens) - 1:
        tokens = tokens[1:-1]
    return tokens


def _find_closing_token(tokens: Sequence[Any]) -> int:
    """The index of the token that closes the first one, -1 if none does."""
    depth = 0
    for at, token in enumerate(tokens):
        depth += _DEPTH_CHANGES.get(token.token_type.name, 0)
        if depth == 0:
            return at
    return -1


def _split(tokens: Sequence[Any], word: str) -> list[Sequence[Any]]:
    """Split at a word outside of brackets; the ``and`` of a ``between`` does not split."""
    parts, first, depth, between = [], 0, 0, 0
    for at, token in enumerate(tokens):
        name = token.token_type.name
        depth += _DEPTH_CHANGES.get(name, 0)
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


def _parse_part(text: str, schema: Schema, truth: bool) -> Condition:
    """A part without `and`, `or` and `not`: the predicate of a family, else a condition in Spark SQL."""
    from etl.expressions.tree import parse

    analysis = analyse(text, schema)
    if analysis.errors or analysis.spark_reason or not analysis.is_condition:
        raise _IndivisibleError
    fields = tuple(sorted(analysis.fields))
    if len(fields) == 1:
        node, type_ = parse(text), schema.field(fields[0]).type
        condition = _build(node, fields[0], type_)
        if condition is not None:
            return condition if truth else _is_false(condition, fields[0])
        if truth and type(node).__name__ == "RegexpLike" and compares_text(node, type_):
            return Leaf(Sql(text, fields, True, required_literals(str(node.expression.this), "java")))
    return Leaf(Sql(text, fields, truth))


def _build(node: Any, field: str, type_: pa.DataType) -> Condition | None:
    """The condition of a family that evaluates such nodes; None if no family does."""
    kind = type(node).__name__
    if kind == "NEQ":
        equal = _build_first("EQ", node, field, type_)
        return None if equal is None else _is_false(equal, field)
    return _build_call(node, field, type_) if kind == "Anonymous" else _build_first(kind, node, field, type_)


def _build_first(kind: str, node: Any, field: str, type_: pa.DataType) -> Condition | None:
    conditions = (build(node, field, type_) for build in _builders().get(kind, ()))
    return next((one for one in conditions if one is not None), None)


def _build_call(node: Any, field: str, type_: pa.DataType) -> Condition | None:
    """The condition of a call whose first argument is a text column and whose others are constant texts."""
    first, *others = node.expressions or [None]
    texts = [text for other in others if (text := text_of(other)) is not None]
    if not is_column(first) or type_ not in TEXT_TYPES or not texts or len(texts) < len(others):
        return None
    build = next((one.sql_functions[name] for one in FAMILIES if (name := str(node.this).lower()) in one.sql_functions), None)
    return build(field, texts) if build else None


@lru_cache(maxsize=1)
def _builders() -> Mapping[str, Sequence[SqlBuilder]]:
    """Of each kind of node the builders of all families."""
    found: defaultdict[str, list[SqlBuilder]] = defaultdict(list)
    for family in FAMILIES:
        for kind, build in family.sql_nodes.items():
            found[kind].append(build)
    return found


def _is_false(condition: Condition, field: str) -> Condition:
    """Where a condition on a field is false, and not null."""
    if isinstance(condition, Leaf) and isinstance(condition.predicate, Present):
        return negate(condition)
    return all_of([negate(condition), Leaf(Present(field))])
