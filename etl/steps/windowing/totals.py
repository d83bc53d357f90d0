"""A window without a length: aggregates of all events so far, as a changelog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from etl.aggregates.calls import AggregateCall, read_call
from etl.api import CHANGE, Finding, Operator, PlanError, Schema, format_duration, is_changing
from etl.steps.heartbeats import ARRIVAL
from etl.steps.keyed.options import MICROSECOND, bound_of_recomputed
from etl.steps.option_checks import length_finding

if TYPE_CHECKING:
    from etl.steps.window import Window

UNUSED = ("time", "slide", "step", "late", "idle", "emit_reason")
"""Options of windows that end."""


def is_total(step: Window) -> bool:
    """Whether there is one window, which holds all events and never closes."""
    return step.size is None and step.gap is None and step.emit == "on_change"


def total_findings(step: Window) -> Iterator[Finding]:
    """Options that have no meaning for aggregates of all events."""
    if step.ttl is not None:
        yield from length_finding("ttl", step.ttl)
    for name in UNUSED:
        if name in step.model_fields_set and getattr(step, name) is not None:
            message = f"{name} has no meaning without a size or gap: aggregates are of all events so far"
            yield Finding("unused-option", message, (name,), f"leave out {name}, or give a size")
    for name, text in step.aggregates.items():
        call = read_call(text)
        if isinstance(call, AggregateCall) and call.per_second:
            message = "all events so far have no length of time by which a rate is divided"
            yield Finding("bad-aggregate", message, ("aggregates", name), "give a size, or leave out per_second")


def total_notes(step: Window, incoming: Schema) -> Iterator[str]:
    """For `etl explain`: how long state is kept, and the largest group where it is computed again."""
    if step.ttl is None:
        yield "keeps the state of every group for ever: ttl removes that of groups without events"
    else:
        yield f"keeps the state of a group for {format_duration(step.ttl)} after its last event, or up to a quarter longer"
    if is_changing(incoming):
        from etl.state.changes.recomputed_steps import RecomputedTotals

        if isinstance(totals_operator(step, incoming), RecomputedTotals):
            yield bound_of_recomputed()


def remembered_totals(step: Window, incoming: Schema, rest: Mapping[str, Any]) -> dict[str, Any]:
    """What the state of totals depends on: groups and aggregates, and whether rows are subtracted."""
    lengths = {"totals": "of changes" if is_changing(incoming) else "of events"}
    lengths |= {} if step.ttl is None else {"ttl": str(step.ttl)}
    return {**lengths, **{name: one for name, one in rest.items() if name.startswith(("group ", "aggregate "))}}


def totals_operator(step: Window, incoming: Schema) -> Operator:
    """Totals to which rows are added and from which they are subtracted; recomputed where an aggregate cannot be subtracted."""
    from etl.state.aggregates import accumulator
    from etl.state.aggregates.accumulator import Accumulator
    from etl.state.changes.changing_totals import ChangingTotals
    from etl.state.changes.recomputed_steps import RecomputedTotals
    from etl.state.changes.signed_totals import signed
    from etl.state.keyed.time_to_live import TimeToLive

    found: dict[str, Accumulator] = {}
    for name, text in step.aggregates.items():
        made = accumulator(text, incoming, ARRIVAL)
        if isinstance(made, str):
            raise PlanError(f"window: {name}: {made}")
        found[name] = made
    fields, ttl = step.fields(incoming), TimeToLive(None if step.ttl is None else step.ttl // MICROSECOND)
    if not is_changing(incoming):
        return ChangingTotals(fields, step.group_by, found, ARRIVAL, ttl)
    subtracting = {name: other for name, one in found.items() if (other := signed(one)) is not None}
    if len(subtracting) == len(found):
        return ChangingTotals(fields, step.group_by, subtracting, ARRIVAL, ttl)
    rows = _needed_fields(step, incoming)
    return RecomputedTotals(fields, rows, step.group_by, ARRIVAL, step.group_by, ttl, accumulators=found)


def _needed_fields(step: Window, incoming: Schema) -> Schema:
    import pyarrow as pa

    names = step.needs(incoming) | {CHANGE, ARRIVAL}
    return pa.schema([field for field in incoming if field.name in names])
