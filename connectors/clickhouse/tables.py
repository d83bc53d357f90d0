"""What ClickHouse says of a table: its columns, and whether it recognises blocks that are inserted again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from connectors.clickhouse.errors import describe_error, error_code, handling_of
from connectors.http.client import Client, shared_client
from connectors.http.connection_settings import ConnectionSettings
from connectors.http.statuses import Statuses
from etl.api import ComponentError, Finding, Schema, closest

ACCESS_DENIED = 497

_DEFAULT_WINDOWS = {"non_replicated_deduplication_window": 0, "replicated_deduplication_window": 1000}
"""Blocks that a table remembers where the server does not tell its settings: defaults of the oldest versions in use."""

_READ_ONLY_KINDS = ("ALIAS", "MATERIALIZED")


def quote_name(name: str) -> str:
    """Return an identifier in SQL."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def quote_table(table: str) -> str:
    """Return ``table`` or ``database.table`` in SQL."""
    return ".".join(map(quote_name, table.split(".")))


def query_rows(client: Client, statuses: Statuses, sql: str) -> list[dict[str, Any]]:
    """Return the rows of a query. Raises OSError for an error that passes, ComponentError for another."""
    response = client.request("POST", "/?default_format=JSONEachRow", sql.encode(), "text/plain")
    handling = handling_of(response) or statuses.handling(response.status)
    if handling == "retry":
        raise ConnectionError(response.describe())
    if handling != "done":
        raise QueryError(f"{response.server}: {describe_error(response)}", error_code(response))
    try:
        return [json.loads(line) for line in response.body.splitlines()]
    except ValueError as error:
        raise ComponentError(f"{response.server} answers {response.excerpt(100)!r}: it is not ClickHouse") from error


class QueryError(ComponentError):
    """ClickHouse refuses a query."""

    def __init__(self, text: str, code: int | None) -> None:
        super().__init__(text)
        self.code = code


def read_columns(client: Client, statuses: Statuses, table: str) -> dict[str, str]:
    """Return the columns that can be written, with their types."""
    rows = query_rows(client, statuses, f"DESCRIBE TABLE {quote_table(table)}")
    if not all("name" in row for row in rows):
        raise ComponentError("the server's description of a table has no names: it is not ClickHouse")
    return {row["name"]: row.get("type", "") for row in rows if row.get("default_type") not in _READ_ONLY_KINDS}


@lru_cache(maxsize=64)
def shared_columns(settings: ConnectionSettings, statuses: Statuses, table: str) -> Mapping[str, str]:
    """Return the columns, which this process reads once."""
    return read_columns(shared_client(settings), statuses, table)


def match_columns(fields: Schema, requested: Mapping[str, str] | None, columns: Mapping[str, str]) -> dict[str, str]:
    """Return the column of each field that has one: that in ``requested``, else of the same name, dots also as underscores."""
    if requested is not None:
        return {field: column for field, column in requested.items() if column in columns and field in fields.names}
    names = {name: name if name in columns else name.replace(".", "_") for name in fields.names}
    return {field: column for field, column in names.items() if column in columns}


def check_columns(
    fields: Schema, requested: Mapping[str, str] | None, columns: Mapping[str, str], table: str
) -> Iterator[Finding]:
    """Yield a finding for each field without a column."""
    found = match_columns(fields, requested, columns)
    for name in requested or fields.names:
        if name in found or name not in fields.names:
            continue
        column = requested[name] if requested else name
        what = f"table {table!r} has no column {column!r} that can be written"
        near = closest(column, columns)
        hint = f"did you mean {near!r}?" if near else f"ALTER TABLE {table} ADD COLUMN, or drop the field before the sink"
        yield Finding("unknown-column", what, ("columns", name) if requested else ("table",), hint)


def find_forgetting(client: Client, statuses: Statuses, table: str) -> str | None:
    """Return why the table does not recognise blocks that are inserted again; None if it does."""
    database, _, name = table.rpartition(".")
    where = f"database = {_text(database) if database else 'currentDatabase()'} AND name = {_text(name)}"
    rows = query_rows(client, statuses, f"SELECT engine, engine_full FROM system.tables WHERE {where}")
    if not rows:
        return f"system.tables does not show table {table!r} to this user"
    engine, full = rows[0].get("engine", ""), rows[0].get("engine_full", "")
    if not engine.endswith("MergeTree"):
        return f"table {table!r} is of engine {engine}, which does not recognise blocks"
    is_replicated = engine.startswith(("Replicated", "Shared"))
    setting = "replicated_deduplication_window" if is_replicated else "non_replicated_deduplication_window"
    own = re.search(rf"\b{setting} = '?(\d{{1,18}})", full)
    window = int(own[1]) if own else _default_window(client, statuses, setting, is_replicated)
    if window:
        return None
    return f"{setting} of table {table!r} is 0: ALTER TABLE {table} MODIFY SETTING {setting} = 10000"


def _default_window(client: Client, statuses: Statuses, setting: str, is_replicated: bool) -> int:
    system = "system.replicated_merge_tree_settings" if is_replicated else "system.merge_tree_settings"
    try:
        rows = query_rows(client, statuses, f"SELECT value FROM {system} WHERE name = {_text(setting)}")
    except QueryError as error:
        if error.code != ACCESS_DENIED:
            raise
        rows = []
    return int(rows[0]["value"]) if rows else _DEFAULT_WINDOWS[setting]


def _text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
