"""Partial results of any cut into batches, merged in any order, give the result of all events at once."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
from aggregate_events import VALUES, accumulators, at_once, events, partial, results
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.state.aggregates import group

NUMBERS = ("y", "h", "i", "l", "f", "d", "p", "q", "w")
TEXTS = [
    "count(*)",
    "count(*) filter (where c)",
    "count_if(c)",
    *(f"{function}({field})" for function in ("count", "min", "max") for field in VALUES),
    *(f"{function}({field})" for function in ("sum", "avg") for field in NUMBERS),
    *(f"{function}({field}) filter (where c)" for function in ("sum", "avg", "min") for field in NUMBERS),
]
ACCUMULATORS = accumulators(TEXTS)


@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(0, 60), st.sampled_from([(), ("g",), ("g", "s"), ("d", "f"), ("b", "p", "ts")]))
def test_any_cut_and_any_order_of_merges_give_the_same(data: st.DataObject, rows: int, keys: tuple[str, ...]) -> None:
    batch = events(rows, 3, data.draw(st.integers(0, 10**9)))
    cuts = sorted(data.draw(st.lists(st.integers(0, rows), max_size=6)))
    parts = [partial(batch[a:b], keys, ACCUMULATORS) for a, b in zip([0, *cuts], [*cuts, rows], strict=True)]

    while len(parts) > 1:
        parts = data.draw(st.permutations(parts))
        count = data.draw(st.integers(2, len(parts)))
        parts = [group(pa.concat_tables(parts[:count]), keys, ACCUMULATORS), *parts[count:]]

    merged, expected = results(parts[0], keys, ACCUMULATORS), at_once(batch, keys, ACCUMULATORS)
    assert merged.keys() == expected.keys()
    assert [(key, text) for key in merged for text in TEXTS if not _same(merged[key][text], expected[key][text])] == []


def _same(one: Any, other: Any) -> bool:
    """Equal; sums of floating-point numbers up to the order of additions."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-12)
    return bool(one == other)
