"""The fields of alerts, and alerts as events."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from etl.api import TIMESTAMP, Schema
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


def as_events(compiled: CompiledCorrelations, alerts: Sequence[tuple[str, Alert]], fields: Schema) -> pa.RecordBatch:
    """Alerts with the texts of their groups as events of these fields."""
    rows = [_row(compiled, group, alert) for group, alert in alerts]
    return pa.RecordBatch.from_arrays([_column([row.get(field.name) for row in rows], field) for field in fields], schema=fields)


def _column(values: Sequence[object], field: pa.Field) -> pa.Array:
    if field.name in ALERT_FIELDS.names:
        return pa.array(values, field.type)
    texts = pa.array(values, pa.string())
    try:
        return texts.cast(field.type)
    except pa.ArrowInvalid:  # of a state that is older than the field's type
        return pa.concat_arrays([_value(text, field.type) for text in texts])


def _value(text: pa.StringScalar, type_: pa.DataType) -> pa.Array:
    """A text as a value of this type; null if it is none."""
    try:
        return pa.array([text.as_py()]).cast(type_)
    except pa.ArrowInvalid:
        return pa.nulls(1, type_)


def _row(compiled: CompiledCorrelations, group: str, alert: Alert) -> dict[str, object]:
    """An alert by field; the values of its group are texts."""
    correlation, *values = split_name(group)
    head = compiled.families[correlation].head
    return {
        **dict(zip(compiled.group_names[head.id], values, strict=True)),
        "rule.id": head.id,
        "rule.title": head.title,
        "rule.level": head.level,
        "rule.tags": head.tags,
        "rule.author": head.author,
        "rule.version": compiled.version,
        "window_start": alert.start_micros,
        "window_end": alert.start_micros + head.span_micros,
        "last_seen": alert.last_micros,
        "correlation.type": head.kind,
        "correlation.count": alert.count,
        "correlation.measure": alert.measure,
        "correlation.rules": [compiled.titles.get(rule, rule) for rule in alert.rules],
        "correlation.values": alert.values,
        "correlation.samples": alert.samples,
    }
