"""The events that leave the step `rules`: those that match, all with their matches, or one alert for each match."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from etl.api import Schema, with_columns, with_fields
from etl.columns.texts import take_rows
from etl.rules.rule import Rule

if TYPE_CHECKING:
    from etl.rules.engine.program import Matches

Output = Literal["matches", "annotate", "alerts"]

RULE_FIELDS = pa.struct(
    [
        ("id", pa.string()),
        ("title", pa.string()),
        ("level", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("author", pa.string()),
        ("version", pa.string()),
    ]
)
"""What a match shows of its rule. ``version`` is that of the whole set of rules."""

LIST, ONE = "rules", "rule"
"""The field with the list of an event's rules, and the one with the rule of an alert."""


def rule_type(metadata: Sequence[str]) -> pa.StructType:
    """What a match shows of its rule, with these keys of the rule's metadata."""
    return pa.struct([*RULE_FIELDS, *((name, pa.string()) for name in metadata)])


def output_fields(output: Output, metadata: Sequence[str], incoming: Schema) -> Schema:
    """The fields of the events that leave the step."""
    shown = rule_type(metadata)
    if output == "alerts":
        return with_fields(incoming, {f"{ONE}.{member.name}": member.type for member in shown})
    return with_fields(incoming, {LIST: pa.list_(shown)})


def rule_structs(rules: tuple[Rule, ...], version: str, metadata: Sequence[str] = ()) -> pa.StructArray:
    """What a match shows of each rule."""
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
    return pa.array(rows, rule_type(metadata))


def _as_text(value: Any) -> str | None:
    """A text unchanged, any other value as JSON."""
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def select_matching(batch: pa.RecordBatch, found: Matches, rules: pa.StructArray) -> pa.RecordBatch:
    """The events that a rule matches, each with the list of its rules."""
    import numpy as np

    counts = np.diff(found.offsets)
    rows = np.flatnonzero(counts)
    matching = batch if len(rows) == batch.num_rows else _select_rows(batch, rows)
    offsets = np.concatenate([[0], np.cumsum(counts[rows])]).astype(np.int32)
    return with_columns(matching, {LIST: _lists(offsets, found.rule, rules)})


def annotate(batch: pa.RecordBatch, found: Matches, rules: pa.StructArray) -> pa.RecordBatch:
    """All events, each with the list of its rules, which may be empty."""
    return with_columns(batch, {LIST: _lists(found.offsets, found.rule, rules)})


def make_alerts(batch: pa.RecordBatch, found: Matches, rules: pa.StructArray) -> pa.RecordBatch:
    """One event for each match."""
    import numpy as np

    rows = np.repeat(np.arange(batch.num_rows), np.diff(found.offsets))
    matched = rules.take(pa.array(found.rule))
    columns = dict(zip((f"{ONE}.{member.name}" for member in rules.type), matched.flatten(), strict=True))
    return with_columns(_select_rows(batch, rows), columns)


def _select_rows(batch: pa.RecordBatch, rows: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([take_rows(column, rows) for column in batch.columns], names=batch.schema.names)


def _lists(offsets: Any, rule: Any, rules: pa.StructArray) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), rules.take(pa.array(rule)))


WRITERS: Mapping[Output, Callable[[pa.RecordBatch, Matches, pa.StructArray], pa.RecordBatch]] = {
    "matches": select_matching,
    "annotate": annotate,
    "alerts": make_alerts,
}
