"""Dissect: delimiters, modifiers, types and references."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.dissect.parser import Dissect


def parse(pattern: str, text: str | None, **options: Any) -> Any:
    """The fields of a text, or why it failed."""
    step = Dissect(pattern=pattern, **options)
    assert list(step.check(pa.schema([("message", pa.string())]))) == []
    parsed = step.compile()(pa.array([text], pa.string()))
    types = [(name, pa.string() if c.type == pa.string_view() else c.type) for name, c in parsed.columns.items()]
    assert step.parsed() == pa.schema(types)
    if parsed.failed is not None and parsed.failed[0].as_py():
        return parsed.reasons if isinstance(parsed.reasons, str) else parsed.reasons[0].as_py()
    return {name: column[0].as_py() for name, column in parsed.columns.items()}


def test_vectors(acceptance: Path) -> None:
    vectors = json.loads((acceptance / "dissect/dissect_tests.json").read_text())
    wrong, passed = [], 0

    for vector in vectors:
        found = parse(vector["tok"], vector["msg"])
        if isinstance(found, dict) and found | json.loads(found.pop("rest", None) or "{}") == vector["expected"]:
            passed += 1
        else:
            wrong.append((vector["name"], vector["expected"], found))

    assert wrong == []
    assert passed >= 15


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("%{a} %{b}", "1 2 3", {"a": "1", "b": "2 3"}),
        ("%{a} %{b}", "1\n2 3\n4", {"a": "1\n2", "b": "3\n4"}),
        ("%{a}: %{b}", "x:y: z: t", {"a": "x:y", "b": "z: t"}),
        ("[%{a}] - %{b}", "[x] y] - z", {"a": "x] y", "b": "z"}),
        ("%{a},%{b}", ",", {"a": "", "b": ""}),
        ("%{a}é%{b}", "üé日", {"a": "ü", "b": "日"}),
        ("%{a}--%{b}", "1---2", {"a": "1", "b": "-2"}),
        ("%{a}\t%{b}|%{?c}", "1\t2|3", {"a": "1", "b": "2"}),
        ("%{[source][ip]} %{b.c}", "1 2", {"source.ip": "1", "b.c": "2"}),
        ("%{a} %{a}", "1 2", {"a": "2"}),
        ("%{a->} %{b}", "1    2", {"a": "1", "b": "2"}),
        ("%{a->} %{b}", "1 2  3", {"a": "1", "b": "2  3"}),
        ("[%{a}]%{->}[%{b}]", "[1]    [2]", {"a": "1", "b": "2"}),
        ("%{a->}ab%{b}", "1ababa", {"a": "1", "b": "a"}),
        ("%{a} %{+a} %{b}", "1 2 3", {"a": "1 2", "b": "3"}),
        ("%{+a} %{b} %{+a}", "1 2 3", {"a": "1 3", "b": "2"}),
        ("%{a}, %{+a}: %{+a} %{b}", "1, 2: 3 4", {"a": "1, 2: 3", "b": "4"}),
        ("%{+a/2} %{b} %{+a/1}", "1 2 3", {"a": "3 1", "b": "2"}),
        ("%{a->} %{+a}", "1   2", {"a": "1 2"}),
        ("%{a} x %{b} tail", "1 x 2 tail and more", {"a": "1", "b": "2"}),
        ("%{a|int} %{b->|double} %{c|boolean}", "-7 1.5e3   true", {"a": -7, "b": 1500.0, "c": True}),
        ("%{a|int} %{b|double->} %{c|boolean}", "7 .5 0", {"a": 7, "b": 0.5, "c": False}),
        ("%{a|int},%{b}", ",x", {"a": None, "b": "x"}),
        ("%{a#3}%{b#2}%{c}", "abcdefg", {"a": "abc", "b": "de", "c": "fg"}),
        ("%{a#3}-%{b}", "a-b-c-d", {"a": "a-b", "b": "c-d"}),
        ("%{a}:%{b#2}", "x:yz", {"a": "x", "b": "yz"}),
        ("%{a#2}%{b#2}", "éüñö", {"a": "éü", "b": "ñö"}),
        ("%{?a#4} %{b}", "skip 1", {"b": "1"}),
        ("%{+a/2#2}%{+a/1#2}", "abcd", {"a": "cd ab"}),
        ("%{a#2}%{+a#2}", "abcd", {"a": "ab cd"}),
        ("%{a#2->} %{b}", "ab    c", {"a": "ab", "b": "c"}),
        ("%{y#4|integer}%{m#2|integer}%{d#2|long}", "20240229", {"y": 2024, "m": 2, "d": 29}),
        ("%{n#6|int}%{ok#5|boolean}|%{ip|ip}", "   12 true |::1", {"n": 12, "ok": True, "ip": "::1"}),
        ("%{a|float} %{b|double->} %{c|string}", "1.5 2.5   x", {"a": 1.5, "b": 2.5, "c": "x"}),
        ("%{t|timestamp}|%{b}", "2024-02-29T12:00:00Z|", {"t": datetime(2024, 2, 29, 12, tzinfo=UTC), "b": ""}),
    ],
)
def test_keys(pattern: str, text: str, expected: dict[str, Any]) -> None:
    assert parse(pattern, text) == expected


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("%{a} %{b}", "1"),
        ("%{a} %{b}", ""),
        ("%{a} %{b}", None),
        ("x%{a}", "yx1"),
        ("%{a}: %{b}: %{c}", "1: 2"),
        ("%{a->} %{b} %{c}", "1   2"),
        ("%{a} %{b}.", "1 2"),
    ],
)
def test_a_missing_delimiter_fails(pattern: str, text: str | None) -> None:
    assert parse(pattern, text) == f"does not match {pattern!r}"


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("%{a#3}-%{b}", "abcXdef"), ("%{a#3}", "ab"), ("%{a#3}", "abcd"), ("%{a}:%{b#2}", "x:y"), ("%{a}:%{b#2}", "x:yzz")],
)
def test_a_text_of_another_length_fails(pattern: str, text: str) -> None:
    assert isinstance(parse(pattern, text), str)


@pytest.mark.parametrize(
    ("side", "expected"), [("none", (" a ", " b ")), ("left", ("a ", "b ")), ("right", (" a", " b")), ("both", ("a", "b"))]
)
def test_blanks_are_cut_from_values(side: str, expected: tuple[str, str]) -> None:
    assert parse("%{a},%{b}", " a , b ", trim=side) == dict(zip("ab", expected, strict=True))


def test_a_separator_of_ones_own() -> None:
    assert parse("%{a} %{+a}-%{+a}", "1 2-3", append_separator="") == {"a": "123"}
    assert parse("%{a} %{+a}-%{+a}", "1 2-3", append_separator=" / ") == {"a": "1 / 2 / 3"}


def test_wrong_values_fail_with_their_reason() -> None:
    assert parse("%{a|int} %{b}", "x 1") == "field 'a' is 'x', not int"
    assert parse("%{a} %{b}", "1 300", fields={"b": "tinyint"}) == "field 'b' is '300', not tinyint"


def test_references_to_declared_and_other_names() -> None:
    pattern = "%{*k}=%{&k} %{?n}=%{&n} %{level}"

    assert parse(pattern, 'a=1 b"=2\t warn', fields={"a": "int"}) == {"level": "warn", "a": 1, "rest": '{"b\\"":"2\\t"}'}
    assert parse(pattern, "b=2 a=1 warn", fields={"a": "int", "b": "int"}) == {"level": "warn", "a": 1, "b": 2, "rest": None}
    assert parse(pattern, "b=2 c= warn", rest="labels") == {"level": "warn", "labels": '{"b":"2","c":""}'}


@pytest.mark.parametrize(
    ("options", "code", "path"),
    [
        ({"pattern": "no key"}, "bad-pattern", ("pattern",)),
        ({"pattern": "%{a}%{b}"}, "bad-pattern", ("pattern",)),
        ({"pattern": "%{a"}, "bad-pattern", ("pattern",)),
        ({"pattern": "%{a b!}"}, "bad-pattern", ("pattern",)),
        ({"pattern": "%{a/1}"}, "bad-pattern", ("pattern",)),
        ({"pattern": "%{+}"}, "bad-pattern", ("pattern",)),
        ({"pattern": "%{a|integr}"}, "unreadable-type", ("pattern",)),
        ({"pattern": "%{a} %{&b}"}, "dangling-reference", ("pattern",)),
        ({"pattern": "%{*a} %{b}"}, "dangling-reference", ("pattern",)),
        ({"pattern": "%{abc}", "fields": {"abd": "int"}}, "unknown-field", ("fields", "abd")),
        ({"pattern": "%{a}", "fields": {"a": "array<int>"}}, "unreadable-type", ("fields", "a")),
        ({"pattern": "%{a} %{a.b}"}, "field-conflict", ("pattern",)),
        ({"pattern": "%{rest} %{&rest}"}, "field-conflict", ("rest",)),
        ({"pattern": "%{message|int}", "on_error": "keep"}, "keep-conflict", ("on_error",)),
    ],
)
def test_findings(options: dict[str, Any], code: str, path: tuple[str, ...]) -> None:
    step = Dissect(**options)

    (finding,) = step.check(pa.schema([("message", pa.string())]))

    assert (finding.code, finding.path) == (code, path)
    step.parsed()


def oracle(delimiters: list[str], text: str) -> list[str] | None:
    """The values by the definition: each up to the first occurrence of what follows."""
    values = []
    for delimiter in delimiters:
        value, found, text = text.partition(delimiter)
        if not found:
            return None
        values.append(value)
    return [*values, text]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text("ab ,", min_size=1, max_size=3), max_size=3), st.lists(st.text("ab ,\x00é", max_size=12), max_size=8))
def test_first_occurrences_count(delimiters: list[str], texts: list[str]) -> None:
    pattern = "%{k0}" + "".join(f"{delimiter}%{{k{n}}}" for n, delimiter in enumerate(delimiters, 1))

    for column in (pa.array(texts, pa.string()), pa.array(["", *texts], pa.string_view()).slice(1)):
        parsed = Dissect(pattern=pattern).compile()(column)
        failed = parsed.failed.to_pylist() if parsed.failed is not None else [False] * len(texts)
        found = [[parsed.columns[f"k{n}"][row].as_py() for n in range(len(delimiters) + 1)] for row in range(len(texts))]
        assert [None if bad else values for bad, values in zip(failed, found, strict=True)] == [
            oracle(delimiters, text) for text in texts
        ]


@settings(max_examples=25, deadline=None)
@given(st.text(max_size=30))
def test_any_pattern_is_read_or_refused(pattern: str) -> None:
    step = Dissect(pattern=pattern or "x")
    findings = list(step.check(pa.schema([("message", pa.string())])))

    assert findings or step.compile()(pa.array(["some text", "", None])).columns
    assert bool(findings) or re.search(r"%\{", pattern)


def test_huge_and_hostile_texts() -> None:
    texts = ["x" * 3_000_000 + " y", "\x00 \x00", " " * 100_000, "%{a} %{b}", "\U0001f600 \u202e"]

    parsed = Dissect(pattern="%{a->} %{b}").compile()(pa.array(texts))

    assert [len(text) for text in parsed.columns["a"].to_pylist()] == [3_000_000, 1, 0, 4, 1]
    assert parsed.columns["b"].to_pylist() == ["y", "\x00", "", "%{b}", "\u202e"]
