"""Changelogs: streams whose events add, replace or remove rows of a result, as those of Flink do.

An event of such a stream has the kind of its change in the hidden column `CHANGE`. A row is replaced by two events that follow
each other, the row before (`UPDATE_BEFORE`) and the row after it (`UPDATE_AFTER`), with consecutive offsets.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from etl.contract.errors import Finding
from etl.events import CHANGE, OFFSET, Schema, visible, with_columns

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)
"""Values of `CHANGE`: those of Flink's RowKind."""

KINDS = ("+I", "-U", "+U", "-D")
"""The kinds as they are printed, by value."""

KIND = "_kind"
"""Field in which sinks and tests show the kind of a change."""

_KEY = b"key"
"""Metadata of the field `CHANGE`: the names of the key's fields as JSON."""


def change_field(key: Sequence[str] | None) -> pa.Field:
    """The hidden field of a changelog. Of the events with the same values of ``key`` the last one counts; None if no fields are
    such a key, so that rows are identified by all their values."""
    return pa.field(CHANGE, pa.int8(), metadata=None if key is None else {_KEY: json.dumps(list(key)).encode()})


def is_changing(schema: Schema) -> bool:
    """Whether a stream is a changelog."""
    return schema.get_field_index(CHANGE) >= 0


def change_key(schema: Schema) -> tuple[str, ...] | None:
    """The key of a changelog's rows; None if it has none, and of other streams."""
    found = schema.field(CHANGE).metadata if is_changing(schema) else None
    return tuple(json.loads(found[_KEY])) if found and _KEY in found else None


def with_changes(schema: Schema, key: Sequence[str] | None) -> Schema:
    """The schema as that of a changelog with this key."""
    at = schema.get_field_index(CHANGE)
    return schema.append(change_field(key)) if at < 0 else schema.set(at, change_field(key))


def with_key_renamed(schema: Schema, incoming: Schema, names: Mapping[str, str]) -> Schema:
    """The outgoing schema of a step: ``names`` has, of each field that it passes on, the name before → the name after. Where a
    field of the key is not passed on, the changelog has no key any more."""
    key = change_key(incoming)
    if key is None or not is_changing(schema):
        return schema
    return with_changes(schema, tuple(names[name] for name in key) if set(key) <= set(names) else None)


def signs(events: pa.RecordBatch | pa.Table) -> Any:
    """int64[n]: 1 for events that add a row, -1 for those that remove one."""
    import numpy as np

    if CHANGE not in events.schema.names:
        return np.ones(events.num_rows, np.int64)
    kinds = kinds_of(events)
    return np.where((kinds == UPDATE_BEFORE) | (kinds == DELETE), -1, 1)


def kinds_of(events: pa.RecordBatch | pa.Table) -> Any:
    """int8[n]: the kinds; an event of a stream that is united with a changelog adds a row."""
    return events.column(CHANGE).fill_null(INSERT).to_numpy(zero_copy_only=False)


def with_whole_pairs(events: pa.RecordBatch) -> pa.RecordBatch:
    """The events with the right kinds after steps that have dropped some: a row whose replacement was dropped is deleted, and one
    that replaces a row that was dropped is inserted."""
    import numpy as np

    kinds, offsets = kinds_of(events), events.column(OFFSET).to_numpy()
    pairs = (kinds[:-1] == UPDATE_BEFORE) & (kinds[1:] == UPDATE_AFTER) & (offsets[1:] == offsets[:-1] + 1)
    is_before, is_after = np.append(pairs, False), np.append(False, pairs)
    found = np.where((kinds == UPDATE_BEFORE) & ~is_before, DELETE, kinds)
    found = np.where((kinds == UPDATE_AFTER) & ~is_after, INSERT, found).astype(np.int8)
    return with_columns(events, {CHANGE: pa.array(found)})


def refused_changes(schema: Schema, what: str, hint: str) -> Iterable[Finding]:
    """A finding if a stream is a changelog: ``what`` cannot take one."""
    if is_changing(schema):
        yield Finding("changing-results", f"rows of this stream change after they are given, and {what}", (), hint)


def last_of_keys(events: pa.RecordBatch, key: Sequence[str]) -> Any:
    """int64[m]: the number of the last event of each key, ascending."""
    import numpy as np

    rows = pa.table({**{name: events.column(name) for name in key}, "\0row": pa.array(np.arange(events.num_rows))})
    last = rows.group_by(list(key), use_threads=False).aggregate([("\0row", "max")])
    return np.sort(last.column("\0row_max").to_numpy())


def with_kind_field(schema: Schema) -> Schema:
    """The fields as they are shown: those of a changelog with its kinds, in front."""
    return pa.schema([pa.field(KIND, pa.string()), *visible(schema)]) if is_changing(schema) else schema


def with_kinds(events: pa.RecordBatch) -> pa.RecordBatch:
    """Events of a changelog with their kinds as texts, in front."""
    if not is_changing(events.schema):
        return events
    texts = pa.array(KINDS).take(pa.array(kinds_of(events)))
    names = [name for name in events.schema.names if name != CHANGE]
    return pa.RecordBatch.from_arrays([texts, *(events.column(name) for name in names)], names=[KIND, *names])


def kind_findings(incoming: Schema) -> Iterable[Finding]:
    """A finding if events have a field that the kinds would be in."""
    if KIND in incoming.names:
        yield Finding("name-conflict", f"there is a field {KIND!r} already, in which changes are named", (), "rename it")


def key_findings(incoming: Schema, key: Sequence[str], option: str = "key") -> Iterable[Finding]:
    """A finding unless a sink replaces rows by the key of a changelog."""
    own = change_key(incoming)
    if own is None:
        message = (
            "rows of this stream change, and have no key by which they replace each other: a step drops or changes a field of it"
        )
        yield Finding(
            "changing-results", message, (option,), "pass the fields of the key on, or write the kinds of changes to a file"
        )
    elif set(own) != set(key):
        given = ", ".join(key) or "none"
        message = f"rows of this stream replace each other by {', '.join(own) or 'no field, as there is one row'}, not by {given}"
        yield Finding("changing-results", message, (option,), f"write {option}: [{', '.join(own)}]")
