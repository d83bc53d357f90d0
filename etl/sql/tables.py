"""``CREATE TABLE`` → a source with the steps that read its columns, a sink, or a look-up table."""

from __future__ import annotations

import re
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from etl.api import HIDDEN, Component
from etl.sql.columns import Scope, SqlColumn, TimeAttribute, column_of, field_name, leaves
from etl.sql.expressions import quoted, seconds_of, spark_text
from etl.sql.relation import Relation, StepText
from etl.sql.statements import Column, CreateTable, ScriptError, Watermark, start
from etl.sql.table_options.datagen import generated_columns
from etl.sql.table_options.kafka_keys import MARK_REMOVED, MessageKeys, message_keys
from etl.sql.table_options.metadata import metadata_columns
from etl.sql.table_options.options import Options, option_names
from etl.sql.table_options.rsql_syslog import rsql_syslog_steps

_NAMED_FORMAT = re.compile(r"\.(csv|tsv|parquet|jsonl?|ndjson)(\.(gz|bz2|zst))?$")
"""Endings of look-up files that say which format a file has; with names of rsqldb or Flink any other file is JSON lines."""


def with_declared_key(table: CreateTable) -> CreateTable:
    """The table whose key has the names of its columns as they are declared: letters of names are small or capital."""
    names = {column.name.lower(): column.name for column in table.columns}
    return replace(table, primary_key=tuple(names.get(name.lower(), name) for name in table.primary_key))


def check_columns(table: CreateTable) -> None:
    """Each name is that of one column, and the key is of columns of the table. Raises ScriptError."""
    names: set[str] = set()
    for column in table.columns:
        if column.name.lower() in names:
            raise ScriptError(
                "duplicate-column", f"the table has two columns {column.name!r}", column.at, "give one another name"
            )
        names.add(column.name.lower())
    unknown = next((name for name in table.primary_key if name.lower() not in names), None)
    if unknown is not None and names:
        near = get_close_matches(unknown, [column.name for column in table.columns], 1)
        hint = f"is {near[0]!r} meant?" if near else f"the columns are {', '.join(column.name for column in table.columns)}"
        raise ScriptError("unknown-field", f"PRIMARY KEY: the table {table.name!r} has no column {unknown!r}", table.at, hint)


_NO_TIMES = frozenset(
    {"int", "bigint", "smallint", "tinyint", "double", "float", "boolean", "string", "date", "binary", "decimal"}
)


def check_watermark(table: CreateTable) -> None:
    """The watermark is of a column that can be a time. Raises ScriptError."""
    if table.watermark is None or not table.columns or table.like:
        return
    name = table.watermark.column
    column = next((one for one in table.columns if one.name.lower() == name.split(".")[0].lower()), None)
    if column is None:
        names = [one.name for one in table.columns]
        near = get_close_matches(name, names, 1)
        hint = f"is {near[0]!r} meant?" if near else f"the columns are {', '.join(names)}"
        raise ScriptError(
            "unknown-field", f"WATERMARK: the table {table.name!r} has no column {name!r}", table.watermark.at, hint
        )
    type_ = str(column_of(name, name, column.type).type) if column.type is not None and "." not in name else ""
    if type_.split("(")[0] in _NO_TIMES:
        computed = f"{name}_time AS TO_TIMESTAMP{'_LTZ(' + name + ', 3)' if 'int' in type_ else '(' + name + ')'}"
        hint = f"add a column {computed}, and WATERMARK FOR {name}_time AS {name}_time - INTERVAL '5' SECOND"
        raise ScriptError(
            "wrong-type", f"WATERMARK is of a TIMESTAMP(3), and {name!r} is {type_.upper()}", table.watermark.at, hint
        )


def declared_columns(table: CreateTable) -> tuple[SqlColumn, ...]:
    """The columns with a type, without those that are computed or only read."""
    found = []
    for column in table.columns:
        if column.type is not None and not column.is_virtual:
            found.append(column_of(column.name, column.name, column.type))
    return tuple(found)


def _readable(column: SqlColumn) -> SqlColumn:
    """A column whose name is that of a hidden field is read into a field with another name."""
    return column if column.members else replace(column, field=field_name(column.field))


