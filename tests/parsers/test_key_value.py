"""The parser `key_value`."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.key_value.parser import KeyValue

EXCEPTIONS = {
    "spec/filters/kv_spec.rb#45": "tests what Logstash does when its filter raises",
    "spec/filters/kv_spec.rb#46": "tests what Logstash does when its filter raises",
}
"""Source → why the vector is not to be met."""

STORED = {"logstash_filter_kv.jsonl": (31, 33), "vrl_parse_key_value.jsonl": (16, 16)}
"""Vectors a file that pass, of those stored."""

CASES = {"lowercase": "lower", "uppercase": "upper", "capitalize": "capitalize"}

LOGSTASH: dict[str, Callable[[Any], dict[str, Any]]] = {
    "field_split": lambda text: {"pair_separators": list(text)},
    "field_split_pattern": lambda text: {"pair_pattern": text},
    "value_split": lambda text: {"value_separators": list(text)},
    "value_split_pattern": lambda text: {"value_pattern": text},
    "whitespace": lambda text: {"whitespace": text},
    "trim_key": lambda text: {"trim_keys": text},
    "trim_value": lambda text: {"trim_values": text},
    "remove_char_key": lambda text: {"remove_from_keys": text},
    "remove_char_value": lambda text: {"remove_from_values": text},
    "transform_key": lambda text: {"key_case": CASES[text]},
    "transform_value": lambda text: {"value_case": CASES[text]},
    "include_brackets": lambda text: {} if text in ("true", True) else {"brackets": []},
    "include_keys": lambda keys: {"include": keys},
    "exclude_keys": lambda keys: {"exclude": keys},
    "allow_empty_values": lambda text: {"keep_empty": text in ("true", True)},
    "prefix": lambda text: {"prefix": text},
    "target": lambda text: {"prefix": f"{text}."},
    "recursive": lambda text: {"nested": text in ("true", True)},
    "allow_duplicate_values": lambda text: {"repeats": "array" if text in ("true", True) else "distinct"},
    "tag_on_failure": lambda text: {},
}
"""An option of Logstash's kv filter → ours."""

LOGSTASH_DEFAULTS = {
    "brackets": ["()", "[]", "<>"],
    "escapes": "blanks",
    "alone": "ignore",
    "keep_empty": False,
    "min_pairs": 0,
}

VRL: dict[str, Callable[[Any], dict[str, Any]]] = {
    "key_value_delimiter": lambda text: {"value_separators": [text]},
    "field_delimiter": lambda text: {"pair_separators": [text]},
    "whitespace": lambda text: {"whitespace": text},
    "accept_standalone_key": lambda on: {"alone": "flag" if on else "reject"},
}

DIALECTS = {
    "logstash_filter_kv.jsonl": (LOGSTASH, LOGSTASH_DEFAULTS),
    "vrl_parse_key_value.jsonl": (VRL, {"min_pairs": 0}),
}


def read(text: str | None, **options: Any) -> dict[str, Any] | None:
    """What a parser that declares nothing finds in a text; None when it fails."""
    parsed = KeyValue(**options).compile()(pa.array([text], pa.string()))
    if parsed.failed is not None and parsed.failed[0].as_py():
        return None
    return json.loads(parsed.columns["pairs"][0].as_py() or "{}")


def columns(texts: list[str | None], **options: Any) -> dict[str, list[Any]]:
    parsed = KeyValue(**options).compile()(pa.array(texts, pa.string()))
    return {name: column.to_pylist() for name, column in parsed.columns.items()}


