"""Copies of events: one for each row that belongs to an event."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from etl.columns.texts import take_rows


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