def source_relation(table: CreateTable, name: str, options: Options, source: type[Component]) -> tuple[dict[str, Any], Relation]:
    """Further options of the source, and the rows of the table, which reads the source of this name: one that takes its fields as
    an option gets the columns, any other gives a text, which a format reads. Raises ScriptError."""
    read: dict[str, Any] = {}
    metadata, filled = metadata_columns(table, options, read)
    of_metadata = {column.name for column in metadata}
    columns = tuple(_readable(column) for column in declared_columns(table) if column.name not in of_metadata)
    if not columns and not metadata and options.kind == "own" and not table.columns:
        return {}, _open_relation(table, name)
    if not columns:
        raise ScriptError(
            "missing-option",
            f"the table {table.name!r} declares no columns",
            table.at,
            "name them with their types: (a STRING, …)",
        )
    fields = {leaf.field: str(leaf.type) for column in columns for leaf in leaves(column)}
    more: dict[str, Any] = read
    steps: list[StepText] = []
    if options.kind == "rsql" and options.type == "rocketmq":
        headers = {column.name for column in table.columns if column.metadata is not None}
        steps += _header_steps(more, {name: fields.pop(name) for name in headers & fields.keys()}, table.at)
    if "fields" in option_names(source):
        more["fields"] = fields
    elif options.kind == "rsql" and options.type == "syslog":
        steps += rsql_syslog_steps(table, fields)
    elif (keys := message_keys(table, options)) is not None and keys.reads_key:
        more |= keys.source_options
        steps += _keyed_steps(table, options, keys, fields)
        last = keys.last_rows([*fields, *(column.name for column in metadata)], table.at) if keys.is_upsert else []
        filled += last
    else:
        steps = _reading_steps(table, options, fields) + steps
        if options.type == "generate" and options.kind == "flink":
            template, numbering = generated_columns(table, options, fields)
            more |= template
            steps += numbering
    is_changing = any(step.options["type"] == "changelog" or "changelog" in step.options for step in (*steps, *filled))
    changes = table.at if is_changing else None
    order = {column.name: at for at, column in enumerate(table.columns)}
    columns = tuple(sorted((*columns, *metadata), key=lambda column: order[column.name]))
    relation = Relation((name,), (*steps, *filled), Scope(columns).qualified(table.name), None, changes, is_exact=not metadata)
    for column in table.columns:
        if column.expression is not None:
            relation = _with_computed(relation, column, table.name)
    return more, _with_watermark(relation, table.watermark) if table.watermark else relation


def _open_relation(table: CreateTable, name: str) -> Relation:
    """The rows of a table without columns. Its watermark is of a field that the source or a later step gives."""
    mark = table.watermark
    columns: tuple[SqlColumn, ...] = ()
    if mark is not None:
        columns = (SqlColumn(mark.column, mark.column, "timestamp", TimeAttribute(_lateness(mark))),)
    return Relation((name,), (), Scope(columns, is_open=True).qualified(table.name), is_exact=False)


def _header_steps(more: dict[str, Any], headers: dict[str, str], at: int) -> list[StepText]:
    """rsqldb's ``name type HEADER``: a property of the message, which the source gives as text."""
    if not headers:
        return []
    more["property_fields"] = {name: name for name in sorted(headers)}
    types = {name: type_ for name, type_ in sorted(headers.items()) if type_ != "string"}
    return [StepText({"type": "convert", "fields": types}, at)] if types else []


