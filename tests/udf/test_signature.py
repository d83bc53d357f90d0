"""Signatures of the user's functions are read from the syntax tree, and their mistakes have a place and a hint."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from etl.api import Finding, format_type
from etl.udf.declaration import CodeFile, UserFunction
from etl.udf.parameters import FunctionDeclaration
from etl.udf.signature import read_function

IMPORTS = """\
import datetime, decimal
import numpy as np
import polars as pl
import pyarrow as pa
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from numpy.typing import NDArray
from typing import Annotated, NamedTuple, Optional

class Word(NamedTuple):
    word: str
    length: int

@dataclass
class Point:
    x: float
    label: "str"

Texts = list[str]
"""

AGGREGATE = """
 def create(self) -> int: ...
 def add(self, state: int, x: int) -> int: ...
 def merge(self, a: int, b: int) -> int: ...
 def finish(self, state: int) -> str: ...
"""


def _read(code: str) -> UserFunction | str:
    """The function ``f``, or the line of what is wrong with it, what it is, and the hint."""
    found = read_function(FunctionDeclaration("f", CodeFile("f.py", IMPORTS + code), "f"))
    if isinstance(found, UserFunction):
        return found
    assert found.location is not None
    return f"{found.location.line - IMPORTS.count(chr(10))}: {found.message.removeprefix(chr(39))} | {found.hint}"


@pytest.mark.parametrize(
    ("signature", "kind", "parameters", "result"),
    [
        ("x: str) -> int", "values", ["string"], "bigint"),
        ("x: bool, y: float) -> bytes", "values", ["boolean", "double"], "binary"),
        ("x: datetime.datetime) -> datetime.date", "values", ["timestamp"], "date"),
        ("x: list[str]) -> dict[str, int]", "values", ["array<string>"], "map<string,bigint>"),
        ("x: 'str | None') -> Optional[str]", "values", ["string"], "string"),
        ("x: Annotated[Decimal, 'decimal(9,2)']) -> Word", "values", ["decimal(9,2)"], "struct<word:string,length:bigint>"),
        ("x: Point) -> Texts", "values", ["struct<x:double,label:string>"], "array<string>"),
        ("x: str) -> Iterator[Word]", "values", ["string"], "array<struct<word:string,length:bigint>>"),
        ("x: pa.StringArray) -> pa.Int64Array", "arrow", ["string"], "bigint"),
        ("x: pa.Array, n: int = 3) -> Annotated[pa.Array, 'array<string>']", "arrow", [None, "bigint"], "array<string>"),
        ("x: NDArray[np.float64]) -> NDArray[np.bool_]", "numpy", ["double"], "boolean"),
        ("x: pl.Series) -> Annotated[pl.Series, 'string']", "polars", [None], "string"),
    ],
)
def test_annotations_are_types(signature: str, kind: str, parameters: list[str | None], result: str) -> None:
    found = _read(f"def f({signature}: ...\n")

    assert isinstance(found, UserFunction), found
    assert found.kind == kind
    assert [None if one.type is None else format_type(one.type) for one in found.parameters] == parameters
    assert format_type(found.result) == result


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def f(x) -> str: ...", "the parameter 'x' has no annotation"),
        ("def f(x: str): ...", "it does not say what it returns | write def f(…) -> str:"),
        ("def f(x: complex) -> str: ...", "'complex' is not a type here"),
        ("def f(x: str | int) -> str: ...", "'str | int' is several types | one type, or one and None: str | None"),
        ("def f(x: list) -> str: ...", "list does not say of what | write for example list[str]"),
        ("def f(x: Decimal) -> str: ...", "Decimal does not say its digits"),
        ("def f(x: Annotated[pa.Array, 'txt']) -> str: ...", "'txt' is not a type"),
        ("def f(*x: str) -> str: ...", "the parameter *x stands for any number | name each parameter"),
        ("def f(*, x: str) -> str: ...", "the parameter 'x' takes its argument by name only"),
        ("async def f(x: str) -> str: ...", "an async function is not called here | write def"),
        ("def f(x: pa.StringArray) -> str: ...", "it takes arrays and returns a single value"),
        ("def f(x: str) -> pa.StringArray: ...", "it takes no array"),
        ("def f(x: pa.StringArray) -> NDArray[np.int64]: ...", "the annotations mix arrays of arrow and numpy"),
        ("def f(x: pa.StringArray) -> pa.Array: ...", "'pa.Array' does not say the type of its values"),
        ("class f: ...", "class 'f' has no method 'create' | an aggregate has create, add, merge and finish"),
        (
            f"class f:{AGGREGATE}".replace("x: int) -> int", "x: int) -> str"),
            "add has a state of a text, and create gives bigint | one type is the state of all methods",
        ),
        (f"class f:{AGGREGATE}".replace("state: int) -> str", "state: str) -> str"), "finish has a state of a text"),
        (f"class f:{AGGREGATE} def __init__(self, n): ...", "made without arguments, and its __init__ needs 'n'"),
        ("import not_there\ndef f(x: str) -> str: ...", "there is no module 'not_there'"),
        ("from . import other\ndef f(x: str) -> str: ...", "a relative import needs a package"),
        ("def f(x: str) -> str: (", "the file is not Python"),
    ],
)
def test_mistakes_have_a_place(code: str, message: str) -> None:
    found = _read(code)

    assert isinstance(found, str)
    assert re.match(r"\d+: function 'f': ", found)
    assert message in found


def test_a_function_that_the_file_does_not_have_is_a_mistake_of_the_pipeline() -> None:
    found = read_function(FunctionDeclaration("f", CodeFile("f.py", IMPORTS + "def g(x: str) -> str: ..."), "f"))

    assert isinstance(found, Finding)
    assert (found.message, found.hint) == ("function 'f': there is no function 'f' in f.py", "the file has g, Word, Point")
    assert found.location is None


def test_an_aggregate_has_methods_of_the_classes_that_it_is_derived_from() -> None:
    found = _read(f"class base:{AGGREGATE}class f(base):\n @staticmethod\n def merge(a: int, b: int) -> int: ...\n")

    assert isinstance(found, UserFunction), found
    assert (found.form, found.state, found.result, found.state_may_be_none) == ("aggregate", pa.int64(), pa.string(), False)


def test_a_file_can_be_read_any_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etl.udf.annotations._MAX_ANNOTATIONS", 20)

    found = [_read("def f(x: str, y: int) -> str: ...") for _ in range(20)]

    assert [one for one in found if not isinstance(one, UserFunction)] == []


def test_only_code_changes_the_fingerprint() -> None:
    one = CodeFile("f.py", "def f(x: str) -> str:\n    return x\n")

    assert CodeFile("f.py", "# a comment\ndef f(x: str)->str:\n\n    return x").fingerprint == one.fingerprint
    assert CodeFile("f.py", "def f(x: str) -> str:\n    return x + x\n").fingerprint != one.fingerprint


def test_a_parameter_without_none_takes_no_null() -> None:
    found = _read("def f(x: str, y: str | None) -> str: ...")

    assert isinstance(found, UserFunction)
    assert [one.takes_null for one in found.parameters] == [False, True]
    assert found.result == pa.string()
