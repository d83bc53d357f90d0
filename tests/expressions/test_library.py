"""The table of functions: every example gives what it says, and calls are checked against the arguments."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from decimal import Decimal
from itertools import product

import pyarrow as pa
import pytest

from etl.api import PlanError
from etl.expressions import analyse, compile_expression
from etl.expressions.calls.arguments import MisuseError
from etl.expressions.library.catalogue import all_functions, find
from etl.expressions.library.function import KINDS, PREFIXES, LibraryFunction
from etl.expressions.library.kernels import RowError, by_value
from etl.expressions.library.pages import function_pages, show
from etl.expressions.signatures.spark_names import FUNCTIONS as SPARK_FUNCTIONS

ONE_ROW = pa.record_batch({"": [0]})


def evaluate(text: str) -> object:
    return compile_expression(text, pa.schema([]))(ONE_ROW).values.to_pylist()[0]


@pytest.mark.slow
def test_every_example_gives_what_it_says() -> None:
    wrong = {}
    for function in all_functions():
        try:
            found: object = show(evaluate(function.example))
        except PlanError as error:
            found = error
        if function.name not in function.example or str(found).strip('"') != show(function.gives).strip('"'):
            wrong[function.name] = (function.example, found)

    assert wrong == {}


def test_a_result_has_the_type_that_is_announced() -> None:
    wrong = {}
    for function in all_functions():
        found = analyse(function.example, pa.schema([])).type
        if function.example.startswith(function.name) and not pa.types.is_null(function.type) and found != function.type:
            wrong[function.name] = str(found)

    assert wrong == {}


def test_names_are_unique_and_described() -> None:
    names = [function.name for function in all_functions()]

    assert len(names) == len(set(names))
    assert not set(names) & SPARK_FUNCTIONS
    assert all(function.about.endswith(".") and "\n" not in function.about for function in all_functions())


def test_the_pages_have_all_functions() -> None:
    text = "\n".join(text for _, _, text in function_pages())

    assert all(f"`{function.call}`" in text for function in all_functions())


TWICE = LibraryFunction(
    "twice", "text: string, more: integer?", "string", by_value(pa.string(), lambda *a: a[0] * 2), "x.", "", ""
)


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("ip_in('10.0.0.1')", "wrong-type", "ip_in() takes 2 arguments or more, and here are 1"),
        ("ip_in('10.0.0.1', 1)", "wrong-type", "argument 2 of ip_in(), network, has to be a text, and this is int"),
        ("entropy('a', 'b')", "wrong-type", "entropy() takes 1 argument, and here are 2"),
        ("entropi('a')", "unknown-function", "there is no function 'entropi'"),
    ],
)
def test_a_wrong_call_is_found(text: str, code: str, message: str) -> None:
    (finding,) = analyse(text, pa.schema([])).findings

    assert (finding.code, finding.message) == (code, message)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("entropi('a')", "did you mean 'entropy'?"),
        ("json_valu('a', 'b')", "did you mean 'json_value' in a SQL script, 'flink_json_value' in expressions of YAML?"),
        ("json_value('a', 'b')", "in expressions of YAML it is 'flink_json_value' or 'rsql_json_value'"),
        ("no_such_function('a')", None),
    ],
)
def test_the_hint_of_an_unknown_function_knows_those_of_scripts(text: str, hint: str | None) -> None:
    assert [finding.hint for finding in analyse(text, pa.schema([])).findings] == [hint]


def test_a_function_of_values_is_called_once_for_each_distinct_combination() -> None:
    calls = []

    def join(one: str, other: int) -> str:
        calls.append((one, other))
        if other == 3:
            raise RowError("three")
        return one * other

    from etl.expressions import bound_node as b
    from etl.expressions.rows import ActiveRows

    node = by_value(pa.string(), join)(b.column("x", pa.string()), b.column("n", pa.int64()))
    columns = {"x": pa.array(["a", "a", "b", None, "b"]), "n": pa.array([2, 2, 3, 1, None])}
    rows = ActiveRows(columns, 5)
    assert node.run is not None
    found = rows.finish(node.run(rows))

    assert sorted(calls) == [("a", 2), ("b", 3)]
    assert found.values.to_pylist() == ["aa", "aa", None, None, None]
    assert found.failed is not None
    assert found.failed.to_pylist() == [False, False, True, False, False]


def test_the_dialect_is_the_prefix_of_the_name() -> None:
    assert all((function.dialect == "own") == (not function.name.startswith(tuple(PREFIXES))) for function in all_functions())
    assert find("ip_in") is not None
    assert find("flink_no_such_function") is None
    with pytest.raises(MisuseError):
        TWICE.bind([])


EXTREMES = pa.record_batch(
    {
        "time": pa.array([2**62, -(2**62), 0, None], pa.int64()).cast(pa.timestamp("us", "UTC")),
        "date": pa.array([2**30, -(2**30), 0, None], pa.int32()).cast(pa.date32()),
        "whole": pa.array([2**63 - 1, -(2**63), 0, None], pa.int64()),
        "number": pa.array([float("inf"), float("nan"), 1.7e308, None], pa.float64()),
        "text": pa.array(["a\0b", "9" * 5000, "", None]),
        "flag": pa.array([True, False, None, True]),
        "bytes": pa.array([b"\xff\xfe", b"", b"\0", None], pa.binary()),
        "digits": pa.array([Decimal(10**28 - 1), Decimal(1 - 10**28), Decimal(0), None], pa.decimal128(38, 10)),
        "map": pa.array([[("a", 1)], [], [("", None)], None], pa.map_(pa.string(), pa.int64())),
    }
)
EXTREMES = EXTREMES.append_column("times", pa.ListArray.from_arrays([0, 1, 2, 3, 4], EXTREMES["time"]))
EXTREMES = EXTREMES.append_column("row", pa.StructArray.from_arrays([EXTREMES["time"]], ["at"]))
ARGUMENTS = {
    "string": ["text", "'yyyy-MM-dd'", "'a'"],
    "text": ["text", "time", "date", "number", "digits"],
    "integer": ["whole", "1"],
    "number": ["number", "digits", "whole"],
    "array": ["times"],
}
OF_KINDS = {"binary": "bytes", "int": "1", "bigint": "whole", "double": "number", "boolean": "flag", "timestamp": "time"}


def _extreme_calls(function: LibraryFunction, choose: random.Random) -> Iterator[str]:
    """Calls with values at the ends of their types."""
    names = {id(kind): name for name, kind in KINDS.items()}
    for _ in range(3):
        max_arguments = function.min_arguments + 2 if function.max_arguments is None else function.max_arguments
        given = []
        for at in range(choose.randint(function.min_arguments, max_arguments)):
            parameter = function.parameters[min(at, len(function.parameters) - 1)]
            name = names[id(choose.choice(parameter.kinds))]
            given.append(
                choose.choice(EXTREMES.schema.names if name == "any" else ARGUMENTS.get(name, [OF_KINDS.get(name, name)]))
            )
        yield f"{function.name}({', '.join(given)})"


def test_a_pattern_of_the_data_has_a_limit() -> None:
    events = pa.record_batch({"text": ["9" * 501, "ab"]})

    found = compile_expression("flink_regexp(text, text)", events.schema)(events)

    assert found.values.to_pylist() == [None, True]
    assert found.reasons is not None
    assert found.reasons.to_pylist() == ["the pattern has 501 characters; one that is not a constant has at most 500", None]


@pytest.mark.slow
def test_values_at_the_ends_of_their_types_end_no_run() -> None:
    choose, calls = random.Random(15), 0
    for function in all_functions():
        for call in _extreme_calls(function, choose):
            try:
                run = compile_expression(call, EXTREMES.schema)
            except PlanError:
                continue
            calls += 1
            assert len(run(EXTREMES).values) == 4, call

    assert calls > 500


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("flink_round(cast('1.5e300' as double), 2)", 1.5e300),
        ("flink_round(cast('2.345' as double), 1000000000)", 2.345),
        ("flink_split_index('a', 9223372036854775807, 0)", None),
        ("ip_from_integer(cast('Infinity' as double))", None),
    ],
)
def test_large_numbers(text: str, value: object) -> None:
    assert evaluate(text) == value


@pytest.mark.parametrize("seconds", [2**63 - 1, -(2**63) + 1, 10**13])
def test_a_number_beyond_all_times_is_no_time(seconds: int) -> None:
    batch = pa.record_batch({"n": pa.array([seconds, 0], pa.int64())})

    times = [compile_expression(f"flink_to_timestamp_ltz(n, {digits})", batch.schema)(batch).values for digits in (0, 3)]
    texts = compile_expression("flink_from_unixtime(n)", batch.schema)(batch).values

    assert times[0].is_null().to_pylist() == texts.is_null().to_pylist() == [True, False]
    assert times[1].is_null().to_pylist() == [seconds != 10**13, False]


@pytest.mark.parametrize(
    "expression",
    [
        "flink_multiset(flink_array(flink_array(1)))",
        "flink_array_sort(flink_array(flink_row(1, 'a'), flink_row(2, 'b')))",
        "flink_array_max(flink_array(flink_array(1), flink_array(2)))",
    ],
)
def test_elements_with_values_inside_have_no_order_and_are_no_keys(expression: str) -> None:
    (finding,) = analyse(expression, pa.schema([])).findings

    assert "single values" in finding.message


def test_like_is_the_regular_expression_of_its_signs() -> None:
    patterns = ["".join(signs) for size in range(5) for signs in product("ab_%", repeat=size)]
    texts = ["".join(signs) for size in range(4) for signs in product("ab\n", repeat=size)]
    signs = {"_": ".", "%": ".*"}
    expected = [
        [re.fullmatch("".join(signs.get(sign, sign) for sign in pattern), text, re.DOTALL) is not None for text in texts]
        for pattern in patterns
    ]

    rows = pa.record_batch({"t": texts * len(patterns), "p": [pattern for pattern in patterns for _ in texts]})
    found = compile_expression("flink_like(t, p)", rows.schema)(rows).values.to_pylist()

    assert found == [one for row in expected for one in row]


@pytest.mark.parametrize(
    "call", ["flink_repeat(null, n)", "flink_repeat('a', cast(null as int))", "flink_repeat(s, cast(null as bigint))"]
)
def test_nulls_that_are_constants_are_repeated_to_nulls(call: str) -> None:
    batch = pa.record_batch({"n": pa.array([1, 2, None], pa.int32()), "s": ["a", "", None]})

    found = compile_expression(call, batch.schema)(batch)

    found.values.validate(full=True)
    assert found.values.to_pylist() == [None, None, None]


@pytest.mark.parametrize("call", ["rsql_year(s, '')", "rsql_isvalidtime(s, '')"])
def test_an_empty_pattern_of_times_is_an_error(call: str) -> None:
    [finding] = analyse(call, pa.schema([("s", pa.string())])).findings

    assert "the pattern is empty" in finding.message


NULLS = {
    "any": "s", "text": "s", "string": "s", "binary": "y", "integer": "i", "int": "i", "bigint": "i", "number": "d",
    "double": "d", "boolean": "b", "date": "day", "timestamp": "ts", "time": "null", "interval": "flink_interval_millis(i)",
    "array": "list", "map": "map", "row": "row",
}  # fmt: skip
"""Kind of an argument → a field of that kind."""


@pytest.mark.slow
def test_a_null_without_a_type_ends_no_function() -> None:
    row = {"s": "a", "y": b"a", "i": 1, "d": 1.0, "b": True, "list": ["a"], "map": [("a", 1)], "row": {"a": 1}}
    types = {"map": pa.map_(pa.string(), pa.int64()), "day": pa.date32(), "ts": pa.timestamp("us", "UTC")}
    columns = {name: pa.array([value, None], types.get(name)) for name, value in (row | {"day": 0, "ts": 0}).items()}
    batch = pa.record_batch(columns)
    given = {function.name: [] for function in all_functions()}
    for function in all_functions():
        kinds = [next(name for name, kind in KINDS.items() if kind is one.kinds[0]) for one in function.parameters]
        for nulls in product([False, True], repeat=min(len(kinds), 3)):
            arguments = ["null" if is_null else NULLS[kind] for kind, is_null in zip(kinds, (*nulls, *[False] * 9), strict=False)]
            text = f"{function.name}({', '.join(arguments)})"
            found = analyse(text, batch.schema)
            if not found.errors and not found.spark_reason:
                compile_expression(text, batch.schema)(batch).values.validate(full=True)
                given[function.name].append(text)

    without = [name for name, texts in given.items() if not texts]
    assert len(without) < 80, without


@pytest.mark.parametrize("number", [10**38 - 1, "'99999999999999999999'", "1e300D"])
def test_positions_beyond_all_texts_are_those_of_nothing(number: object) -> None:
    assert evaluate(f"rsql_splitindex('a,b', ',', {number})") is None
    if number != "1e300D":
        assert evaluate(f"rsql_blink_substr('abc', {number})") == ""
        assert evaluate(f"rsql_regexcount('abc', 'b', {number})") == 0
