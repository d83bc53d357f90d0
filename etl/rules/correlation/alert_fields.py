"""The fields of every alert, besides those of its group."""

from __future__ import annotations

import pyarrow as pa

from etl.api import TIMESTAMP

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
