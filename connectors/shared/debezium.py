"""Changes of results as JSON lines of Debezium, as Flink's format `debezium-json` writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from connectors.shared.json_lines import Frame, Nulls, framed_lines
from etl.api import signs

if TYPE_CHECKING:
    from etl.columns.json.lines import Lines

_ADDED = Frame(('{"before":null,"after":',), ',"op":"c"}')
_REMOVED = Frame(('{"before":',), ',"after":null,"op":"d"}')


def lines(batch: pa.RecordBatch, nulls: Nulls) -> Lines:
    """Return a line for each event: ``c`` for a row that is added, or is the new one of a change, ``d`` for the others."""
    import numpy as np

    from etl.columns.json.lines import Lines

    is_added = signs(batch) > 0
    found = [
        _as_array(framed_lines(batch.filter(pa.array(mask)), frame, nulls))
        for mask, frame in ((is_added, _ADDED), (~is_added, _REMOVED))
        if mask.any()
    ]
    if not found:
        return framed_lines(batch, _ADDED, nulls)
    order = np.argsort(np.append(np.flatnonzero(is_added), np.flatnonzero(~is_added)), kind="stable")
    merged = pa.concat_arrays(found).take(pa.array(order))
    offsets = np.frombuffer(merged.buffers()[1], np.int64)[: len(merged) + 1]
    return Lines(memoryview(merged.buffers()[2])[: int(offsets[-1])], np.diff(offsets))


def _as_array(lines: Lines) -> pa.Array:
    import numpy as np

    offsets = np.append(0, np.cumsum(lines.lengths)).astype(np.int64)
    return pa.Array.from_buffers(pa.large_binary(), len(lines.lengths), [None, pa.py_buffer(offsets), pa.py_buffer(lines.text)])
