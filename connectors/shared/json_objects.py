"""JSON objects as texts: members that are null are left out, and names with dots stay as they are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from connectors.shared import json_lines
from etl.columns.json.values import as_text

if TYPE_CHECKING:
    from etl.columns.json.lines import Lines


def text(value: str) -> pa.Scalar:
    """Return a constant that can be joined with the texts of this module (large_string)."""
    return pa.scalar(value, pa.large_string())


def join(*parts: pa.Array) -> pa.Array:
    """Join texts (large_string) of each row; null where one is null."""
    return pc.binary_join_element_wise(*parts, text(""))


def write_values(values: pa.Array) -> pa.Array:
    """Return each value as JSON (large_string); null stays null."""
    return as_text(values).cast(pa.large_string())


def write_events(batch: pa.RecordBatch, value_field: str | None) -> pa.Array:
    """Return each event as a JSON object, or the value of one field as JSON (large_string)."""
    if value_field is not None:
        return write_values(batch.column(value_field))
    lines = json_lines.as_array(json_lines.lines(batch, "keep")).view(pa.large_string())
    return pc.ascii_rtrim(lines, "\n")


def write_objects(members: Mapping[str, pa.Array], rows: int) -> pa.Array:
    """Return an object for each row (large_string). Members are JSON (large_string); those that are null are left out."""
    if not members:
        return pa.repeat(text("{}"), rows)
    parts = [
        pc.coalesce(join(text(json.dumps(name, ensure_ascii=False) + ":"), value, text(",")), text(""))
        for name, value in members.items()
    ]
    return join(text("{"), pc.ascii_rtrim(join(*parts), ","), text("}"))


def to_lines(texts: pa.Array) -> Lines:
    """Return texts (large_string, without null), each as a line."""
    import numpy as np

    from etl.columns.json.lines import Lines

    lines = join(texts, text("\n"))
    offsets = np.frombuffer(lines.buffers()[1], np.int64)[lines.offset : lines.offset + len(lines) + 1]
    return Lines(memoryview(lines.buffers()[2])[int(offsets[0]) : int(offsets[-1])], np.diff(offsets))
