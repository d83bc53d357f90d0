"""Array functions: their values on Arrow, and the calls that are left to Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from etl.expressions import analyse, compile_expression

SCHEMA = pa.schema([("s", pa.string()), ("t", pa.string()), ("i", pa.int32())])
BATCH = pa.record_batch([["a,b", None, ""], ["x", "y", None], pa.array([1, None, 3], pa.int32())], schema=SCHEMA)


def values(text: str) -> list[Any]:
    return list(compile_expression(text, SCHEMA)(BATCH).values.to_pylist())


def test_array_keeps_nulls() -> None:
    assert values("array(s, t)") == [["a,b", "x"], [None, "y"], ["", None]]
    assert values("array('web', 'network')") == [["web", "network"]] * 3
    assert values("array(i, 7000000000)") == [[1, 7000000000], [None, 7000000000], [3, 7000000000]]


def test_array_join_leaves_nulls_out() -> None:
    assert values("array_join(array(s, t, null), '+')") == ["a,b+x", "y", ""]
    assert values("array_join(case when i > 0 then array('a', 'b') end, '')") == ["ab", None, "ab"]


def test_array_compact_removes_nulls() -> None:
    assert values("array_compact(array(s, 'z', t))") == [["a,b", "z", "x"], ["z", "y"], ["", "z"]]
    assert values("array_compact(array('x', null))") == [["x"]] * 3
    assert values("array_compact(case when i > 0 then array(t) end)") == [["x"], None, []]


LISTS = pa.record_batch(
    [
        [["z"], ["x", "y", None], None, [], ["y", "y"], ["a"]],
        [["x"], ["x"], ["z"], None, ["q", "y"], [None]],
        ["z", "y", None, "z", "y", None],
        [0, 0, 1, -1, 1, 5],
    ],
    schema=pa.schema([("a", pa.list_(pa.string())), ("b", pa.list_(pa.string())), ("s", pa.string()), ("i", pa.int64())]),
).slice(1)
"""A slice: kernels must not read the row before it."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("array_contains(a, s)", [True, None, False, True, None]),
        ("array_contains(a, 'q')", [None, None, False, False, False]),
        ("array_union(a, b)", [["x", "y", None], None, None, ["y", "q"], ["a", None]]),
        ("array_distinct(a)", [["x", "y", None], None, [], ["y"], ["a"]]),
        ("array_append(a, s)", [["x", "y", None, "y"], None, ["z"], ["y", "y", "y"], ["a", None]]),
        (
            "concat(a, b, a)",
            [["x", "y", None, "x", "x", "y", None], None, None, ["y", "y", "q", "y", "y", "y"], ["a", None, "a"]],
        ),
        ("get(a, i)", ["x", None, None, "y", None]),
        ("case when i = 0 then null else a end", [None, None, [], ["y", "y"], ["a"]]),
    ],
)
def test_functions_of_arrays(text: str, expected: list[Any]) -> None:
    assert compile_expression(text, LISTS.schema)(LISTS).values.to_pylist() == expected


def test_elements_below_a_null_array_do_not_count() -> None:
    lists = pa.ListArray.from_arrays(
        pa.array([0, 2, 4, 6], pa.int32()), pa.array([*"xyxyzz"]), mask=pa.array([False, True, False])
    )
    batch = pa.record_batch([lists, ["y", "y", "x"]], names=["a", "s"])
    found = [
        compile_expression(text, batch.schema)(batch).values.to_pylist() for text in ("array_distinct(a)", "array_contains(a, s)")
    ]

    assert found == [[["x", "y"], None, ["z"]], [True, None, False]]


def test_split_at_a_plain_text() -> None:
    assert values("split(s, ',')") == [["a", "b"], None, [""]]
    assert values(r"split(t, '\\|')") == [["x"], ["y"], None]


def test_a_conditional_may_have_no_array() -> None:
    assert values("case when i = 1 then array(t) end") == [["x"], None, None]
    assert values("if(i = 1, array('p'), array('q', 'r'))") == [["p"], ["q", "r"], ["q", "r"]]


@pytest.mark.parametrize("text", ["split(s, '[,;]')", "split(s, t)", "array(array(s))", "split(s, '')", "array_compact(null)"])
def test_what_only_spark_computes(text: str) -> None:
    analysis = analyse(text, SCHEMA)

    assert analysis.spark_reason or analysis.findings


def test_a_wrong_argument_is_a_finding() -> None:
    assert [finding.code for finding in analyse("array_compact(s)", SCHEMA).findings] == ["wrong-type"]
