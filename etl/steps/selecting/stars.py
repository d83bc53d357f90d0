"""Stars of a SELECT list: ``*``, ``events.*``, those of lateral views, and the members of a struct, ``source.*``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from etl.api import Finding, unknown_field
from etl.steps.selecting.scope import Column, Scope
from etl.steps.selecting.statement import start_offset


def find_star_columns(node: Any, scope: Scope) -> Iterator[tuple[str, Column]]:
    """Names that a star gives, and the columns that have their values."""
    without = {name for names in _excepted_names(node, scope) for name in names}
    for name, column in _find_starred(node, scope):
        if not _is_among(name, without):
            yield name, column


def check_star(node: Any, scope: Scope) -> Iterator[Finding]:
    """Stars of a value or an unknown struct, and names after EXCEPT that are not there."""
    from sqlglot import exp

    if not isinstance(node, exp.Star | exp.Column):
        yield Finding("bad-sql", "a star is of the table or a struct", hint="name the columns", at=start_offset(node))
        return
    names = [name for name, _ in _find_starred(node, scope)]
    if not names and not (scope.views and _is_unknown(scope)):
        yield unknown_field(f"{'.'.join(_star_path(node))}.*", scope.events, (), start_offset(node))
    for given in _excepted_names(node, scope):
        if names and not any(_is_among(name, given) for name in names):
            yield unknown_field(max(given, key=len), pa.schema([(name, pa.null()) for name in names]), (), start_offset(node))


def _is_unknown(scope: Scope) -> bool:
    """Whether only Spark knows the type, and so the members, of a column of a lateral view."""
    return any(pa.types.is_null(type_) for view in scope.views for _, type_ in view.call.columns())


def _find_starred(node: Any, scope: Scope) -> Iterator[tuple[str, Column]]:
    """Those of a star without its EXCEPT."""
    path = _star_path(node)
    table = path[0] if path and (path[0] in [view.table for view in scope.views] or path[0] == scope.read.name.lower()) else None
    prefix = "".join(f"{name}." for name in (path[1:] if table else path))
    for column in scope.columns():
        if table in (None, column.table) and column.name.lower().startswith(prefix):
            yield column.name[len(prefix) :], column


def _star_path(node: Any) -> tuple[str, ...]:
    """The names before ``.*``, in lower case."""
    from sqlglot import exp

    return tuple(part.name.lower() for part in node.parts[:-1]) if isinstance(node, exp.Column) else ()


def _excepted_names(node: Any, scope: Scope) -> list[set[str]]:
    """The names after EXCEPT in lower case, each as it is written and without the table's name."""
    from sqlglot import exp

    given = [one for star in node.find_all(exp.Star) for one in star.args.get("except_") or star.args.get("except") or ()]
    paths = [".".join(part.name for part in one.parts) if isinstance(one, exp.Column) else one.name for one in given]
    return [{path.lower(), path.lower().removeprefix(f"{scope.read.name.lower()}.")} for path in paths]


def _is_among(name: str, names: set[str]) -> bool:
    """Whether a field or a struct that it is in has one of these names."""
    parts = name.lower().split(".")
    return any(".".join(parts[:end]) in names for end in range(1, len(parts) + 1))