def flat(expected: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found = {}
    for name, value in expected.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


# ── Vectors ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("file", DIALECTS)
def test_vectors(acceptance: Path, file: str) -> None:
    table, defaults = DIALECTS[file]
    vectors = [json.loads(line) for line in (acceptance / "kv" / file).read_text().splitlines()]

    wrong, passed = [], 0
    for vector in vectors:
        options = dict(defaults)
        for name, value in (vector.get("options") or {}).items():
            options |= table[name](value)
        found = read(vector["line"], **options)
        if found == (flat(vector["expected"]) if vector["valid"] else None):
            passed += 1
        elif vector["source"] not in EXCEPTIONS:
            wrong.append((vector["source"], vector["line"], options, found))

    assert wrong == []
    assert (passed, len(vectors)) >= STORED[file]


# ── Keys, values and what stands between them ─────────────────────────────────────────────────────


def test_a_separator_may_be_long() -> None:
    assert read("a=1" + "-" * 1000 + "b=2", pair_pattern="-+") == {"a": "1", "b": "2"}


def test_a_preset_gives_way_to_the_file() -> None:
    assert KeyValue(preset="logfmt").whitespace == "strict"
    assert KeyValue(preset="logfmt", whitespace="lenient").whitespace == "lenient"


# ── Columns ───────────────────────────────────────────────────────────────────────────────────────


def test_a_value_that_does_not_fit_fails_its_row_only() -> None:
    parsed = KeyValue(fields={"n": "int", "m": "array<int>"}).compile()(pa.array(["n=1", "n=x y=1", "m=1 m=z", "n=3 m=4"]))

    assert parsed.failed.to_pylist() == [False, True, True, False]
    assert parsed.reasons.to_pylist()[1:3] == ["field 'n' is 'x', not int", "field 'm' is 'z', not int"]
    assert {name: column.to_pylist() for name, column in parsed.columns.items()} == {
        "n": [1, None, None, 3],
        "m": [None, None, None, [4]],
        "pairs": [None] * 4,
    }


LONG = "a text that no view holds inside"


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.string_view()])
def test_any_kind_of_text_column_and_parts_of_it(type_: pa.DataType) -> None:
    column = pa.array(["k=zero", f"k='{LONG}' j={LONG[2:6]}", None, 'k="\\"' + LONG + '" j=é'], type_)
    parse = KeyValue(fields={"k": "string"}).compile()

    for start in range(4):
        found = parse(column.slice(start))
        assert found.columns["k"].to_pylist() == ["zero", LONG, None, '"' + LONG][start:]
        assert found.columns["pairs"].to_pylist() == [None, '{"j":"text"}', None, '{"j":"é"}'][start:]


def test_empty_and_null_columns() -> None:
    parse = KeyValue(fields={"a": "int", "b": "array<string>"}).compile()

    assert [len(column) for column in parse(pa.array([], pa.string())).columns.values()] == [0, 0, 0]
    assert parse(pa.nulls(2)).failed.to_pylist() == [True, True]


def test_fields_and_failed_events() -> None:
    step = KeyValue(fields={"n": "int"})
    batch = pa.RecordBatch.from_pydict({"message": ["n=1 m=2", "n=x", None], "_offset": [0, 1, 2]})

    events, rejects = step.open(batch.schema)(batch)

    assert events.schema == step.fields(batch.schema)
    assert events.to_pylist() == [{"_offset": 0, "n": 1, "pairs": '{"m":"2"}'}]
    assert [(reject.code, reject.reasons.to_pylist()) for reject in rejects] == [
        ("key_value-failed", ["field 'n' is 'x', not int", "is null"])
    ]


def test_the_input_field_may_be_a_key() -> None:
    step = KeyValue(fields={"message": "string"}, on_error="keep")
    batch = pa.RecordBatch.from_pydict({"message": ["message='a b'", "junk"], "_offset": [0, 1]})

    events, _ = step.open(batch.schema)(batch)

    assert events.schema == step.fields(batch.schema)
    assert events.column("message").to_pylist() == ["a b", "junk"]


@pytest.mark.parametrize(
    ("options", "code", "path"),
    [
        ({"fields": {"a": "map<string, int>"}}, "unreadable-type", ("fields", "a")),
        ({"fields": {"a": "int", "a.b": "int"}}, "field-conflict", ("fields",)),
        ({"fields": {"a": "int"}, "rest": "a"}, "field-conflict", ("rest",)),
        ({"fields": {"message": "int"}, "on_error": "keep"}, "keep-conflict", ("on_error",)),
        ({"pair_pattern": "("}, "bad-pattern", ("pair_pattern",)),
        ({"pair_pattern": ",*"}, "bad-pattern", ("pair_pattern",)),
        ({"value_pattern": r"\b="}, "bad-pattern", ("value_pattern",)),
        ({"value_pattern": "(?<!a)="}, "bad-pattern", ("value_pattern",)),
        ({"field": "mesage"}, "unknown-field", ("field",)),
    ],
)
def test_findings(options: dict[str, Any], code: str, path: tuple[str, ...]) -> None:
    (finding,) = KeyValue(**options).check(pa.schema([("message", pa.string())]))

    assert (finding.code, finding.path) == (code, path)


