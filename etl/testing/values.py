"""Converts Arrow values to plain values for YAML and JSON, and compares them with expected values."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from etl.api import OFFSET, with_kinds
from etl.running.plain_values import parse_instant


def to_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return events as mappings of flat names to plain values, without null fields."""
    batch = with_kinds(batch)
    names = [name for name in batch.schema.names if name != OFFSET]
    columns = [[to_plain(value) for value in batch.column(name).to_pylist()] for name in names]
    found = (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))
    return [{name: value for name, value in row.items() if value is not None} for row in found] if names else []


def to_plain(value: Any) -> Any:
    """Convert a Python value from Arrow to a text, number, boolean, list or mapping. Times are ISO 8601, bytes base64."""
    if isinstance(value, datetime):
        return _format_time(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value) if value == Decimal(str(float(value))) else str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        pairs = bool(value) and all(isinstance(item, tuple) for item in value)
        return {str(key): to_plain(item) for key, item in value} if pairs else [to_plain(item) for item in value]
    return value


def _format_time(value: datetime) -> str:
    """Return the time like ``2026-11-20T06:25:03.004232Z``; without the fraction if it is zero."""
    text = (value.astimezone(UTC) if value.tzinfo else value).replace(tzinfo=None).isoformat()
    return f"{text}Z" if value.tzinfo else text


def is_equal(expected: Any, found: Any) -> bool:
    """Return whether an expected value equals the one found, both plain. Times may be in any zone; null equals a missing key."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        return all(is_equal(expected.get(key), found.get(key)) for key in {*expected, *found})
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(is_equal, expected, found))
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, (int, float)) and isinstance(found, (int, float)):
        return expected == found or math.isclose(expected, found, rel_tol=1e-12) or (expected != expected and found != found)
    return expected == found or (isinstance(expected, str) and isinstance(found, str) and _is_same_time(expected, found))


def _is_same_time(expected: str, found: str) -> bool:
    if not (found[:4].isdigit() and found[4:5] == "-" and found[10:11] == "T"):
        return False
    try:
        return parse_instant(expected) == parse_instant(found)
    except ValueError:
        return False
