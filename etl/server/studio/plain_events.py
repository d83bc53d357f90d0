"""Events as values that a browser reads: JSON without what JavaScript would read as something else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from etl.api import OFFSET, format_type
from etl.testing.values import to_rows

MAX_TEXT = 8_000
"""Maximum number of characters of a text; longer ones are cut, because a table shows the beginning."""

MAX_EXACT = 2**53
"""Larger whole numbers are texts: JavaScript would round them."""

MAX_ITEMS = 200
"""Maximum number of members of an object or list."""


def browser_rows(batches: Sequence[pa.RecordBatch], limit: int) -> list[dict[str, Any]]:
    """The first events as ``{offset, values}``, without null fields."""
    rows: list[dict[str, Any]] = []
    for batch in batches:
        part = batch.slice(0, limit - len(rows))
        offsets = part.column(OFFSET).to_pylist() if OFFSET in part.schema.names else [None] * part.num_rows
        values = to_rows(part) or [{} for _ in offsets]
        rows += [{"offset": at, "values": browser_value(row)} for at, row in zip(offsets, values, strict=True)]
        if len(rows) >= limit:
            break
    return rows


def browser_fields(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> list[dict[str, Any]]:
    """The fields of a stream: name, type, and the share of events that lack them."""
    rows = sum(batch.num_rows for batch in batches)
    known = batches[0].schema if batches else schema
    return [
        {"name": field.name, "type": format_type(field.type), "nulls": _null_share(batches, field.name, rows)}
        for field in known
        if field.name != OFFSET
    ]


def _null_share(batches: Sequence[pa.RecordBatch], name: str, rows: int) -> float:
    nulls = sum(batch.column(name).null_count for batch in batches if name in batch.schema.names)
    return nulls / rows if rows else 1.0


def browser_value(value: Any) -> Any:
    """A plain value whose texts are short, and whose numbers JavaScript reads exactly."""
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT else f"{value[:MAX_TEXT]}…"
    if isinstance(value, Mapping):
        return {key: browser_value(item) for key, item in list(value.items())[:MAX_ITEMS]}
    if isinstance(value, list):
        return [browser_value(item) for item in value[:MAX_ITEMS]]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > MAX_EXACT:
        return str(value)
    return value
