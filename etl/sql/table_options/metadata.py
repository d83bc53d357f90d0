"""Columns with METADATA: what a source tells about a message beside its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from etl.sql.columns import SqlColumn, column_of
from etl.sql.expressions import quoted
from etl.sql.relation import StepText
from etl.sql.statements import CreateTable, ScriptError
from etl.sql.table_options.options import Options


@dataclass(frozen=True)
class _Metadata:
    """Options of the source that give it, and the expression of its value."""

    options: Mapping[str, Any]
    text: str


_KAFKA = {name: _Metadata({"metadata": True}, f"kafka.{name}") for name in ("topic", "partition", "offset", "timestamp")}
_ROCKETMQ = {
    "topic": _Metadata({"metadata": True}, "rocketmq.topic"),
    "queue-id": _Metadata({"metadata": True}, "rocketmq.queue"),
    "offset": _Metadata({"metadata": True}, "rocketmq.offset"),
    "timestamp": _Metadata({"metadata": True}, "rocketmq.born"),
    "tag": _Metadata({"tag_field": "rocketmq.tag"}, "rocketmq.tag"),
    "keys": _Metadata({"keys_field": "rocketmq.keys"}, "rocketmq.keys"),
}
_FILE = {
    "file.path": _Metadata({"path_field": "file.path"}, "file.path"),
    "file.name": _Metadata({"path_field": "file.path"}, "substring_index(file.path, '/', -1)"),
}


def _plain_fields(*fields: str) -> dict[str, _Metadata]:
    """Fields that a source gives without an option."""
    return {name: _Metadata({}, name) for name in fields}


_RECEIVED = _plain_fields("log.source.address", "log.source.port", "event.created")
_HTTP = {
    "elasticsearch": _plain_fields("elasticsearch.index", "elasticsearch.id"),
    "splunk_hec": _plain_fields("timestamp", *(f"splunk.{name}" for name in ("host", "source", "sourcetype", "index", "fields"))),
    "loki": _plain_fields("timestamp", "loki.labels", "loki.metadata"),
    "opentelemetry": _plain_fields("timestamp", "log.level", "trace.id", "span.id")
    | _plain_fields(*(f"otel.{name}" for name in ("observed_timestamp", "severity_number", "event_name")))
    | _plain_fields("otel.attributes", "otel.resource", "otel.scope"),
}
"""Format of the source `http` → what it gives beside what all receivers give."""
_MQTT = ("topic", "qos", "retain", "content_type", "response_topic", "correlation_data", "user_properties")
_OF: Mapping[str, Mapping[str, _Metadata]] = {
    "kafka": _KAFKA
    | {
        "headers": _Metadata({"headers_field": "kafka.headers"}, "kafka.headers"),
        "key": _Metadata({"key_field": "kafka.key"}, "kafka.key"),
    },
    "rocketmq": _ROCKETMQ,
    "file": _FILE,
    "beats": _RECEIVED,
    "forward": _RECEIVED | _plain_fields("timestamp", "fluent.tag", "fluent.metadata"),
    "http": _RECEIVED,
    "mqtt": _RECEIVED | _plain_fields(*(f"mqtt.{name}" for name in _MQTT)),
    "redis": _plain_fields("redis.stream", "redis.id", "redis.time"),
    "syslog": _RECEIVED,
}
"""Type of a source → key of METADATA FROM → what gives it."""


def metadata_of(options: Options) -> Mapping[str, _Metadata]:
    """What a source gives beside the text of a message."""
    more = _HTTP.get(options.texts.get("format", ""), {}) if options.type == "http" else {}
    return {**_OF.get(options.type, {}), **more}


def metadata_columns(table: CreateTable, options: Options, more: dict[str, Any]) -> tuple[list[SqlColumn], list[StepText]]:
    """The columns, and the step that fills them; the source gets the options that it needs. Raises ScriptError."""
    columns: list[SqlColumn] = []
    fields: dict[str, str] = {}
    for column in table.columns:
        if column.metadata is None or column.type is None or options.kind == "rsql":
            continue
        known = metadata_of(options)
        found = known.get(column.metadata)
        if found is None:
            near = get_close_matches(column.metadata, known, 1)
            hint = f"is {near[0]!r} meant?" if near else f"it has {', '.join(known)}" if known else None
            message = f"a source {options.type!r} has no metadata {column.metadata!r}"
            raise ScriptError("unknown-column", message, column.at, hint)
        declared = column_of(column.name, column.name, column.type)
        if declared.type is None or "<" in declared.type:
            raise ScriptError(
                "bad-type", f"{column.metadata!r} is a single value", column.at, "declare it as STRING; headers are JSON"
            )
        more |= found.options
        fields[column.name] = f"CAST({_quote(found.text)} AS {declared.type.upper()})"
        columns.append(declared)
    return columns, [StepText({"type": "set", "fields": fields}, table.at)] if fields else []


def _quote(text: str) -> str:
    return quoted(text) if "(" not in text else text
