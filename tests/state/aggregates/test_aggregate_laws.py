"""Partial results of any cut into batches, merged in any order, give the result of all events at once."""

from __future__ import annotations

import pyarrow as pa
import pytest
from aggregate_events import NUMBERS, VALUES, accumulators, at_once, differences, events, partial, results
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.state.aggregates import group

pytestmark = pytest.mark.slow

TEXTS = [
    "count(*)",
    "count(*) filter (where c)",
    "count_if(c)",
    *(f"{function}({field})" for function in ("count", "min", "max") for field in VALUES),
    *(f"{function}({field})" for function in ("sum", "avg") for field in NUMBERS),
    *(f"{function}({field}) filter (where c)" for function in ("sum", "avg", "min") for field in NUMBERS),
    *(f"{function}({field})" for function in ("first", "last", "approx_count_distinct") for field in VALUES),
    *(f"count(distinct {field})" for field in VALUES),
    *(f"collect({field}, 3)" for field in VALUES),
    *(f"percentile({field}, 0.3)" for field in NUMBERS),
    *(f"approx_percentile({field}, 0.3)" for field in (*NUMBERS, "day", "ts", "tn")),
    *(f"{function}({field})" for function in ("variance", "stddev") for field in NUMBERS if field != "d"),
    *(f"{function}({x}, {y})" for function in ("min_by", "max_by") for x in ("i", "s") for y in VALUES),
    *(f"mode({field})" for field in VALUES),
    *(f"top({field}, 2)" for field in VALUES),
    *(f"collect_set({field}, 3)" for field in VALUES),
    *(f"approx_top({field}, 2)" for field in VALUES),
    *(f"histogram({field}, [-1, 0, 0.5, 1e9])" for field in NUMBERS),
    *(f"histogram({field}, 0.7)" for field in ("l", "d", "w")),
    *(f"per_second({total}) filter (where c)" for total in ("count(*)", "sum(i)", "sum(p)", "count(distinct s)")),
]
ACCUMULATORS = accumulators(TEXTS)


@settings(max_examples=30, deadline=None)
@given(
    st.data(),
    st.integers(0, 60),
    st.sampled_from([(), ("g",), ("g", "s"), ("d", "f"), ("b", "p", "ts")]),
    st.sampled_from([0, 1]),
)
def test_any_cut_and_any_order_of_merges_give_the_same(data: st.DataObject, rows: int, keys: tuple[str, ...], half: int) -> None:
    chosen = dict(
        list(ACCUMULATORS.items())[half::2]
    )  # of each function, those of every other field: fields of one kind share their code
    batch = events(rows, 3, data.draw(st.integers(0, 10**9)))
    cuts = sorted(data.draw(st.lists(st.integers(0, rows), max_size=6)))
    parts = [partial(batch[a:b], keys, chosen) for a, b in zip([0, *cuts], [*cuts, rows], strict=True)]

    while len(parts) > 1:
        parts = data.draw(st.permutations(parts))
        count = data.draw(st.integers(2, len(parts)))
        parts = [group(pa.concat_tables(parts[:count]), keys, chosen), *parts[count:]]

    assert differences(results(parts[0], keys, chosen), at_once(batch, keys, chosen)) == []