def _reading_steps(table: CreateTable, options: Options, fields: dict[str, str]) -> list[StepText]:
    format_ = options.texts.get("format") or options.texts.get("value.format") or options.texts.get("format.type")
    if options.type == "http":  # whose format is what senders send
        format_ = "raw" if format_ == "text" else "json"
    delimiter = options.texts.get("fieldDelimiter") or options.texts.get("csv.field-delimiter")
    if (
        format_ is None
        and options.kind == "rsql"
        and delimiter is not None
        and (options.texts.get("isJsonData") or "").lower() != "true"
    ):
        format_ = "csv"
    if format_ is None and options.kind == "rsql" and (options.texts.get("isJsonData") or "true").lower() == "false":
        format_ = "raw"
    if format_ in (None, "json"):
        encoded = [name for name, type_ in fields.items() if type_ == "binary" and options.kind == "flink"]
        fields = fields | dict.fromkeys(encoded, "string")
        decoded = StepText({"type": "set", "fields": {name: f"unbase64({quoted(name)})" for name in encoded}}, table.at)
        paths = {field_name(name): name for name in HIDDEN if field_name(name) in fields and _declares(table, name)}
        read_json: dict[str, Any] = {"type": "json", "fields": fields}
        return [StepText(read_json | ({"paths": paths} if paths else {}), table.at), *([decoded] if encoded else [])]
    if format_ == "debezium-json":
        return _debezium_steps(table, options, fields)
    if format_ == "csv":
        read: dict[str, Any] = {"type": "csv", "names": list(fields), "fields": fields}
        return [StepText(read | ({"delimiter": delimiter} if delimiter else {}), table.at)]
    if format_ in ("raw", "text"):
        if list(fields.values()) != ["string"]:
            raise ScriptError("invalid-value", f"the format {format_!r} gives one column of type STRING", table.at)
        [name] = fields
        return [StepText({"type": "rename", "fields": {"message": name}}, table.at)] if name != "message" else []
    at = next((one.value_at for one in table.options if one.value == format_ and "format" in one.name), options.at)
    raise ScriptError("invalid-value", f"there is no format {format_!r}", at, "'json', 'debezium-json', 'csv' or 'raw'")


def _keyed_steps(table: CreateTable, options: Options, keys: MessageKeys, fields: dict[str, str]) -> list[StepText]:
    """Steps that read columns from keys of messages, and others from their values."""
    steps = [StepText({"type": "set", "fields": MARK_REMOVED}, table.at)] if keys.is_upsert else []
    values = {name: type_ for name, type_ in fields.items() if name not in keys.fields}
    steps += keys.key_steps(fields, table.at)
    return steps + (_reading_steps(table, options, values) if values else [])


def _debezium_steps(table: CreateTable, options: Options, fields: dict[str, str]) -> list[StepText]:
    """Messages with a row before and after each change → a changelog. A message without a value, which follows one that removes
    a row, says nothing."""
    rows = {f"{row}.{name}": type_ for row in ("before", "after") for name, type_ in fields.items()}
    read: dict[str, Any] = {"type": "json", "fields": {"op": "string", **rows}}
    if options.texts.get("debezium-json.schema-include", "false").lower() == "true":
        read["paths"] = {name: f"payload.{name}" for name in read["fields"]}
    changes: dict[str, Any] = {"type": "changelog"} | ({"key": list(table.primary_key)} if table.primary_key else {})
    steps = [{"type": "filter", "where": "message is not null"}, read, changes]
    return [StepText(step, table.at) for step in steps]


def _declares(table: CreateTable, name: str) -> bool:
    return any(column.name == name for column in table.columns)


def is_processing_time(node: Any) -> bool:
    """Whether an expression is ``PROCTIME()``."""
    return node.key == "anonymous" and str(node.name).lower() == "proctime"


def _with_computed(relation: Relation, column: Column, table: str) -> Relation:
    node = column.expression
    if is_processing_time(node):
        added = SqlColumn(column.name, "", "timestamp", TimeAttribute(), qualifier=table)
        return relation.then(scope=Scope((*relation.columns, added)))
    assert node is not None
    text = spark_text(node, relation.scope)
    step = StepText(
        {"type": "set", "fields": {column.name: text}}, column.at, {("fields", column.name): start(node) or column.at}
    )
    added = SqlColumn(column.name, column.name, qualifier=table)
    return relation.then(step, scope=Scope((*relation.columns, added)))


def _with_watermark(relation: Relation, watermark: Watermark) -> Relation:
    column = relation.scope.find(watermark.column.split("."), watermark.at)
    late = _lateness(watermark)
    marked = (
        SqlColumn(one.name, one.field, one.type, TimeAttribute(late), one.members, one.qualifier) if one is column else one
        for one in relation.columns
    )
    return relation.then(scope=Scope(tuple(marked)))


