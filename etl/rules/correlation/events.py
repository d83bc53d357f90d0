"""Events that rules match → what correlations need of them, one row for each correlation that an event counts for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.api import with_columns
from etl.rules.correlation.encoding import escaped, escaped_column, joined, joined_columns, packed
from etl.rules.correlation.routes import COUNTS, Route

if TYPE_CHECKING:
    from etl.rules.engine.program import Matches
    from etl.rules.rule import Rule

_NUMBER = r"^\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$"


@dataclass(frozen=True)
class Way:
    """A route of events, whose rules are numbered as the engine does."""

    route: Route
    numbers: tuple[int, ...]
    places: tuple[int, ...]
    """Of each number the place of its rule in the route."""


def ways(routes: Iterable[Route], rules: Sequence[Rule]) -> list[Way]:
    """Routes over the rules of an engine, in its order."""
    found = []
    for route in routes:
        places = {number: route.rules.index(rule.id) for number, rule in enumerate(rules) if rule.id in route.rules}
        found.append(Way(route, tuple(places), tuple(places.values())))
    return found


def counting(batch: pa.RecordBatch, found: Matches, along: Sequence[Way], sample: str | None) -> pa.RecordBatch:
    """The events that count for a correlation, each with `COUNTS`. One that lacks a group field or a value counts for nothing."""
    at = np.repeat(np.arange(batch.num_rows), np.diff(found.offsets))
    rule = np.asarray(found.rule)
    parts = [part for way in along if (part := _along(batch, at, rule, way, sample)) is not None]
    events = np.concatenate([part[0] for part in parts]) if parts else np.array([], np.int64)
    rows = pa.concat_arrays([part[1] for part in parts]) if parts else pa.array([], pa.string())
    order = np.argsort(events, kind="stable")
    kept, counts = np.unique(events, return_counts=True)
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    lists = pa.ListArray.from_arrays(offsets, rows.take(pa.array(order)))
    return with_columns(batch.take(pa.array(kept)), {COUNTS: lists})


def _along(batch: pa.RecordBatch, at: Any, rule: Any, way: Way, sample: str | None) -> tuple[Any, pa.StringArray] | None:
    """Which events go along a way, and what of them."""
    hits = np.flatnonzero(np.isin(rule, way.numbers))
    _, first = np.unique(at[hits], return_index=True)
    hits = hits[first]
    if not len(hits):
        return None
    route, events, count = way.route, batch.take(pa.array(at[hits])), len(hits)
    texts = {name: _text(events.column(name)) for name in {*route.group, *route.part, *route.values}}
    value = pc.binary_join_element_wise(*(texts[name] for name in route.values), ", ") if route.values else None
    place = pa.array([way.places[way.numbers.index(number)] for number in rule[hits]])
    columns = [
        _named([route.head, *(texts[name] for name in route.group)], count),
        _named([route.member, *(texts[name] for name in route.part if route.member != route.head)], count),
        pa.array(map(str, route.orders), pa.string()).take(place),
        pa.array(map(escaped, route.rules), pa.string()).take(place),
        escaped_column(pa.nulls(count, pa.string()) if value is None else value),
        escaped_column(pa.nulls(count, pa.string()) if sample is None else _text(events.column(sample))),
    ]
    whole = [texts[name].is_valid() for name in (*route.group, *route.part)]
    if value is not None:
        whole.append(pc.match_substring_regex(value, _NUMBER).fill_null(False) if route.numeric else value.is_valid())
    rows = packed(columns)
    if not whole:
        return at[hits], rows
    good = _all(whole)
    return at[hits][np.asarray(good)], rows.filter(good)


def _all(masks: Sequence[pa.BooleanArray]) -> pa.BooleanArray:
    found = masks[0]
    for mask in masks[1:]:
        found = pc.and_(found, mask)
    return found


def _text(column: pa.Array) -> pa.StringArray:
    return column if column.type == pa.string() else column.cast(pa.string())


def _named(texts: Sequence[pa.StringArray | str], count: int) -> pa.StringArray:
    """Of each row its texts joined."""
    if all(isinstance(text, str) for text in texts):
        return pa.repeat(pa.scalar(joined([str(text) for text in texts])), count)
    return joined_columns(texts)