# ── Any text ──────────────────────────────────────────────────────────────────────────────────────

MARKS = st.sampled_from(list("ab=:\"'()[]<>\\ ,|&\t\n\0\x7fé😀-_"))
ANY = st.lists(st.one_of(MARKS, st.characters(codec="utf-8")), max_size=40).map("".join)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "preset": st.just("logfmt"),
        "pair_separators": st.sampled_from([[" "], [","], ["--", "|"], [" ", "\t"], ["é"]]),
        "pair_pattern": st.sampled_from(["-+", r"\s*,\s*"]),
        "value_separators": st.sampled_from([["="], [":", "="], [" "], ["=="]]),
        "whitespace": st.sampled_from(["strict", "lenient"]),
        "brackets": st.just(["()", "[]", "<>"]),
        "escapes": st.sampled_from(["none", "quotes", "json", "blanks"]),
        "alone": st.sampled_from(["flag", "ignore", "reject"]),
        "keep_empty": st.booleans(),
        "nested": st.booleans(),
        "min_pairs": st.integers(0, 2),
        "trim_keys": st.just("a"),
        "value_case": st.just("upper"),
        "repeats": st.sampled_from(["first", "last", "array", "distinct"]),
        "fields": st.just({"a": "string", "b": "array<string>"}),
    },
)


def rows_of(parsed: Any, rows: int) -> list[Any]:
    failed = [False] * rows if parsed.failed is None else parsed.failed.to_pylist()
    values = [column.to_pylist() for column in parsed.columns.values()]
    assert all(len(column) == rows for column in [failed, *values])
    return list(zip(failed, *values, strict=True))


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(OPTIONS, st.lists(ANY, max_size=8))
def test_no_text_raises_and_a_row_does_not_depend_on_its_neighbours(options: dict[str, Any], texts: list[str]) -> None:
    parse = KeyValue(**options).compile()

    together = rows_of(parse(pa.array(texts, pa.string())), len(texts))

    assert together == [rows_of(parse(pa.array([text])), 1)[0] for text in texts]
    assert all(row[-1] is None or isinstance(json.loads(row[-1]), dict) for row in together)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=30), max_size=5))
def test_no_bytes_raise(texts: list[bytes]) -> None:
    column = pa.array(texts, pa.binary()).view(pa.string())
    for options in (
        {},
        {"preset": "logfmt", "fields": {"a": "int"}},
        {"trim_values": "a", "key_case": "upper", "brackets": ["()"]},
    ):
        assert len(KeyValue(**options).compile()(column).columns["pairs"]) == len(texts)


@cache
def logfmt() -> Any:
    return KeyValue(preset="logfmt").compile()


WORDS = st.text(st.characters(codec="utf-8", exclude_characters='="\\', exclude_categories=["C", "Z"]), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(WORDS, st.text(st.characters(codec="utf-8"), max_size=20), min_size=1, max_size=6))
def test_what_is_written_as_logfmt_is_read_back(pairs: dict[str, str]) -> None:
    line = " ".join(f"{key}={json.dumps(value)}" for key, value in pairs.items())

    parsed = logfmt()(pa.array([line]))

    assert parsed.failed is None or parsed.failed.to_pylist() == [False]
    assert json.loads(parsed.columns["pairs"][0].as_py() or "{}") == pairs


@pytest.mark.parametrize("text", ["a=(", 'a="', "a='b\" ", "a ", "= ", "\\", " " * 7, "a=1 ", "(" * 5, "a=1 b=(((( "])
def test_long_texts_take_time_in_proportion(text: str) -> None:
    options = {"brackets": ["()", "[]"], "min_pairs": 0, "pair_pattern": r"\s*[ ,]\s*"}

    assert len(KeyValue(**options).compile()(pa.array([text * (2_000_000 // len(text))])).columns["pairs"]) == 1
