"""Dead letters: rejected events with the time, the step that rejected them, the reason, their offset and their text."""

from __future__ import annotations

import time

import pyarrow as pa

from etl.api import OFFSET, TIMESTAMP, Rejects, nest, visible

SCHEMA = pa.schema(
    [
        ("time", TIMESTAMP),
        ("pipeline", pa.string()),
        ("at", pa.string()),
        ("code", pa.string()),
        ("reason", pa.string()),
        ("source", pa.string()),
        ("partition", pa.string()),
        ("offset", pa.int64()),
        ("event", pa.string()),
    ]
)
"""``at`` is the step, sink or source that rejected; ``event`` its raw text where it was a lone ``message``, else JSON."""


def dead_letters(rejects: Rejects, pipeline: str, at: str, source: str, partition: str) -> pa.RecordBatch:
    """Rejected events → a batch with the columns of `SCHEMA` and the events' offsets in ``_offset``."""
    events = rejects.events
    rows = events.num_rows
    offsets = events.column(OFFSET) if OFFSET in events.schema.names else pa.nulls(rows, pa.int64())
    constants = [pipeline, at, rejects.code]
    reasons = rejects.reasons if isinstance(rejects.reasons, pa.Array) else pa.repeat(rejects.reasons, rows)
    now = pa.repeat(pa.scalar(time.time_ns() // 1000, pa.int64()), rows).cast(TIMESTAMP)
    columns = [
        now,
        *(pa.repeat(pa.scalar(text, pa.string()), rows) for text in constants),
        reasons,
        *(pa.repeat(pa.scalar(text, pa.string()), rows) for text in (source, partition)),
        offsets,
        _texts(events),
        offsets,
    ]
    return pa.RecordBatch.from_arrays(columns, names=[*SCHEMA.names, OFFSET])


def _texts(events: pa.RecordBatch) -> pa.Array:
    shown = events.select(visible(events.schema).names)
    if shown.schema.names == ["message"] and shown.column(0).type == pa.string():
        return shown.column(0)
    import polars as pl

    from etl.columns.json.values import to_json_types

    binary = [to_json_types(column) if "binary" in str(column.type) else column for column in shown.columns]
    frame = pl.from_arrow(nest(pa.RecordBatch.from_arrays(binary, names=shown.schema.names)))
    assert isinstance(frame, pl.DataFrame)
    if not frame.width:
        return pa.nulls(events.num_rows, pa.string())
    return frame.select(pl.struct(pl.all()).struct.json_encode()).to_series().to_arrow().cast(pa.string())
