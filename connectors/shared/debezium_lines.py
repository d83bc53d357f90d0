"""Events as JSON lines of Debezium, as Flink's format `debezium-json` writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from connectors.shared.json_lines import Frame, Nulls, framed_lines, merged_lines
from etl.api import signs

if TYPE_CHECKING:
    from etl.columns.json.lines import Lines

_ADDED = Frame(('{"before":null,"after":',), ',"op":"c"}')
_REMOVED = Frame(('{"before":',), ',"after":null,"op":"d"}')


def debezium_lines(batch: pa.RecordBatch, nulls: Nulls = "keep") -> Lines:
    """Return a line for each event: ``c`` for a row that is added, or is the new one of a change, ``d`` for the others."""
    is_added = signs(batch) > 0
    parts = [(mask, frame) for mask, frame in ((is_added, _ADDED), (~is_added, _REMOVED)) if mask.any()]
    lines = [(mask, framed_lines(batch.filter(pa.array(mask)), frame, nulls)) for mask, frame in parts]
    return merged_lines(lines) if lines else framed_lines(batch, _ADDED, nulls)
