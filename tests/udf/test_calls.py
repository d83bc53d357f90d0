"""Calls of the user's functions in expressions: kinds, nulls, errors of single events, results of the wrong shape, time."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from test_signature import IMPORTS

from etl.api import ComponentError
from etl.expressions import analyse, compile_expression
from etl.udf.call_guard import CallGuard, CallTimeoutError
from etl.udf.calling import check_content
from etl.udf.code_files import CodeFileError, read_file, read_module
from etl.udf.declaration import CodeFile, UserFunction, with_functions
from etl.udf.parameters import FunctionDeclaration
from etl.udf.signature import read_function
from etl.udf.values import to_python

EVENTS = pa.record_batch(
    {
        "s": pa.array(["a b", "bad", None, "c"]),
        "n": pa.array([1, 2, 3, None], pa.int32()),
        "x": pa.array([1.0, None, 4.0, 9.0]),
    }
)


def _function(code: str, seconds: float = 30) -> UserFunction:
    from datetime import timedelta

    found = read_function(FunctionDeclaration("f", CodeFile("f.py", IMPORTS + code), "f", timedelta(seconds=seconds)))
    assert isinstance(found, UserFunction), found
    return found


def _evaluate(code: str, expression: str, seconds: float = 30) -> tuple[list[Any], dict[int, str]]:
    """The values, and the reasons of failed rows by number."""
    found = compile_expression(with_functions(expression, [_function(code, seconds)]), EVENTS.schema)(EVENTS)
    reasons = [] if found.reasons is None else found.reasons.to_pylist()
    return found.values.to_pylist(), {at: text for at, text in enumerate(reasons) if text is not None}


@pytest.mark.parametrize(
    ("code", "expression", "values"),
    [
        ("def f(x: str) -> str:\n    return x.upper()", "f(s)", ["A B", "BAD", None, "C"]),
        ("def f(x: str | None, n: int | None) -> bool:\n    return x is None or n is None", "f(s, n)", [False, False, True, True]),  # noqa: E501
        ("def f(x: str, end: str = '!') -> str:\n    return x + end", "f(s)", ["a b!", "bad!", None, "c!"]),
        ("def f(x: str) -> Word:\n    return Word(x[:1], len(x))", "f(s)", [{"word": w, "length": n} if w else None for w, n in (("a", 3), ("b", 3), (None, 0), ("c", 1))]),  # noqa: E501
        ("def f(x: str) -> Iterator[str]:\n    yield from x.split()", "f(s)", [["a", "b"], ["bad"], None, ["c"]]),
        ("def f(x: pa.StringArray) -> pa.BooleanArray:\n    return x.is_null()", "f(s)", [False, False, True, False]),
        ("def f(x: pa.Int64Array, n: int) -> pa.Int64Array:\n    import pyarrow.compute as pc\n    return pc.add(x, n)", "f(n, 10)", [11, 12, 13, None]),  # noqa: E501
        ("def f(x: NDArray[np.float64]) -> NDArray[np.float64]:\n    return np.sqrt(x)", "f(x)", [1.0, None, 2.0, 3.0]),
        ("def f(x: NDArray[np.float64]) -> NDArray[np.float64]:\n    return x * 2", "f(n)", [2.0, 4.0, 6.0, None]),
        ("def f(x: pl.Series) -> Annotated[pl.Series, 'string']:\n    return x.str.to_uppercase()", "f(s)", ["A B", "BAD", None, "C"]),  # noqa: E501
        ("def f(x: str) -> str:\n    return x * 2", "upper(f(lower(s)))", ["A BA B", "BADBAD", None, "CC"]),
        ("def f() -> int:\n    return 7", "f() + n", [8, 9, 10, None]),
    ],
)  # fmt: skip
def test_values(code: str, expression: str, values: list[Any]) -> None:
    assert _evaluate(code, expression) == (values, {})


RAISES = """
def f(x: str) -> str:
    if x == 'bad':
        raise KeyError(x)
    return x"""
RAISES_ON_ARRAY = """
def f(x: pa.StringArray) -> pa.StringArray:
    if 'bad' in x.to_pylist():
        raise ValueError('bad text')
    return x"""


def test_an_error_costs_only_its_event() -> None:
    line = IMPORTS.count("\n") + 4

    assert _evaluate(RAISES, "f(s)") == (["a b", None, None, "c"], {1: f"f() failed: KeyError: 'bad' (f.py:{line})"})
    assert _evaluate(RAISES_ON_ARRAY, "f(s)") == (
        ["a b", None, None, "c"],
        {1: f"f() failed: ValueError: bad text (f.py:{line})"},
    )


@pytest.mark.parametrize("code", [RAISES, RAISES_ON_ARRAY])
def test_it_is_called_only_for_events_that_need_it(code: str) -> None:
    values, failed = _evaluate(code, "case when n = 2 then 'two' else f(s) end")

    assert (values, failed) == (["a b", "two", None, "c"], {})


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (
            "def f(x: pa.StringArray) -> pa.StringArray:\n    return x.drop_null()[:0]",
            "ValueError: it returned 0 values for 1 ev",
        ),
        (
            "def f(x: pa.StringArray) -> pa.Int64Array:\n    return x",
            "it returned values of type string, and its annotation is big",
        ),
        ("def f(x: pa.StringArray) -> pa.Int64Array:\n    return 5", "TypeError: it returned int, and no array"),
        (
            "def f(x: pa.StringArray) -> pa.BooleanArray:\n    return pa.array([None] * len(x), pa.int8())",
            "it returned values of",
        ),
        ("def f(x: str | None) -> int:\n    return 'one'", "f() returned str, which is not a bigint"),
        ("def f(x: str | None) -> int:\n    return 2**70", "f() returned int, which is not a bigint"),
        (
            "def f(x: str | None) -> Word:\n    return 5",
            "which is not a struct<word:string,length:bigint>: it lacks some of word",
        ),
        (
            "class Bad:\n    length = 1\n    @property\n    def word(self): raise SystemExit('no word')\n"
            "def f(x: str | None) -> Word:\n    return Bad()",
            "returned Bad, which is not a struct<word:string,length:bigint>: no word",
        ),
        (
            "def f(x: pa.StringArray) -> pa.StringArray:\n    import pyarrow.compute as pc\n"
            "    return pa.array([b'\\xff'] * len(x)).view(pa.string())",
            "ArrowInvalid: Invalid UTF8 sequence at string index 0",
        ),
    ],
)
def test_results_of_another_shape_are_errors(code: str, reason: str) -> None:
    values, failed = _evaluate(code, "f(s)")

    assert values == [None] * 4
    assert sorted(failed) == [0, 1, 2, 3]
    assert all(reason in text for text in failed.values())


def test_a_file_that_cannot_be_run_ends_the_run_with_words() -> None:
    with pytest.raises(ComponentError, match=r"the file 'f.py' cannot be run: ZeroDivisionError: division by zero \(f.py:\d+\)"):
        _evaluate("y = 1 / 0\ndef f(x: str) -> str: ...", "f(s)")


@pytest.mark.slow
def test_a_process_that_a_call_forks_ends_where_the_call_returns(tmp_path: Path) -> None:
    for body in ("return x", "raise ValueError(x)"):
        marks = tmp_path / body.partition(" ")[0]
        code = f"import os\ndef f(x: str) -> str:\n    if os.fork() == 0:\n        {body}\n    os.wait()\n    return x\n"

        assert _evaluate(code, "f(s)")[1] == {}
        with marks.open("a") as file:  # a process that went on would write, too
            file.write("once\n")

        assert marks.read_text() == "once\n"


def test_what_is_no_exception_costs_only_its_event() -> None:
    code = "class Stop(BaseException):\n    def __str__(self):\n        raise SystemExit\ndef f(x: str) -> str:\n    if x == 'bad': raise {}\n    return x"  # noqa: E501

    for raised, reason in {
        "GeneratorExit": "GeneratorExit",
        "BaseException('over')": "BaseException: over",
        "Stop": "Stop",
    }.items():
        values, failed = _evaluate(code.format(raised), "f(s)")

        assert values == ["a b", None, None, "c"]
        assert failed[1].startswith(f"f() failed: {reason} (f.py:")
    with pytest.raises(KeyboardInterrupt):
        _evaluate(code.format("KeyboardInterrupt"), "f(s)")


def test_a_call_of_exit_ends_no_process() -> None:
    values, failed = _evaluate("import sys\ndef f(x: str) -> str:\n    sys.exit(3) if x == 'bad' else None\n    return x", "f(s)")

    assert values == ["a b", None, None, "c"]
    assert failed[1].startswith("f() failed: SystemExit: 3")
    with pytest.raises(ComponentError, match=r"the file 'f\.py' cannot be run: SystemExit"):
        _evaluate("raise SystemExit\ndef f(x: str) -> str: ...", "f(s)")


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("f(n)", "f() takes a text as its first argument (x), and this is int"),
        ("f()", "f() takes 1 argument, and here are 0"),
        ("f(s, s)", "f() takes 1 argument, and here are 2"),
    ],
)
def test_arguments_are_checked(expression: str, message: str) -> None:
    found = analyse(with_functions(expression, [_function(RAISES)]), EVENTS.schema)

    assert [finding.message for finding in found.findings] == [message]


def test_a_constant_parameter_takes_no_field() -> None:
    function = _function("def f(x: pa.StringArray, n: int) -> pa.StringArray: ...")

    found = analyse(with_functions("f(s, n)", [function]), EVENTS.schema)

    assert "f() takes a constant as its second argument" in found.findings[0].message


HANGS = "def f(x: str) -> str:\n    while x == 'bad':\n        pass\n    return x"
SLEEPS = "def f(x: pa.StringArray) -> pa.StringArray:\n    import time\n    time.sleep(60)\n    return x"


def test_a_call_that_hangs_is_ended() -> None:
    assert _evaluate(HANGS, "f(s)", 0.05)[0] == ["a b", None, None, "c"]

    values, failed = _evaluate(SLEEPS, "f(s)", 0.05)

    assert values == [None] * 4
    assert "it took longer than 0.05 s" in failed[0]


def _spin(seconds: float) -> None:
    with CallGuard(seconds):
        end = time.monotonic() + 120
        while time.monotonic() < end:
            pass


def _in_thread(call: Callable[[], None]) -> list[BaseException]:
    caught: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(120)
    return caught


def test_a_call_in_another_thread_is_ended_too() -> None:
    [error] = _in_thread(lambda: _spin(0.05))

    assert isinstance(error, CallTimeoutError)
    assert str(error) == "it took longer than 0.05 s"


def test_an_error_that_comes_as_a_call_ends_never_comes_later() -> None:
    found: list[BaseException] = []

    def call_often() -> None:
        until = time.monotonic() + 60
        while len(found) < 50 and time.monotonic() < until:
            try:
                with CallGuard(0.001):
                    time.sleep(0.001)
            except CallTimeoutError as error:
                found.append(error)
            sum(map(abs, range(10)))  # an error that is late would come here

    assert _in_thread(call_often) == []
    assert len(found) == 50


def test_calls_in_a_row_have_the_whole_time_each() -> None:
    with CallGuard(0.5) as guard:
        for _ in range(22):
            guard.next_call()
            time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("    while True:\n        try:\n            for _ in range(9**9): str(_)\n        except BaseException: pass\n", 1),
        ("    sum(range(10**12))\n", -signal.SIGPROF),
    ],
    ids=["it catches the error", "it lets no thread run"],
)
def test_a_call_that_does_not_react_ends_the_process(body: str, status: int) -> None:
    code = f"import etl.udf.call_guard as g\ng.GRACE = 0.2\ndef f():\n{body}"
    code += "with g.CallGuard(0.1):\n    f()\n"

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)

    assert ended.returncode == status
    assert "in f" in ended.stderr


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_that_python_cannot_hold_are_none(unit: str) -> None:
    last = 253_402_300_799 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 1}[unit]
    times = pa.array([0, last, 2**62, -(2**62), None], pa.int64()).cast(pa.timestamp(unit, "UTC"))

    found = to_python(times)

    assert [one is None for one in found] == [False, False, unit != "ns", unit != "ns", True]


def test_dates_and_nested_times_that_python_cannot_hold_are_none() -> None:
    dates = pa.array([0, 2_932_896, 2_932_897, -719_162, -719_163], pa.int32()).cast(pa.date32())
    times = pa.array([0, 2**62], pa.int64()).cast(pa.timestamp("us", "UTC"))
    nested = pa.StructArray.from_arrays([pa.ListArray.from_arrays([0, 1, 2], times), pa.array([1, 2])], ["at", "n"])

    assert [one is None for one in to_python(dates)] == [False, False, True, False, True]
    assert to_python(nested) == [{"at": [datetime(1970, 1, 1, tzinfo=UTC)], "n": 1}, {"at": [None], "n": 2}]


def test_an_error_without_a_text_costs_only_its_event() -> None:
    code = "class Bad(Exception):\n    def __str__(self):\n        return self.reason\n\ndef f(x: str) -> str:\n    if x == 'bad':\n        raise Bad\n    return x"  # noqa: E501

    values, failures = _evaluate(code, "f(s)")

    assert values == ["a b", None, None, "c"]
    assert list(failures) == [1]
    assert failures[1].startswith("f() failed: Bad (f.py:")


def test_an_iterator_without_end_costs_only_its_event() -> None:
    code = "def f(x: str) -> Iterator[int]:\n    import itertools\n    return itertools.repeat(1) if x == 'bad' else iter([2])"

    values, failures = _evaluate(code, "f(s)")

    assert values == [[2], None, None, [2]]
    assert failures == {1: "f() failed: ValueError: it returned more than 1,048,576 results for one event"}


@pytest.mark.slow
def test_a_guard_inside_another_leaves_it_its_time() -> None:
    def call() -> None:
        with CallGuard(0.05):
            with CallGuard(30):
                pass
            _spin(5)

    with pytest.raises(CallTimeoutError):
        call()


@pytest.mark.parametrize("path", ["a\0b.py", "~nobody_has_this_name/f.py", "x" * 5000])
def test_a_path_that_cannot_be_is_reported(path: str) -> None:
    with pytest.raises(CodeFileError, match="cannot be read"):
        read_file(path, Path())


@pytest.mark.parametrize("name", ["", "/", "..", "a..b", "a\0", "x" * 5000])
def test_a_name_that_no_module_can_have_is_reported(name: str) -> None:
    with pytest.raises(CodeFileError, match="is not the name of a module"):
        read_module(name, Path())


@pytest.mark.parametrize("bad", [b"\xff", b"abcdefgh\xff", b"\xffabcdefgh"])
def test_texts_are_checked_to_be_utf_8_within_a_slice(bad: bytes) -> None:
    texts = pa.array([b"ok", bad, "é".encode(), None]).view(pa.string())

    with pytest.raises(pa.ArrowInvalid):
        check_content(texts)
    with pytest.raises(pa.ArrowInvalid):
        check_content(texts[1:2].cast(pa.large_string(), safe=False))
    for good in (texts[:1], texts[2:], texts[1:1], pa.array([["é"]]), pa.array([None], pa.string()), pa.array([1])):
        check_content(good)
