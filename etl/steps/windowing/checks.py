"""Checks of the options of a window against the incoming fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from etl.api import Finding, Schema, format_type, nested_schema, unknown_field, visible
from etl.steps.keyed.options import ttl_findings
from etl.steps.option_checks import time_findings
from etl.steps.windowing.emit import emit_findings, having_findings
from etl.steps.windowing.lengths import field_findings, fixed_sizes, length_findings
from etl.steps.windowing.totals import is_total, total_findings

if TYPE_CHECKING:
    from etl.steps.window import Window


def window_findings(step: Window, incoming: Schema, edges: Sequence[str]) -> Iterator[Finding]:
    """Lengths, fields, aggregates, names of results, conditions on them; ``edges``: the fields with start and end of a window."""
    if is_total(step):
        yield from total_findings(step)
    else:
        yield from length_findings(step.size, step.slide, step.step, step.gap)
        yield from ttl_findings(step.ttl, "size" if step.size is not None else "gap", True)
    for name in ("size", "gap"):
        yield from field_findings(name, getattr(step, name), incoming)
    if step.time is not None:
        yield from time_findings(step.time, incoming)
    yield from _check_groups(step.group_by, incoming)
    for name, aggregate in step.checked_aggregates(incoming).items():
        yield from (replace(f, path=("aggregates", name)) for f in aggregate.findings)
    reason = [step.emit_reason] if step.emit_reason else []
    conflict = name_conflict([*edges, *step.group_by, *step.aggregates, *reason])
    if conflict:
        yield Finding("name-conflict", conflict, ("aggregates",), "give the field another name")
    else:
        yield from having_findings(step.having, step.emit, visible(step.fields(incoming)))
        yield from emit_findings(step.emit, fixed_sizes(step.size), step.fields(incoming))


def _check_groups(group_by: Sequence[str], incoming: Schema) -> Iterator[Finding]:
    """Fields that are missing, or have no equality."""
    from etl.state.key_hash import is_key_type

    for at, name in enumerate(group_by):
        path = ("group_by", at)
        if name not in incoming.names:
            yield unknown_field(name, incoming, path)
        elif not (is_key_type(incoming.field(name).type) or pa.types.is_null(incoming.field(name).type)):
            text = f"{name!r} is {format_type(incoming.field(name).type)}, which has no equality"
            yield Finding("wrong-type", text, path, "group by one of its values: make a field of it with a set step")


def name_conflict(names: list[str]) -> str | None:
    """The contradiction between names of the fields of results, None when there is none."""
    for at, name in enumerate(names):
        if name in names[:at]:
            return f"two fields of the result are named {name!r}"
    try:
        nested_schema(pa.schema([(name, pa.null()) for name in names]))
    except ValueError as error:
        return str(error)
    return None
