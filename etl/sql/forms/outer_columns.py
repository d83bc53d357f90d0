"""Columns of the query around another one, in parts of that one where they cannot stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from etl.sql.columns import Scope
from etl.sql.forms.subqueries import is_over, own_columns
from etl.sql.statements import ScriptError, start


def refuse_correlated(parts: Iterable[Any], inner: Scope, around: Scope) -> None:
    """Raises ScriptError for a column of the query around one with groups or LIMIT; one that neither has is reported later."""
    for column, text in _outer_columns(parts, inner, around):
        message = f"{text!r} is a column of the query around this one, which has groups, HAVING or LIMIT"
        hint = "join the tables and GROUP BY, or compare with a query as a value, as in x = (SELECT max(y) …)"
        raise ScriptError("unsupported-sql", message, start(column), hint)


def refuse_outer_results(items: Iterable[Any], inner: Scope, around: Scope) -> None:
    """Raises ScriptError for such a column in the list of SELECT."""
    for column, text in _outer_columns(items, inner, around):
        message = f"{text!r} is a column of the query around this one, whose SELECT takes columns of its own tables"
        hint = "compare both in its WHERE: EXISTS (SELECT 1 FROM … WHERE …); or compute it outside of this query"
        raise ScriptError("unsupported-sql", message, start(column), hint)


def _outer_columns(parts: Iterable[Any], inner: Scope, around: Scope) -> Iterator[tuple[Any, str]]:
    for column in (one for part in parts for one in own_columns(part)):
        if not is_over(column, inner) and is_over(column, around):
            yield column, column.sql(dialect="spark")
