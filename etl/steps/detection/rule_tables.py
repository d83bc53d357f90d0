"""Rules that are rows of a table: the request for its columns, and the texts of its rows."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from etl.api import ComponentError, LookupTable
from etl.rules.reload.rule_cache import RuleText
from etl.tables.table_file import MappedTable, Shape
from etl.tables.table_store import TableRequest, build_temporary, read_version

_TRIES = 3
"""Attempts: a version that is replaced while it is opened is opened again."""


def request_rules(name: str, table: LookupTable, column: str) -> TableRequest:
    """The request for the rules of a table: their column, by the table's key."""
    columns = pa.schema([(one, table.column(one)) for one in dict.fromkeys([*table.key, column])])
    return TableRequest(name, table, Shape(tuple(table.key), columns))


def read_rule_texts(request: TableRequest, column: str, folder: str | None) -> tuple[RuleText, ...]:
    """The rows of the current version in the order of their keys, named by these. Raises ComponentError when there is none."""
    folder_of_table = build_temporary(request).folder if folder is None else Path(folder) / request.id
    for _ in range(_TRIES):
        known = read_version(folder_of_table)
        if known is None:
            break
        try:
            return _rows(folder_of_table / known.file, known.what.keys, request.name, request.id, request.shape.key, column)
        except FileNotFoundError:
            continue
    raise ComponentError(f"table {request.name!r}: its rows are not there ({folder_of_table})")


@lru_cache(maxsize=8)
def _rows(file: Path, count: int, table: str, origin: str, key: tuple[str, ...], column: str) -> tuple[RuleText, ...]:
    import numpy as np

    name = f"table {table}"
    mapped, rows = MappedTable(file), np.arange(count)
    found = mapped.values(column, rows).to_pylist()
    if column in key:  # texts without a name are one text
        return (RuleText(name, "\n---\n".join(sorted(found)), origin),)
    keys = zip(*(map(str, mapped.values(one, rows).to_pylist()) for one in key), strict=True)
    return tuple(
        RuleText(f"{name}[{', '.join(mine)}]", text, origin) for mine, text in sorted(zip(keys, found, strict=True)) if text
    )
