"""Operators of a join's options, what its state depends on, and what `etl explain` says of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from etl.api import (
    OPTIONAL,
    Operator,
    Schema,
    change_key,
    format_duration,
    format_type,
    side_fields,
    united_fields,
)
from etl.expressions import analyse, compile_expression
from etl.steps.heartbeats import ARRIVAL
from etl.steps.keyed.options import MICROSECOND, bound_of_other_side

if TYPE_CHECKING:
    from etl.state.joins.limited_sides import SideLimit
    from etl.steps.joining.join import Join

_ALL_TIME = 1 << 61
"""Microseconds: how much earlier a version may be without a bound."""


def join_operator(step: Join, incoming: Schema) -> Operator:
    """Pairs of both sides in files."""
    if step.changelog:
        return _changing_operator(step, incoming)
    from etl.state.joins.latest_join import LatestJoin
    from etl.state.joins.time_join import TimeJoin

    pair = step.joined(incoming)
    before, after = (bound // MICROSECOND for bound in step.bounds)
    bounded = step.before is not None
    kind = partial(LatestJoin, bounded=bounded) if step.match == "latest" else TimeJoin
    return kind(
        incoming=incoming,
        fields=step.fields(incoming),
        pair=pair.schema,
        right_names=pair.right_names,
        on=step.on,
        kind=step.kind,
        time=step.event_time()[0],
        before=before if bounded or step.match == "all" else _ALL_TIME,
        after=after,
        limit=_side_limit(step),
        where=compile_expression(step.where, pair.schema) if step.where else None,
        where_fields=analyse(step.where, pair.schema).fields if step.where else frozenset(),
    )


def _changing_operator(step: Join, incoming: Schema) -> Operator:
    from etl.state.changes.changing_join import ChangingJoin, key_names
    from etl.state.keyed.time_to_live import TimeToLive

    pair, fields = step.joined(incoming), step.fields(incoming)
    where = compile_expression(step.where, pair.schema) if step.where else None
    ttl = TimeToLive(None if step.ttl is None else step.ttl // MICROSECOND)
    return ChangingJoin(
        fields,
        incoming,
        key_names(len(step.on)),
        ARRIVAL,
        change_key(fields),
        ttl,
        pair=pair.schema,
        right_names=pair.right_names,
        on=step.on,
        kind=step.kind,
        where=where,
    )


def remembered_options(step: Join, incoming: Schema) -> dict[str, Any]:
    """Kind, keys with their types, times, bounds, and the fields of events."""
    left, right = side_fields(incoming)
    keys = {
        f"key {name} = {other}": f"{format_type(left.field(name).type)}, {format_type(right.field(other).type)}"
        for name, other in step.on.items()
    }
    fields = {f"{OPTIONAL}{f.name}": format_type(f.type) for f in united_fields(left, right, timed=False)}
    if step.changelog:
        ttl = {} if step.ttl is None else {"ttl": str(step.ttl)}
        return {"kind": step.kind, "match": "changelog", **keys, **ttl, **fields}
    before, after = step.bounds
    times = {"time": " = ".join(step.times or (ARRIVAL,)), "before": str(before), "after": str(after)}
    limited = {"limit": "yes"} if _side_limit(step) else {}
    return {"kind": step.kind, "match": step.match, **keys, **times, **limited, **fields}


def state_notes(step: Join) -> Iterator[str]:
    """How long events are kept."""
    if step.changelog:
        stays = None if step.ttl is None else format_duration(step.ttl if step.kind == "inner" else 2 * step.ttl)
        duration = "for ever" if stays is None else f"for {stays} after it was read, or up to a quarter longer"
        yield f"keeps each row of both sides {duration}"
        yield bound_of_other_side()
        return
    before, after = (format_duration(max(bound, timedelta(0))) for bound in step.bounds)
    if step.match == "latest":
        for_ever = "the last right event of every key for ever (before removes older ones)"
        content = f"right events for {before}" if step.before is not None else for_ever
        yield f"keeps {content}, and left ones until the watermark passes them"
    elif step.limit is not None:
        yield f"keeps events of both sides for {format_duration(_span_of_limit(step))} of event time"
    elif step.kind == "inner":
        yield f"keeps left events for {after} and right ones for {before} of event time"
    else:
        yield f"keeps events of both sides for {format_duration(sum(step.bounds, timedelta(0)))} of event time or longer"
    if step.match == "all":
        yield _bound_of_keys(step)
    if step.idle is None:
        yield "a silent side holds results and state of the other one: there is no idle"


def _side_limit(step: Join) -> SideLimit | None:
    from etl.state.joins.limited_sides import SideLimit

    if step.limit is None or step.match == "latest":
        return None
    return SideLimit(step.limit, _span_of_limit(step) // MICROSECOND)


def _bound_of_keys(step: Join) -> str:
    if step.limit is None:
        return "takes any number of events of a key, and gives as many pairs as their product: limit bounds them"
    span = format_duration(_span_of_limit(step))
    return f"takes at most {step.limit:,} events of a key on each side in {span}, and drops and counts the others"


def _span_of_limit(step: Join) -> timedelta:
    """How long events of both sides wait for a match, together."""
    return max(sum((max(bound, timedelta(0)) for bound in step.bounds), timedelta(0)), timedelta(minutes=1))