def _lateness(watermark: Watermark) -> float:
    """Seconds between the column and the watermark."""
    from sqlglot import exp

    node = watermark.expression
    if isinstance(node, exp.Sub) and isinstance(node.this, (exp.Column, exp.Dot)):
        return seconds_of(node.expression)
    if isinstance(node, exp.Anonymous) and str(node.name).lower() == "withoffset" and len(node.expressions) == 2:
        return seconds_of(node.expressions[1])
    if isinstance(node, (exp.Column, exp.Dot)):
        return 0
    raise ScriptError(
        "unsupported-sql",
        "a watermark is the column, or the column less a constant time",
        watermark.at,
        "write t - INTERVAL '5' SECOND",
    )


def sink_options(table: CreateTable, options: Options) -> dict[str, Any]:
    """Further options of a sink: the key of rows that replace each other, the format of files."""
    more: dict[str, Any] = {}
    for column in table.columns:
        if column.metadata is not None and not column.is_virtual and options.kind == "flink":
            raise ScriptError(
                "unsupported-sql", f"the metadata {column.metadata!r} is not written", column.at, "declare the column VIRTUAL"
            )
    if options.type == "database" and table.primary_key and ("mode",) not in options.values:
        more |= {"mode": "upsert", "key": list(table.primary_key)}
    if options.type == "elasticsearch" and table.primary_key and ("id",) not in options.values:
        more |= {"id": list(table.primary_key)} | ({} if ("action",) in options.values else {"action": "index"})
    if options.type == "kafka":
        more |= _message_options(table, options)
    if options.type == "file" and (format_ := options.texts.get("format")):
        more |= {"changes": "debezium"} if format_ == "debezium-json" else {"format": format_}
    return more


def _message_options(table: CreateTable, options: Options) -> dict[str, Any]:
    """The options of the key and of the format of messages. Raises ScriptError."""
    keys = message_keys(table, options)
    key: dict[str, Any] = {"key": list(table.primary_key)} if table.primary_key else {}
    given = keys.sink_options() if keys else key
    more = {name: value for name, value in given.items() if (name,) not in options.values}
    format_ = next((one for one in table.options if one.name in ("format", "value.format")), None)
    if options.kind == "flink" and format_ is not None and format_.value == "debezium-json":
        more["changes"] = "debezium"
    elif options.kind == "flink" and format_ is not None and format_.value != "json":
        hint = "write 'json'; 'debezium-json' writes each change, and 'connector' = 'upsert-kafka' the last row of each key"
        raise ScriptError("invalid-value", f"messages are not written as {format_.value!r}", format_.value_at, hint)
    return more


def lookup_options(table: CreateTable, options: Options, keys: list[str]) -> dict[str, Any]:
    """Further options of a look-up table: its key and its columns."""
    more: dict[str, Any] = {"key": keys[0] if len(keys) == 1 else keys}
    names = [column.name for column in declared_columns(table)]
    types = {column.name: str(column.type) for column in declared_columns(table)}
    if options.type == "file":
        more |= _file_format(options, names) if names else {}
    if names or options.kind != "own":
        more["columns"] = {name: types[name] for name in names}
    return more


def _file_format(options: Options, names: list[str]) -> dict[str, Any]:
    """The format of a look-up file: CSV by ``format`` or rsqldb's delimiter, else JSON unless its ending names another."""
    delimiter = options.texts.get("fieldDelimiter") or options.texts.get("csv.field-delimiter")
    is_text = options.kind == "rsql" and options.texts.get("isJsonData", "true").lower() == "false"
    if is_text or options.texts.get("format") == "csv":
        return {"header": names} | ({"format": "csv"} if is_text else {}) | ({"delimiter": delimiter} if delimiter else {})
    path = str(options.values.get(("path",), ("",))[0])
    return {} if options.kind == "own" or _NAMED_FORMAT.search(path.lower()) else {"format": "json"}


def fields_of(columns: tuple[SqlColumn, ...]) -> list[str]:
    """The fields that hold columns."""
    return [quoted(leaf.field) for column in columns for leaf in leaves(column) if leaf.field]
