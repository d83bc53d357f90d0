"""Stars of a SELECT list: ``*``, ``events.*``, those of lateral views, and the members of a struct, ``source.*``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from etl.api import Finding, Schema, flat_schema, unknown_field
from etl.steps.selecting.statement import SelectStatement, start_offset


def find_star_columns(node: Any, read: SelectStatement, known: Schema) -> Iterator[tuple[str, pa.Field]]:
    """Names that a star gives, and the fields that have their values."""
    without = {name for names in _excepted_names(node, read) for name in names}
    for name, field in _find_starred(node, read, known):
        if not _is_among(name, without):
            yield name, field


def check_star(node: Any, read: SelectStatement, known: Schema) -> Iterator[Finding]:
    """Stars of a value or an unknown struct, and names after EXCEPT that are not there."""
    from sqlglot import exp

    if not isinstance(node, exp.Star | exp.Column):
        yield Finding("bad-sql", "a star is of the table or a struct", hint="name the columns", at=start_offset(node))
        return
    names = [name for name, _ in _find_starred(node, read, known)]
    if not names and not read.written.args.get("laterals"):
        yield unknown_field(f"{'.'.join(_star_path(node))}.*", known, (), start_offset(node))
    for given in _excepted_names(node, read):
        if names and not any(_is_among(name, given) for name in names):
            yield unknown_field(max(given, key=len), pa.schema([(name, pa.null()) for name in names]), (), start_offset(node))


def is_whole_table(node: Any, read: SelectStatement) -> bool:
    """Whether an item of the list is a star of the table, which has its hidden columns."""
    return bool(node.is_star) and _star_path(node) in ((), (read.name.lower(),))


def _find_starred(node: Any, read: SelectStatement, known: Schema) -> Iterator[tuple[str, pa.Field]]:
    """Those of a star without its EXCEPT."""
    path, views = _star_path(node), _view_columns(read)
    of_views = {name for names in views.values() for name in names}
    table = path[0] if path and (path[0] in views or path[0] == read.name.lower()) else None
    prefix = "".join(f"{name}." for name in (path[1:] if table else path))
    for field in flat_schema(known):
        column = field.name.split(".")[0].lower()
        is_of_table = table is None or (column in views[table] if table in views else column not in of_views)
        if is_of_table and field.name.lower().startswith(prefix):
            yield field.name[len(prefix) :], field


def _star_path(node: Any) -> tuple[str, ...]:
    """The names before ``.*``, in lower case."""
    from sqlglot import exp

    return tuple(part.name.lower() for part in node.parts[:-1]) if isinstance(node, exp.Column) else ()


def _excepted_names(node: Any, read: SelectStatement) -> list[set[str]]:
    """The names after EXCEPT in lower case, each as it is written and without the table's name."""
    from sqlglot import exp

    given = [one for star in node.find_all(exp.Star) for one in star.args.get("except_") or star.args.get("except") or ()]
    paths = [".".join(part.name for part in one.parts) if isinstance(one, exp.Column) else one.name for one in given]
    return [{path.lower(), path.lower().removeprefix(f"{read.name.lower()}.")} for path in paths]


def _is_among(name: str, names: set[str]) -> bool:
    """Whether a field or a struct that it is in has one of these names."""
    parts = name.lower().split(".")
    return any(".".join(parts[:end]) in names for end in range(1, len(parts) + 1))


def _view_columns(read: SelectStatement) -> dict[str, set[str]]:
    """Name of a lateral view → its columns, in lower case."""
    aliases = [alias for lateral in read.written.args.get("laterals") or () if (alias := lateral.args.get("alias"))]
    return {alias.name.lower(): {column.name.lower() for column in alias.columns} for alias in aliases}
