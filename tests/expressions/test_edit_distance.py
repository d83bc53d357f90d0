"""`edit_distance` and `similarity` against the table that defines Levenshtein's distance."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.expressions import compile_expression

FIELDS = pa.schema([("one", pa.string()), ("other", pa.string())])
COMPILED = {name: compile_expression(f"{name}(one, other)", FIELDS) for name in ("edit_distance", "similarity")}

ALPHABET = st.lists(st.sampled_from("abzé€😀"), max_size=12).map("".join)
TEXTS = st.one_of(
    ALPHABET,
    st.builds(lambda text, count: text * count, ALPHABET, st.integers(1, 30)),  # over the borders of 64 characters
)


def table(one: str, other: str) -> int:
    """The last cell of the table of all distances of beginnings."""
    row = list(range(len(other) + 1))
    for number, sign in enumerate(one, 1):
        before, row[0] = row[0], number
        for at, letter in enumerate(other, 1):
            before, row[at] = row[at], min(row[at] + 1, row[at - 1] + 1, before + (sign != letter))
    return row[-1]


def batch_of(pairs: list[tuple[str | None, str | None]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"one": one, "other": other} for one, other in pairs], schema=FIELDS)


@pytest.mark.slow
@settings(deadline=None)  # the first call compiles the kernel
@given(pairs=st.lists(st.tuples(TEXTS | st.none(), TEXTS | st.none()), min_size=1, max_size=6))
def test_distances_are_those_of_the_table(pairs: list[tuple[str | None, str | None]]) -> None:
    distances = [None if one is None or other is None else table(one, other) for one, other in pairs]

    found = COMPILED["edit_distance"](batch_of(pairs)).values.to_pylist()
    shares = COMPILED["similarity"](batch_of(pairs)).values.to_pylist()

    assert found == distances
    for (one, other), distance, share in zip(pairs, distances, shares, strict=True):
        longest = max(len(one or ""), len(other or ""))
        assert share == (None if distance is None else 1.0 if not longest else pytest.approx(1 - distance / longest))


def test_a_text_that_is_too_long_is_rejected_alone() -> None:
    found = COMPILED["edit_distance"](batch_of([("x" * 1000, "é" * 1000), ("x" * 1001, "x"), ("x", None), ("a", "b")]))

    assert found.failed is not None
    assert found.reasons is not None
    assert found.failed.to_pylist() == [False, True, False, False]
    assert found.reasons[1].as_py() == "a text has more than 1,000 characters"
    assert [found.values[row].as_py() for row in (0, 2, 3)] == [1000, None, 1]


def test_a_limit_may_be_a_field_and_null() -> None:
    batch = pa.record_batch({"one": ["abc", "abc", "abc"], "n": pa.array([1, 3, None], pa.int32())})

    found = compile_expression("edit_distance(one, 'xyz', n)", batch.schema)(batch).values.to_pylist()

    assert found == [-1, 3, None]
