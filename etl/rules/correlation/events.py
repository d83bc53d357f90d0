"""Events that rules match → the parts that correlations need, one row for each correlation that an event counts for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.api import with_columns
from etl.rules.correlation.encoding import join_columns
from etl.rules.correlation.routes import COUNTED, COUNTS, Route

if TYPE_CHECKING:
    from etl.rules.engine.program import Matches
    from etl.rules.rule import Rule

_NUMBER = r"^\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$"


@dataclass(frozen=True)
class BoundRoute:
    """A route bound to an engine: the numbers that the engine has for its rules."""

    route: Route
    numbers: tuple[int, ...]
    indexes: tuple[int, ...]
    """The index in the route of each number's rule."""


def bind_routes(routes: Iterable[Route], rules: Sequence[Rule]) -> list[BoundRoute]:
    """Number the rules of routes by their order in an engine."""
    found = []
    for route in routes:
        indexes = {number: route.rules.index(rule.id) for number, rule in enumerate(rules) if rule.id in route.rules}
        found.append(BoundRoute(route, tuple(indexes), tuple(indexes.values())))
    return found


def route_events(
    batch: pa.RecordBatch, found: Matches, routes: Sequence[BoundRoute], sample: str | None, dropped: frozenset[str]
) -> pa.RecordBatch:
    """The events that count for a correlation, without the dropped fields, each with `COUNTS`. An event without a group field or
    value does not count."""
    at = np.repeat(np.arange(batch.num_rows), np.diff(found.offsets))
    rule = np.asarray(found.rule)
    parts = [part for one in routes if (part := _route(batch, at, rule, one, sample)) is not None]
    events = np.concatenate([part[0] for part in parts]) if parts else np.array([], np.int64)
    rows = pa.concat_arrays([part[1] for part in parts]) if parts else pa.array([], COUNTED)
    order = np.argsort(events, kind="stable")
    distinct_events, counts = np.unique(events, return_counts=True)
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    lists = pa.ListArray.from_arrays(offsets, rows.take(pa.array(order)))
    passed = batch.select([name for name in batch.schema.names if name not in dropped])
    return with_columns(passed.take(pa.array(distinct_events)), {COUNTS: lists})


def _route(
    batch: pa.RecordBatch, at: Any, rule: Any, numbered: BoundRoute, sample: str | None
) -> tuple[Any, pa.StructArray] | None:
    """The rows of the events of a route, and what is `COUNTED` of them."""
    hits = np.flatnonzero(np.isin(rule, numbered.numbers))
    _, first = np.unique(at[hits], return_index=True)
    hits = hits[first]
    if not len(hits):
        return None
    route, events, count = numbered.route, batch.take(pa.array(at[hits])), len(hits)
    texts = {name: _text(events.column(name)) for name in {*route.group, *route.part, *route.values}}
    value = pc.binary_join_element_wise(*(texts[name] for name in route.values), ", ") if route.values else None
    order = np.argsort(numbered.numbers)
    index = pa.array(np.array(numbered.indexes)[order[np.searchsorted(numbered.numbers, rule[hits], sorter=order)]])
    columns = [
        pa.repeat(pa.scalar(route.head), count),
        _join([texts[name] for name in route.group], count),
        pa.repeat(pa.scalar(route.member), count),
        _join([texts[name] for name in route.part if route.member != route.head], count),
        pa.array(route.orders, pa.int32()).take(index),
        pa.array(route.rules, pa.string()).take(index),
        pa.nulls(count, pa.string()) if value is None else value,
        pa.nulls(count, pa.string()) if sample is None else _text(events.column(sample)),
    ]
    complete = [texts[name].is_valid() for name in (*route.group, *route.part)]
    if value is not None:
        complete.append(pc.match_substring_regex(value, _NUMBER).fill_null(False) if route.numeric else value.is_valid())
    rows = pa.StructArray.from_arrays(columns, fields=list(COUNTED))
    if not complete:
        return at[hits], rows
    good = _and(complete)
    return at[hits][np.asarray(good)], rows.filter(good)


def _and(masks: Sequence[pa.BooleanArray]) -> pa.BooleanArray:
    found = masks[0]
    for mask in masks[1:]:
        found = pc.and_(found, mask)
    return found


def _text(column: pa.Array) -> pa.StringArray:
    return column if column.type == pa.string() else column.cast(pa.string())


def _join(texts: Sequence[pa.StringArray], count: int) -> pa.StringArray:
    """Join each row's texts to a name."""
    return join_columns(texts) if texts else pa.repeat(pa.scalar(""), count)
