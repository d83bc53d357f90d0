"""Conditions of ``DEFINE``: those over the row itself, and comparisons with earlier rows of the match."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etl.sql.columns import Scope
from etl.sql.expressions import call_name, spark_text
from etl.sql.join_conditions import conjuncts
from etl.sql.statements import ScriptError, start


def comparisons_of(node: Any, name: str, known: Mapping[str, str], scope: Scope) -> tuple[list[str], list[str]]:
    """The condition of the variable ``name``: expressions over its own row, and comparisons with other rows. Raises ScriptError.

    ``known``: name of each variable in lower case → its name in the pattern.
    """
    own: list[str] = []
    compared: list[str] = []
    for part in conjuncts(node):
        for one in _alternatives(part):
            if _is_own(one, name, known):
                own.append(f"({spark_text(_without_name(one, name, known), scope)})")
            else:
                compared.append(_comparison(one, name, known, scope))
    return own, compared


def _alternatives(node: Any) -> list[Any]:
    """The comparisons that a condition with OR stands for.

    Of ``LAST(A.x, 1) IS NULL OR …`` the rest: a comparison is true where there is no earlier row. Of ``(LAST(A.x, 1) IS NULL AND
    A.x < B.x) OR A.x < LAST(A.x, 1)`` both comparisons: what is less than the row before is less than those before it.
    """
    from sqlglot import exp

    if not isinstance(node, exp.Or):
        return [node]
    left, right = _without_parentheses(node.this), _without_parentheses(node.expression)
    if _tests_for_no_row(right):
        left, right = right, left
    if _tests_for_no_row(left):
        return list(conjuncts(right))
    if isinstance(left, exp.And):
        rest = [one for one in conjuncts(left) if not _tests_for_no_row(one)]
        if len(rest) == 1 and len(list(conjuncts(left))) == 2 and _goes_on(rest[0], right):
            return [rest[0], right]
    return [node]


def _goes_on(first: Any, further: Any) -> bool:
    """Whether a row is compared with the one before as the first row is with another: with a transitive operator."""
    from sqlglot import exp

    if type(first) is not type(further) or not isinstance(further, (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.EQ)):
        return False
    before = _without_parentheses(further.expression)
    is_before = call_name(before) in ("last", "prev") and bool(before.expressions) and before.expressions[0] == further.this
    return is_before and first.this == further.this


def _without_parentheses(node: Any) -> Any:
    from sqlglot import exp

    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _tests_for_no_row(node: Any) -> bool:
    """Whether a condition is ``LAST(A.x, 1) IS NULL``."""
    from sqlglot import exp

    node = _without_parentheses(node)
    return isinstance(node, exp.Is) and isinstance(node.expression, exp.Null) and call_name(node.this) in ("last", "prev")


def _is_own(node: Any, name: str, known: Mapping[str, str]) -> bool:
    """Whether a condition is over the row itself."""
    from sqlglot import exp

    if any(call_name(one) in ("first", "last", "prev", "next", "sum", "avg", "count", "min", "max") for one in node.walk()):
        return False
    return all(known.get(one.table.lower(), name) == name for one in node.find_all(exp.Column))


def _without_name(node: Any, name: str, known: Mapping[str, str]) -> Any:
    from sqlglot import exp

    node = node.copy()
    for column in list(node.find_all(exp.Column)):
        if known.get(column.table.lower()) == name:
            column.set("table", None)
    return node


_OPERATORS = {"eq": "=", "neq": "<>", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}


def _comparison(node: Any, name: str, known: Mapping[str, str], scope: Scope) -> str:
    operator = _OPERATORS.get(node.key)
    if operator is None:
        raise ScriptError(
            "unsupported-sql",
            f"{node.sql(dialect='spark')[:60]!r} is not a comparison of two columns",
            start(node),
            "a condition on an earlier row is A.x < B.x, A.x < FIRST(B.x) or A.x < LAST(A.x, 1), and AND between them",
        )
    return f"{_operand(node.this, name, known, scope)} {operator} {_operand(node.expression, name, known, scope)}"


def _operand(node: Any, name: str, known: Mapping[str, str], scope: Scope) -> str:
    from sqlglot import exp

    node, call = _without_parentheses(node), call_name(_without_parentheses(node))
    offset = 0
    if call in ("first", "last", "prev") and node.expressions:
        offset = (
            int(node.expressions[1].name)
            if len(node.expressions) == 2 and node.expressions[1].name.isdecimal()
            else call == "prev"
        )
        node = node.expressions[0]
    elif call:
        raise ScriptError(
            "unsupported-sql", f"{call.upper()} cannot be compared with here", start(node), "FIRST, LAST and columns can"
        )
    if not isinstance(node, exp.Column):
        raise ScriptError(
            "unsupported-sql",
            f"{node.sql(dialect='spark')[:60]!r} is computed, and a comparison with an earlier row takes columns",
            start(node),
            "compute it in a sub-query",
        )
    variable = known.get(node.table.lower(), name)
    field = f"{variable}.{scope.find([node.name], start(node)).field}"
    if call == "first" and not offset:
        return f"first({field})"
    if offset == (variable == name):  # the last row of another variable, or the row before of its own
        return f"last({field})" if offset else field
    if call in ("", "last") and variable == name and not offset:
        return field
    raise ScriptError("unsupported-sql", "only the row before and the first one can be compared with", start(node))
