"""The operator of a window's options."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from etl.api import Operator, PlanError, Schema
from etl.expressions import compile_expression
from etl.state.aggregates import accumulator
from etl.state.windows.aggregation import Aggregation
from etl.state.windows.field_windows import FieldWindows
from etl.state.windows.sessions import Sessions
from etl.state.windows.time_windows import TimeWindows
from etl.steps.windowing.emit import emit_rules, triggers_of
from etl.steps.windowing.lengths import FieldLength, event_lengths, window_shapes

if TYPE_CHECKING:
    from etl.steps.window import Window

_MICROSECOND = timedelta(microseconds=1)


def window_operator(step: Window, incoming: Schema) -> Operator:
    """Time windows or sessions over the aggregates."""
    emit, fields = triggers_of(step.emit), step.fields(incoming)
    on_close, on_change = "on_close" in emit, "on_change" in emit
    aggregation = _aggregation(step, incoming, fields)
    if isinstance(step.gap, FieldLength):
        gaps = event_lengths(step.gap)
        return Sessions(aggregation, gaps.default, gaps, on_close, on_change)
    if step.gap:
        return Sessions(aggregation, step.gap // _MICROSECOND, None, on_close, on_change)
    if isinstance(step.size, FieldLength):
        return FieldWindows(aggregation, event_lengths(step.size), on_close, on_change)
    return TimeWindows(aggregation, window_shapes(step.size, step.slide, step.step), emit_rules(step.emit, fields))


def _aggregation(step: Window, incoming: Schema, fields: Schema) -> Aggregation:
    time = step.event_time()[0]
    found = {name: accumulator(text, incoming, time) for name, text in step.aggregates.items()}
    accumulators = {name: one for name, one in found.items() if not isinstance(one, str)}
    for name, one in found.items():
        if isinstance(one, str):
            raise PlanError(f"window: {name}: {one}")
    having = compile_expression(step.having, fields) if step.having else None
    return Aggregation(time, step.group_by, accumulators, fields, having, reason=step.emit_reason is not None)
