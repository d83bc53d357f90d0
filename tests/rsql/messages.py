"""Messages of the old engine as batches: every field with the type of its value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa


def batch_of(message: Mapping[str, Any], fields: Iterable[str] = ()) -> pa.RecordBatch:
    """One event. ``fields`` that it does not have are null texts."""
    columns = {name: _column(value) for name, value in message.items()}
    columns |= {name: pa.nulls(1, pa.string()) for name in fields if name not in columns}
    return pa.record_batch(columns or {"_": pa.nulls(1, pa.string())})


def _column(value: Any) -> pa.Array:
    if isinstance(value, float):
        return pa.array([value], pa.float64())
    return pa.nulls(1, pa.string()) if value is None else pa.array([value])
