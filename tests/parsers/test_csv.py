"""CSV: quotes, delimiters, types, lines with too few or too many values, and against Python's reader."""

from __future__ import annotations

import csv
import io
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.csv.parser import Csv


def test_only_the_wrong_rows_fail() -> None:
    texts = [f"{n},x" if n % 7 else "no,x" for n in range(1000)] + ["1", "99999999999,x"]

    parsed = Csv(names=["a", "b"], fields={"a": "int"}).compile()(pa.array(texts))

    good = [bool(n % 7) for n in range(1000)] + [False, False]
    assert parsed.failed.to_pylist() == [not one for one in good]
    assert parsed.columns["a"].to_pylist() == [n if ok else None for n, ok in enumerate(good)]
    assert parsed.columns["b"].to_pylist() == ["x" if ok else None for ok in good]
    assert parsed.reasons.to_pylist()[-2:] == [
        "is not a record of 2 values with ',' between",
        "field 'a' is '99999999999', not int",
    ]


def test_names_from_the_header() -> None:
    step = Csv(header='time; "bytes; in total";id.orig_h;;4xx;é', delimiter=";", fields={"_4xx": "int"})

    assert step.parsed_fields().names == ["time", "bytes_in_total", "id.orig_h", "_4xx", "_"]
    assert Csv(header="a\tb", delimiter="\t", quote="").parsed_fields().names == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "code", "path"),
    [
        ({"names": ["a", "a"]}, "field-conflict", ("names", 1)),
        ({"names": ["a", "a.b"]}, "field-conflict", ("names",)),
        ({"names": ["a"], "rest": "a"}, "field-conflict", ("rest",)),
        ({"names": ["", ""]}, "no-field", ("names",)),
        ({}, "no-field", ("names",)),
        ({"header": "a b,a_b"}, "field-conflict", ("header",)),
        ({"header": "x," * 600 + "y", "delimiter": "\t"}, None, ()),
        ({"header": ",".join(f"c{n}" for n in range(501))}, "too-many-columns", ("header",)),
        ({"names": ["abc"], "fields": {"abd": "int"}}, "unknown-field", ("fields", "abd")),
        ({"names": ["a"], "fields": {"a": "array<int>"}}, "unreadable-type", ("fields", "a")),
        ({"names": ["a"], "delimiter": '"'}, "bad-delimiter", ("delimiter",)),
        ({"names": ["message"], "fields": {"message": "int"}, "on_error": "keep"}, "keep-conflict", ("on_error",)),
    ],
)
def test_findings(options: dict[str, Any], code: str | None, path: tuple[str, ...]) -> None:
    findings = list(Csv(**options).check(pa.schema([("message", pa.string())])))

    assert [(finding.code, finding.path) for finding in findings] == ([(code, path)] if code else [])


@pytest.mark.slow
@pytest.mark.parametrize("many", [100, 101, 250])
def test_many_columns(many: int) -> None:
    names = [f"c{n}" for n in range(many)]
    lines = [",".join(f'"{row}{n}"' if n % 3 else f"{row * n or ''}" for n in range(many)) for row in range(60)]
    lines += ["1,2", ",".join(lines[1:3]), "," * (many - 1), "," * (many - 2) + '"x']

    parsed = Csv(names=names).compile()(pa.array(lines))
    short = Csv(names=names, short=True, rest="rest").compile()(pa.array(lines))

    last = str(59 * (many - 1)) if (many - 1) % 3 == 0 else f"59{many - 1}"
    assert [parsed.columns[name][59].as_py() for name in ("c0", "c1", names[-1])] == [None, "591", last]
    assert parsed.failed.to_pylist() == [False] * 60 + [True, True, False, True]
    assert {parsed.columns[name][row].as_py() for name in names for row in range(60, 64)} == {None}
    assert short.failed.to_pylist() == [False] * 63 + [True]
    assert [short.columns[name][60].as_py() for name in ("c0", "c1", "c2", names[-1], "rest")] == ["1", "2", None, None, None]
    assert short.columns["rest"][61].as_py() == lines[2]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(st.text('ab,"\n\\\x00é', max_size=10), max_size=8))
def test_any_text_as_python_reads_it(texts: list[str]) -> None:
    parsed = Csv(names=["a", "b"], short=True).compile()(pa.array(texts, pa.string()))

    failed = parsed.failed.to_pylist() if parsed.failed is not None else [False] * len(texts)
    found = list(zip(*(parsed.columns[name].to_pylist() for name in "ab"), strict=True))
    assert len(found) == len(texts)
    for text, bad, values in zip(texts, failed, found, strict=True):
        if not bad:
            (record,) = list(csv.reader(io.StringIO(text.removesuffix("\n"), newline=""), strict=True)) or [[]]
            assert len(record) <= 2
            assert list(values) == [value or None for value in [*record, "", ""][:2]]


@settings(max_examples=60, deadline=None)
@given(st.text('a.9 ,"\n\x00é;', min_size=1, max_size=12), st.sampled_from(',;"\n \x00.'))
def test_any_header_is_read_or_refused(header: str, delimiter: str) -> None:
    step = Csv(header=header, delimiter=delimiter)

    if not list(step.check(pa.schema([("message", pa.string())]))):
        columns = step.compile()(pa.array([header, None])).columns
        assert list(columns) == [name for name in step.columns if name]


def test_huge_and_hostile_texts() -> None:
    texts = ["x" * 3_000_000 + ",y", '"' * 200_001, "," * 100_000, '"a\nb"' + "\x00,", '""' * 50_000 + ",1"]

    parsed = Csv(names=["a", "b"]).compile()(pa.array(texts))

    assert parsed.failed.to_pylist() == [False, True, True, True, False]
    assert parsed.columns["b"].to_pylist() == ["y", None, None, None, "1"]
    assert parsed.columns["a"][4].as_py() == '"' * 49_999
