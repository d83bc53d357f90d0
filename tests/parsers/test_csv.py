"""CSV: quotes, delimiters, types, lines with too few or too many values, and against Python's reader."""

from __future__ import annotations

import csv
import io
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.csv.parser import Csv

ABC = ["a", "b", "c"]
NO_RECORD = "is not a record of 3 values with ',' between"


def parse(text: str | None, names: list[str] = ABC, **options: Any) -> Any:
    """The values of a record, or why it failed."""
    step = Csv(names=names, **options)
    assert list(step.check(pa.schema([("message", pa.string())]))) == []
    parsed = step.compile()(pa.array([text], pa.string()))
    types = [(name, pa.string() if c.type == pa.string_view() else c.type) for name, c in parsed.columns.items()]
    assert step.parsed() == pa.schema(types)
    if parsed.failed is not None and parsed.failed[0].as_py():
        return parsed.reasons if isinstance(parsed.reasons, str) else parsed.reasons[0].as_py()
    return [column[0].as_py() for column in parsed.columns.values()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,2,3", ["1", "2", "3"]),
        (",,", [None, None, None]),
        ('"1","2","3"', ["1", "2", "3"]),
        ('"a,b","c""d",""', ["a,b", 'c"d', None]),
        ('"""","""a""",x', ['"', '"a"', "x"]),
        ('"new\nline",\t, y ', ["new\nline", "\t", " y "]),
        ('a"b,c""d,\'e', ['a"b', 'c""d', "'e"]),
        ("é,日,\U0001f600\r\n", ["é", "日", "\U0001f600"]),
        ("1,2,3\n", ["1", "2", "3"]),
        ("\\,\\n,\x00", ["\\", "\\n", "\x00"]),
        ("1,2", NO_RECORD),
        ("1,2,3,4", NO_RECORD),
        ("", NO_RECORD),
        (None, NO_RECORD),
        ('"1,2,3', NO_RECORD),
        ('"1"x,2,3', NO_RECORD),
        (' "1",2,3', [' "1"', "2", "3"]),
        ("1,2\n3,4", NO_RECORD),
    ],
)
def test_records(text: str | None, expected: Any) -> None:
    assert parse(text) == expected


def test_other_dialects() -> None:
    assert parse('1;"2;3";4', delimiter=";") == ["1", "2;3", "4"]
    assert parse('1\t"2"\t', delimiter="\t") == ["1", "2", None]
    assert parse('"1"|"2|3', delimiter="|", quote="") == ['"1"', '"2', "3"]
    assert parse("'1','it''s',\"", quote="'") == ["1", "it's", '"']
    assert parse('"a\\"b","\\\\","x""y"', escape="backslash") == "is not a record of 3 values with ',' between"
    assert parse('"a\\"b","\\\\",\\x', escape="backslash") == ['a"b', "\\", "\\x"]
    assert parse("a.b*c", delimiter=".", names=["x", "y"]) == ["a", "b*c"]
    assert parse("1^2", delimiter="^", names=["x", "y"]) == ["1", "2"]


def test_blanks_around_values() -> None:
    assert parse(' 1 ,\t"2 " , a b ', trim=True) == ["1", "2 ", "a b"]
    assert parse(" ,  ,", trim=True) == [None, None, None]
    assert parse("1\t 2 \t3", trim=True, delimiter="\t") == ["1", "2", "3"]


def test_skipped_columns_and_one_column() -> None:
    assert parse('1,"2,""",3', names=["a", "", "c"]) == ["1", "3"]
    assert parse('"1"', names=["a"]) == ["1"]
    assert parse("", names=["a"]) == [None]


def test_fewer_values() -> None:
    assert parse("1", short=True) == ["1", None, None]
    assert parse('1,"2"\r\n', short=True) == ["1", "2", None]
    assert parse("", short=True) == [None, None, None]
    assert parse("1,2,3,4", short=True) == "is not a record of 1 to 3 values with ',' between"
    assert parse("1,2,3,", short=True) == "is not a record of 1 to 3 values with ',' between"
    assert parse("1,", short=True, names=["a"]) == "is not a record of 1 values with ',' between"
    assert parse('"1', short=True) == "is not a record of 1 to 3 values with ',' between"


def test_more_values() -> None:
    assert parse('1,2,3,4,"5', rest="rest") == ["1", "2", "3", '4,"5']
    assert parse("1,2,3", rest="rest") == ["1", "2", "3", None]
    assert parse("1,2", rest="rest") == "is not a record of 3 or more values with ',' between"
    assert parse("1,2", rest="rest", short=True) == ["1", "2", None, None]
    assert parse("1,2,3,4", rest="rest", short=True) == ["1", "2", "3", "4"]


VALUES: list[tuple[str, str, Any]] = [
    ("int", "2147483647", 2147483647),
    ("int", "2147483648", "field 'a' is '2147483648', not int"),
    ("int", "-5", -5),
    ("int", '"007"', 7),
    ("int", "", None),
    ("int", "1.0", "field 'a' is '1.0', not int"),
    ("int", "0x1F", "field 'a' is '0x1F', not int"),
    ("int", " 1", "field 'a' is ' 1', not int"),
    ("bigint", "9" * 30, f"field 'a' is '{'9' * 30}', not bigint"),
    ("double", "1e3", 1000.0),
    ("double", "-.5", -0.5),
    ("double", "5.", 5.0),
    ("double", "x", "field 'a' is 'x', not double"),
    ("boolean", "TRUE", True),
    ("boolean", "0", False),
    ("boolean", "yes", "field 'a' is 'yes', not boolean"),
    ("decimal(10,2)", "1.50", Decimal("1.50")),
    ("decimal(10,2)", "1.555", "field 'a' is '1.555', not decimal(10,2)"),
    ("date", "2024-02-29", date(2024, 2, 29)),
    ("date", "2023-02-29", "field 'a' is '2023-02-29', not date"),
    ("timestamp", "2024-02-29 12:00:00.5+01:00", datetime(2024, 2, 29, 11, 0, 0, 500_000, tzinfo=UTC)),
    ("timestamp", "", None),
    ("timestamp", "soon", "field 'a' is 'soon', not timestamp"),
    ("timestamp_ntz", "2024-02-29T12:00", datetime(2024, 2, 29, 12)),
    ("binary", "é", "é".encode()),
]


@pytest.mark.parametrize(("type_", "text", "expected"), VALUES)
def test_types(type_: str, text: str, expected: Any) -> None:
    found = parse(text, names=["a"], fields={"a": type_})

    assert found == (expected if isinstance(expected, str) else [expected])


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

    assert step.parsed().names == ["time", "bytes_in_total", "id.orig_h", "_4xx", "_"]
    assert Csv(header="a\tb", delimiter="\t", quote="").parsed().names == ["a", "b"]


@pytest.mark.parametrize("type_", [pa.string(), pa.string_view()])
def test_the_header_is_dropped(type_: pa.DataType) -> None:
    lines = ["time,bytes in total", "now,1", "time,bytes in t0tal", None, "time,bytes in total", "bad"]
    batch = pa.record_batch({"message": pa.array(lines, type_), "_offset": range(6)})
    step = Csv(names=["t", "n"], header="time,bytes in total")

    events, rejects = step.open(batch.schema)(batch)

    assert events.to_pylist() == [{"_offset": 1, "t": "now", "n": "1"}, {"_offset": 2, "t": "time", "n": "bytes in t0tal"}]
    assert [event["_offset"] for reject in rejects for event in reject.events.to_pylist()] == [3, 5]


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
