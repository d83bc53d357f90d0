"""Alerts as events, and what may become alerts as rows that people read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.api import TIMESTAMP, Schema
from etl.rules.correlation.alert_fields import ALERT_FIELDS
from etl.rules.correlation.compiled_correlations import CompiledCorrelations
from etl.rules.correlation.encoding import split_columns
from etl.rules.correlation.member_table import WORDS
from etl.rules.correlation.windows import Windows


def as_events(compiled: CompiledCorrelations, alerts: Windows, fields: Schema) -> pa.RecordBatch:
    """Windows that met the conditions of heads as events of these fields, in the order of their last events."""
    alerts = alerts.filter(np.argsort(alerts.column("micros", first=False).to_numpy(), kind="stable"))
    table = compiled.table
    heads = [one for _, one in table.members]
    of_rule = {
        "rule.id": [head.id for head in heads],
        "rule.title": [head.title for head in heads],
        "rule.level": [head.level for head in heads],
        "rule.tags": [head.tags for head in heads],
        "rule.author": [head.author for head in heads],
        "rule.version": [compiled.version for _ in heads],
        "correlation.type": [head.kind for head in heads],
    }
    start, member = alerts.column("micros"), pa.array(alerts.member)
    columns = {name: pa.array(values, ALERT_FIELDS.field(name).type).take(member) for name, values in of_rule.items()}
    columns |= group_columns(compiled, alerts, fields)
    columns |= {
        "window_start": start.cast(TIMESTAMP),
        "window_end": pc.add(start, pa.array(table.spans[alerts.member])).cast(TIMESTAMP),
        "last_seen": alerts.column("micros", first=False).cast(TIMESTAMP),
        "correlation.count": pa.array(alerts.counts()),
        "correlation.measure": pa.array(alerts.measures),
        "correlation.rules": _titles(compiled, alerts.distinct("rule", max(table.max_rules, 1))),
        "correlation.values": alerts.distinct("value"),
        "correlation.samples": alerts.distinct("sample"),
    }
    return pa.RecordBatch.from_arrays([columns[field.name] for field in fields], schema=fields)


def state_fields(fields: Schema) -> Schema:
    """The fields of a state as people read it: of alerts with ``fields``, and how near one is."""
    of_group = [field for field in fields if field.name not in ALERT_FIELDS.names]
    chosen = (
        "rule.id",
        "rule.title",
        "window_start",
        "last_seen",
        "correlation.type",
        "correlation.count",
        "correlation.measure",
    )
    more = [("comparison", pa.string()), ("threshold", pa.float64()), ("alerted", pa.bool_())]
    return pa.schema([*(ALERT_FIELDS.field(name) for name in chosen[:2]), *of_group, *map(ALERT_FIELDS.field, chosen[2:]), *more])


def as_state(compiled: CompiledCorrelations, windows: Windows, fields: Schema, watermark: int) -> pa.RecordBatch:
    """Windows that are not closed, with the comparison and the number in the condition, which are null for an expression, and
    whether a burst goes on that an alert was given for."""
    table, member = compiled.table, pa.array(windows.member)
    of_bursts = np.repeat(np.arange(len(windows.slots)), windows.slots.burst_counts)
    going_on = of_bursts[windows.slots.bursts[1] + windows.slots.spans[of_bursts] > watermark]
    own = [one for _, one in table.members]
    thresholds, words = table.thresholds[windows.member], table.words[windows.member]
    columns = group_columns(compiled, windows, fields) | {
        "rule.id": pa.array([one.id for one in own], pa.string()).take(member),
        "rule.title": pa.array([one.title for one in own], pa.string()).take(member),
        "window_start": windows.column("micros").cast(TIMESTAMP),
        "last_seen": windows.column("micros", first=False).cast(TIMESTAMP),
        "correlation.type": pa.array([one.kind for one in own], pa.string()).take(member),
        "correlation.count": pa.array(windows.counts()),
        "correlation.measure": pa.array(windows.measures),
        "comparison": pa.array(WORDS, pa.string()).take(pa.array(words, mask=words < 0)),
        "threshold": pa.array(thresholds, mask=np.isnan(thresholds)),
        "alerted": pa.array(np.isin(windows.slot, going_on)),
    }
    known = state_fields(fields)
    return pa.RecordBatch.from_arrays([columns[field.name] for field in known], schema=known)


def _titles(compiled: CompiledCorrelations, rules: pa.ListArray) -> pa.ListArray:
    """Titles instead of ids."""
    ids = rules.values.dictionary_encode()
    titles = pa.array([compiled.titles.get(one, one) for one in ids.dictionary.to_pylist()], pa.string())
    return pa.ListArray.from_arrays(rules.offsets, titles.take(ids.indices))


def group_columns(compiled: CompiledCorrelations, windows: Windows, fields: Schema) -> dict[str, pa.Array]:
    """The values of the groups of windows, by field; null where a correlation does not group by the field."""
    of_group = [field for field in fields if field.name not in ALERT_FIELDS.names]
    count = len(windows.firsts)
    found = {field.name: pa.nulls(count, pa.string()) for field in of_group}
    group = windows.column("group")
    for number in np.unique(windows.member).tolist():
        own = windows.member == number
        names = compiled.group_names[compiled.table.members[number][0].head.id]
        for name, texts in zip(names, split_columns(group.filter(pa.array(own)), len(names)), strict=True):
            if name in found:
                found[name] = pc.replace_with_mask(found[name], pa.array(own), texts)
    return {field.name: _cast_texts(found[field.name], field.type) for field in of_group}


def _cast_texts(texts: pa.StringArray, type_: pa.DataType) -> pa.Array:
    try:
        return texts.cast(type_)
    except pa.ArrowInvalid:  # of a state that is older than the field's type
        return pa.concat_arrays([_value(text, type_) for text in texts])


def _value(text: pa.StringScalar, type_: pa.DataType) -> pa.Array:
    """A text as a value of this type; null if it is not one."""
    try:
        return pa.array([text.as_py()], pa.string()).cast(type_)
    except pa.ArrowInvalid:
        return pa.nulls(1, type_)
