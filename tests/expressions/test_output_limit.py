"""What functions give for one batch is limited: the largest results fail, and the others are given."""

from __future__ import annotations

import pyarrow as pa
import pytest

from etl.expressions import compile_expression, output_limit

MIB = 1 << 20
ROWS = 2000


@pytest.fixture(autouse=True)
def _small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    from etl.expressions.library import kernels

    for module in (output_limit, kernels):
        monkeypatch.setattr(module, "MAX_BATCH_BYTES", MIB)


def batch(hostile: int) -> pa.RecordBatch:
    """Events of which every tenth asks for many characters or elements."""
    counts = [hostile if row % 10 == 0 else 3 for row in range(ROWS)]
    texts = [f"x{row}" for row in range(ROWS)]
    spaces = [" " * (hostile // 4 if row % 10 == 0 else 2) for row in range(ROWS)]
    array = pa.array([["a"] * (hostile // 100 if row % 10 == 0 else 2) for row in range(ROWS)], pa.list_(pa.string()))
    columns = {"n": pa.array(counts, pa.int64()), "c": pa.array(map(str, counts)), "t": texts, "s": spaces, "a": array}
    return pa.record_batch({**columns, "new": ["abcde"] * ROWS, "p": ["[ ]"] * ROWS})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "ordinary"),
    [
        ("flink_repeat(t, n)", "x7x7x7"),
        ("flink_lpad(t, n, '*')", "*x7"),
        ("flink_rpad(t, n, '*')", "x7*"),
        ("rsql_repeat(t, c)", "x7x7x7"),
        ("rsql_lpad(t, c, '*')", "*x7"),
        ("rsql_space(c)", "   "),
        ("whole_numbers(n)", [1, 2, 3]),
        ("flink_replace(s, ' ', new)", "abcdeabcde"),
        ("flink_replace(s, ' ', 'abcdefghi')", "abcdefghiabcdefghi"),
        ("rsql_replace(s, ' ', new)", "abcdeabcde"),
        ("flink_regexp_replace(s, p, new)", "abcdeabcde"),
        ("flink_array_join(a, flink_lpad(',', 99, ','))", "a" + "," * 99 + "a"),
        ("replace(s, ' ', 'abcdefghi')", "abcdefghiabcdefghi"),
        ("regexp_replace(s, '[ ]', 'abcdefghi')", "abcdefghiabcdefghi"),
        ("regexp_replace(s, '( )', '$1$1$1$1$1')", " " * 10),
        (f"array_join(a, '{'-' * 60}')", f"a{'-' * 60}a"),
        ("flink_printf(concat('%', c, 's'), t)", " x7"),
        ("flink_unnest(flink_multiset(flink_split(s, '')), 1)", [" ", " "]),
    ],
)
def test_the_largest_results_fail_and_the_others_are_given(text: str, ordinary: object) -> None:
    events = batch(60_000)

    found = compile_expression(text, events.schema)(events)

    assert found.failed is not None
    assert found.reasons is not None
    failed = found.failed.to_pylist()
    assert not any(failed[row] for row in range(ROWS) if row % 10)
    assert 150 < sum(failed) <= 200
    assert found.values[7].as_py() == ordinary
    assert "this batch would have more than" in found.reasons.drop_null()[0].as_py()
    assert found.values.nbytes < 3 * MIB


def test_results_that_fit_do_not_fail() -> None:
    events = batch(30)

    assert compile_expression("concat(flink_repeat(t, n), flink_lpad(t, 90, 'ab'))", events.schema)(events).failed is None


def test_constants_for_a_whole_batch_fail() -> None:
    events = batch(1)

    found = compile_expression("flink_repeat('x', 1000000)", events.schema)(events)

    assert found.failed is not None
    assert found.failed.true_count == ROWS


def test_rows_of_other_branches_are_not_computed() -> None:
    events = batch(60_000)

    found = compile_expression("case when n < 10 then flink_repeat(t, n) else t end", events.schema)(events)

    assert found.failed is None
    assert found.values[0].as_py() == "x0"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("flink_like(t, concat('%', t, '%a%a%a%a%a%a%a%a%a%a%b'))", False),
        ("key_value(t, 'a')", None),
        ("flink_date_format(timestamp'2024-01-01 00:00:00', t)", "the pattern has 200000 characters"),
        ("flink_from_unixtime(1, t)", "the pattern has 200000 characters"),
        ("flink_to_timestamp('2024', t)", None),
        ("flink_str_to_map('a', t)", "a separator has more than 500 characters"),
        ("char_length(rsql_backet(t, 'a', ']'))", 200_000),
        ("rsql_backet(concat('[x] [y', ']', left(t, 2)), '[', ']')", "bracket1 bracket2aa"),
        ("flink_similar('a', t)", "the pattern has 200000 characters"),
        ("flink_similar(t, lower('(A|AA)+B'))", "took more than 2 seconds"),
    ],
)
def test_long_texts_take_no_long_time(text: str, found: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etl.expressions.library.flink.like_patterns.SECONDS", 0.1)
    event = pa.record_batch({"t": ["a" * 200_000]})

    evaluated = compile_expression(text, event.schema)(event)

    if evaluated.reasons is None:
        assert evaluated.values[0].as_py() == found
    else:
        assert str(found).removeprefix("took more than 2 seconds") in evaluated.reasons[0].as_py()


@pytest.mark.parametrize("text", ["", "é", "日本語x", "abcdefgh", "\U0001f600" * 5, None])
@pytest.mark.parametrize("filling", ["*", "ab", "é-"])
@pytest.mark.parametrize("function", ["flink_lpad", "flink_rpad"])
def test_constant_fillings_are_those_of_fields(function: str, filling: str, text: str | None) -> None:
    event = pa.record_batch({"t": pa.array([text], pa.string()), "n": pa.array([6]), "p": [filling]})

    constant = compile_expression(f"{function}(t, 6, '{filling}')", event.schema)(event).values
    by_value = compile_expression(f"{function}(t, n, p)", event.schema)(event).values

    assert constant.to_pylist() == by_value.to_pylist()
