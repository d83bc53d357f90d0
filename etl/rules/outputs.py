"""What becomes of events that rules match: kept with their rules, marked with them, or one alert a match."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from etl.api import with_columns
from etl.columns.texts import taken
from etl.rules.engine.program import Matches
from etl.rules.match_fields import LIST, ONE, Output, told_type
from etl.rules.rule import Rule


def told(rules: tuple[Rule, ...], version: str, metadata: Sequence[str] = ()) -> pa.StructArray:
    """Of each rule what is told, with these keys of its metadata."""
    rows = [
        {
            "id": rule.id,
            "title": rule.title,
            "level": rule.level,
            "tags": list(rule.tags),
            "author": rule.author,
            "version": version,
            **{name: _as_text(rule.metadata.get(name)) for name in metadata},
        }
        for rule in rules
    ]
    return pa.array(rows, told_type(metadata))


def _as_text(value: Any) -> str | None:
    """A text as it is, anything else as JSON."""
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def matches(batch: pa.RecordBatch, found: Matches, of: pa.StructArray) -> pa.RecordBatch:
    """The events that a rule matches, each with its rules."""
    counts = np.diff(found.offsets)
    rows = np.flatnonzero(counts)
    kept = batch if len(rows) == batch.num_rows else _rows(batch, rows)
    offsets = np.concatenate([[0], np.cumsum(counts[rows])]).astype(np.int32)
    return with_columns(kept, {LIST: _lists(offsets, found.rule, of)})


def annotate(batch: pa.RecordBatch, found: Matches, of: pa.StructArray) -> pa.RecordBatch:
    """All events, each with its rules: an empty list for those that none matches."""
    return with_columns(batch, {LIST: _lists(found.offsets, found.rule, of)})


def alerts(batch: pa.RecordBatch, found: Matches, of: pa.StructArray) -> pa.RecordBatch:
    """One event a match."""
    rows = np.repeat(np.arange(batch.num_rows), np.diff(found.offsets))
    rules = of.take(pa.array(found.rule))
    columns = dict(zip((f"{ONE}.{member.name}" for member in of.type), rules.flatten(), strict=True))
    return with_columns(_rows(batch, rows), columns)


def _rows(batch: pa.RecordBatch, rows: Any) -> pa.RecordBatch:
    """Some rows, in this order."""
    return pa.RecordBatch.from_arrays([taken(column, rows) for column in batch.columns], names=batch.schema.names)


def _lists(offsets: Any, rule: Any, of: pa.StructArray) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), of.take(pa.array(rule)))


WRITE: Mapping[Output, Callable[[pa.RecordBatch, Matches, pa.StructArray], pa.RecordBatch]] = {
    "matches": matches,
    "annotate": annotate,
    "alerts": alerts,
}
