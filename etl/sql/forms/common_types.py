"""Columns of UNION, INTERSECT and EXCEPT: the type that holds the values of both queries, as Flink derives it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from etl.api import format_type, parse_type, wider
from etl.sql.columns import SqlColumn
from etl.sql.expressions import quoted
from etl.sql.relation import Relation, StepText
from etl.sql.statements import ScriptError

_WHOLE = frozenset(("tinyint", "smallint", "int", "bigint"))


def with_common_types(left: Relation, right: Relation, what: str, at: int, casts_all: bool = False) -> tuple[Relation, Relation]:
    """Both sides, their columns with the types of the result where these are known. A union itself casts to the wider type of its
    inputs, except for whole numbers beside FLOAT, which is FLOAT in Flink. Raises ScriptError for types without one."""
    if left.scope.is_open or right.scope.is_open:
        return left, right
    pairs = [_pair(one, other, what, at) for one, other in zip(left.columns, right.columns, strict=True)]
    return _typed(left, [pair[0] for pair in pairs], at, casts_all), _typed(right, [pair[1] for pair in pairs], at, casts_all)


def _pair(left: SqlColumn, right: SqlColumn, what: str, at: int) -> tuple[SqlColumn, SqlColumn]:
    if left.members or right.members or left.type == right.type:
        return left, right
    if left.type is None or right.type is None:
        return replace(left, type=None), replace(right, type=None)
    type_ = common_type(left.type, right.type)
    if type_ is None:
        message = f"the column {left.name!r} of {what} is {left.type.upper()} in one query and {right.type.upper()} in the other"
        raise ScriptError("union-type-conflict", message, at, "CAST it in one of them: CAST(x AS STRING)")
    return replace(left, type=type_), replace(right, type=type_)


def common_type(left: str, right: str) -> str | None:
    """The least type that has the values of both, None if there is none: of Spark's names of types.

    >>> common_type("int", "decimal(5,2)"), common_type("int", "float"), common_type("int", "string")
    ('decimal(12,2)', 'float', None)
    """
    if left == right:
        return left
    if "float" in (left, right) and {left, right} & _WHOLE:
        return "float"
    try:
        found = wider(parse_type(left), parse_type(right))
    except ValueError:
        return None  # an interval, or TIME
    return None if found is None else format_type(found)


def _typed(relation: Relation, columns: list[SqlColumn], at: int, casts_all: bool) -> Relation:
    """The relation with these types of its columns, cast where the union does not."""
    casts: dict[str, Any] = {
        one.field: f"CAST({quoted(one.field)} AS {str(one.type).upper()})"
        for one, before in zip(columns, relation.columns, strict=True)
        if one.type not in (None, before.type) and (casts_all or (one.type == "float" and before.type in _WHOLE))
    }
    relation = replace(relation, scope=replace(relation.scope, columns=tuple(columns)))
    return relation.then(StepText({"type": "set", "fields": casts}, at)) if casts else relation
