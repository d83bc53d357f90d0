"""Dissect: delimiters, modifiers, types and references."""

from __future__ import annotations

import json
import re
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
    assert step.parsed_fields() == pa.schema(types)
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
    step.parsed_fields()


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
