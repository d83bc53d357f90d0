"""Alerts: their fields, and their form on the way through Spark."""

from __future__ import annotations

import json

import pyarrow as pa

from etl.api import TIMESTAMP
from etl.rules.correlation.compiled import CompiledCorrelations
from etl.rules.correlation.encoding import split_name
from etl.rules.correlation.windows import Alert

ALERT_FIELDS = pa.schema(
    [
        ("rule.id", pa.string()),
        ("rule.title", pa.string()),
        ("rule.level", pa.string()),
        ("rule.tags", pa.list_(pa.string())),
        ("rule.author", pa.string()),
        ("rule.version", pa.string()),
        ("window_start", TIMESTAMP),
        ("window_end", TIMESTAMP),
        ("last_seen", TIMESTAMP),
        ("correlation.type", pa.string()),
        ("correlation.count", pa.int64()),
        ("correlation.measure", pa.float64()),
        ("correlation.rules", pa.list_(pa.string())),
        ("correlation.values", pa.list_(pa.string())),
        ("correlation.samples", pa.list_(pa.string())),
    ]
)
"""Fields of every alert, besides those of its group."""

JSON_TYPE = (
    "id string, title string, level string, tags array<string>, author string, version string, type string, "
    "group map<string, string>, start bigint, end bigint, last bigint, count bigint, measure double, "
    "rules array<string>, values array<string>, samples array<string>"
)
"""Spark's type of an alert as JSON; times are microseconds since 1970."""

_TIMES = {"window_start": "start", "window_end": "end", "last_seen": "last"}


def json_key(field: str) -> str:
    """The key in JSON of one of `ALERT_FIELDS`."""
    return _TIMES.get(field) or field.rpartition(".")[2]


def encode_alert(compiled: CompiledCorrelations, group: str, alert: Alert) -> str:
    """An alert of a group as JSON."""
    correlation, *values = split_name(group)
    head = compiled.families[correlation].head
    names = [compiled.group_names[head.id][index] for index in range(len(head.group_by))]
    return json.dumps(
        {
            "id": head.id,
            "title": head.title,
            "level": head.level,
            "tags": head.tags,
            "author": head.author,
            "version": compiled.version,
            "type": head.kind,
            "group": dict(zip(names, values, strict=True)),
            "start": alert.start_micros,
            "end": alert.start_micros + head.span_micros,
            "last": alert.last_micros,
            "count": alert.count,
            "measure": alert.measure,
            "rules": [compiled.titles.get(rule, rule) for rule in alert.rules],
            "values": alert.values,
            "samples": alert.samples,
        }
    )
