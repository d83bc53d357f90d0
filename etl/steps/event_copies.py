"""Copies of events: one for each row that belongs to an event."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from etl.columns.texts import Texts, sum_text_bytes, take_rows

MAX_COPIED_BYTES = 512 << 20
"""Bytes of the events that a step makes of one batch; the batch itself has a few MB."""


def find_too_large(batch: pa.RecordBatch, counts: Any) -> pa.BooleanArray | None:
    """The events whose copies take the most memory, as many as is needed for the others to fit; None if all fit.

    ``counts`` (int64[events]) is how often each event is copied.
    """
    total = sum(map(_bytes, batch.columns))
    if not len(counts) or int(counts.max()) * (total + batch.num_rows) <= MAX_COPIED_BYTES:
        return None
    sizes = np.clip(counts * sum(map(_row_bytes, batch.columns), np.ones(batch.num_rows)), 0, MAX_COPIED_BYTES + 1)
    order = np.argsort(sizes, kind="stable")
    fitting = int(np.searchsorted(np.cumsum(sizes[order]), MAX_COPIED_BYTES, side="right"))
    if fitting == batch.num_rows:
        return None
    is_too_large = np.zeros(batch.num_rows, bool)
    is_too_large[order[fitting:]] = True
    return pa.array(is_too_large)


def _is_text(array: pa.Array) -> bool:
    return array.type in (pa.string(), pa.large_string(), pa.string_view())


def _bytes(array: pa.Array) -> int:
    return sum_text_bytes(array) if _is_text(array) else int(array.nbytes)


def _row_bytes(array: pa.Array) -> Any:
    """Bytes of each row (float64[n]); of what is not a text, and has no one size, the average."""
    if _is_text(array):
        return np.maximum(Texts.of(array).length, 0).astype(np.float64)
    return np.full(len(array), array.nbytes / max(len(array), 1))


def copy_events(batch: pa.RecordBatch, counts: Any, rows: Any) -> tuple[pa.RecordBatch, Any]:
    """An event for each row, and its row (int64[n]). An event without rows stays one event, with row -1.

    ``counts`` (int64[events]) is how many of ``rows`` belong to each event; ``rows`` are in the order of events.
    """
    times = np.maximum(counts, 1)
    at = np.full(int(times.sum()), -1, np.int64)
    at[np.repeat(counts > 0, times)] = rows
    if len(at) == batch.num_rows:
        return batch, at
    origin = np.repeat(np.arange(batch.num_rows), times)
    return pa.RecordBatch.from_arrays([take_rows(column, origin) for column in batch.columns], names=batch.schema.names), at
