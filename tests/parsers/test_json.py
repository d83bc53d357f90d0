"""JSON objects: the right values in the right rows, and only the wrong rows fail."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.api import TIMESTAMP
from parsers.json import Json

BAD = object()


def values(texts: list[str | None], type_: str = "string", **options: Any) -> list[Any]:
    """The member ``a`` of each text, `BAD` where the row failed."""
    parsed = Json(fields={"a": type_}, **options).compile()(pa.array(texts, pa.string()))
    failed = parsed.failed.to_pylist() if parsed.failed is not None else [False] * len(texts)
    return [BAD if bad else value for bad, value in zip(failed, parsed.columns["a"].to_pylist(), strict=True)]


def reason(text: str | None, **fields: str) -> str:
    parsed = Json(fields=fields or {"a": "int"}).compile()(pa.array([text], pa.string()))
    assert parsed.failed.to_pylist() == [True]
    return parsed.reasons[0].as_py()


VALUES: list[tuple[str, str, Any]] = [
    ("string", '"x"', "x"),
    ("string", '"\\u00e9\\n\\ud83d\\ude00"', "é\n😀"),
    ("string", '"a\\u0000b"', "a\x00b"),
    ("string", '"\\ud800"', "\ufffd"),
    ("string", '"x\\udc00y"', "x\ufffdy"),
    ("string", "1.50", "1.50"),
    ("string", "12345678901234567890123", "12345678901234567890123"),
    ("string", "true", "true"),
    ("string", '{"b": [1.10, "é", null, true, {}, []]}', '{"b":[1.10,"é",null,true,{},[]]}'),
    ("string", "null", None),
    ("string", "NaN", BAD),
    ("string", '"raw\ttab"', BAD),
    ("string", '"nul\x00"', BAD),
    ("int", "2147483647", 2147483647),
    ("int", "2147483648", BAD),
    ("int", "-2147483648", -2147483648),
    ("int", "-0", 0),
    ("int", "5.0", 5),
    ("int", "1e2", 100),
    ("int", "1.5", BAD),
    ("int", "0e999999999", 0),
    ("int", "1e999999999", BAD),
    ("int", "1" * 5000, BAD),
    ("int", '"5"', BAD),
    ("int", "true", BAD),
    ("int", "01", BAD),
    ("int", "[1]", BAD),
    ("int", "NaN", BAD),
    ("tinyint", "128", BAD),
    ("bigint", "9223372036854775807", 2**63 - 1),
    ("bigint", "9223372036854775808", BAD),
    ("double", "1", 1.0),
    ("double", "1e-400", 0.0),
    ("double", "1e400", BAD),
    ("double", "NaN", BAD),
    ("double", "-Infinity", BAD),
    ("double", '"1"', BAD),
    ("float", "1.5", 1.5),
    ("float", "1e39", BAD),
    ("boolean", "false", False),
    ("boolean", "0", BAD),
    ("decimal(10,2)", "1.5", Decimal("1.50")),
    ("decimal(10,2)", '"1.5"', Decimal("1.50")),
    ("decimal(10,2)", "1.555", BAD),
    ("decimal(10,2)", "123456789", BAD),
    ("timestamp", '"2024-02-29T12:00:00.123456789+01:00"', datetime(2024, 2, 29, 11, 0, 0, 123456, tzinfo=UTC)),
    ("timestamp", '"2024-02-29 12:00"', datetime(2024, 2, 29, 12, tzinfo=UTC)),
    ("timestamp", '"2023-02-29"', BAD),
    ("timestamp", "1700000000", BAD),
    ("timestamp_ntz", '"2024-02-29T12:00:00"', datetime(2024, 2, 29, 12)),
    ("date", '"2024-02-29"', date(2024, 2, 29)),
    ("date", '"2024-02-30"', BAD),
    ("binary", '"é"', "é".encode()),
    ("array<int>", "[1, null, 3]", [1, None, 3]),
    ("array<int>", "[]", []),
    ("array<int>", '[1, "x"]', BAD),
    ("array<int>", "1", BAD),
    ("array<string>", '["a", 1, {"b": 2}]', ["a", "1", '{"b":2}']),
    ("array<array<int>>", "[[1], [2, 3]]", [[1], [2, 3]]),
    ("array<struct<x: int>>", '[{"x": 1, "y": 2}, {}, null]', [{"x": 1}, {"x": None}, None]),
    ("array<timestamp>", '["2024-01-01T00:00:00Z"]', [datetime(2024, 1, 1, tzinfo=UTC)]),
    ("array<date>", '["2024-01-01"]', [date(2024, 1, 1)]),
    ("map<string, int>", '{"x": 1, "y": null}', [("x", 1), ("y", None)]),
    ("map<string, int>", '{"x": "y"}', BAD),
]


@pytest.mark.parametrize(("type_", "text", "expected"), VALUES)
def test_values(type_: str, text: str, expected: Any) -> None:
    assert values([f'{{"a": {text}}}'], type_) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        " ",
        "null",
        "1",
        '"x"',
        "[]",
        '[{"a": "1"}]',
        "{",
        "}",
        "{}{}",
        "{} {}",
        "{}}{",
        '{},"z":{}',
        '{"a": "1"} garbage',
        '{"a": "1"}//c',
        '{"a": "1",}',
        "{'a': 1}",
        '{"a" "1"}',
        '{"a": "1"',
        '{"a": "x\ny"}',
        '{"a": "1"}\x00{"a": "2"}',
        '{"z": Inf}',
        '{"z": 01}',
        "plain text",
    ],
)
def test_what_is_not_one_object_fails_alone(text: str | None) -> None:
    good = [f'{{"a": "{n}"}}' for n in range(40)]

    assert values([*good[:20], text, *good[20:]]) == [*map(str, range(20)), BAD, *map(str, range(20, 40))]


def test_texts_that_would_mend_each_other_fail_both() -> None:
    texts = ['{"a":', '"1"}', "{}{}", '{"a": "2"}', '{"a": [{}', "{}]}", "{}{}{}\x00{}", '{"a": "3"}']

    assert values(texts) == [BAD, BAD, BAD, "2", BAD, BAD, BAD, "3"]


def test_space_newlines_and_byte_order_mark_around_an_object() -> None:
    assert values(['\ufeff{"a": "1"}', ' \t{\n"a"\r\n: "2"} \r', "{}"]) == ["1", "2", None]


def test_missing_and_repeated_members() -> None:
    assert values(['{"b": 1}', '{"a": "1", "a": "2"}', '{"b": 1, "b": 2}']) == [None, "2", None]


def test_members_nobody_declared_may_hold_anything() -> None:
    texts = [
        '{"z": 1e400}',
        '{"z": "\\ud800"}',
        '{"z": NaN}',
        '{"z": ' + "[" * 50_000 + "]" * 50_000 + "}",
        '{"z": ' + "9" * 9_000 + "}",
    ]

    assert values(texts) == [None] * 5
    assert values([*texts, "junk"]) == [None] * 5 + [BAD]


def test_deep_nesting_fails_cleanly() -> None:
    deep = '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}"
    unfinished = '{"a": ' * 100_000

    assert values([deep, unfinished, '{"a": "1"}']) == [BAD, BAD, "1"]


def test_paths_reach_into_objects() -> None:
    parse = Json(fields={"source.ip": "string", "source.geo.city": "string", "n": "int"}).compile()

    parsed = parse(
        pa.array(
            [
                '{"source": {"ip": "10.0.0.1", "geo": {"city": "Ulm"}}, "n": 1}',
                '{"source": null}',
                '{"source": {"geo": null}}',
                '{"source.ip": "10.0.0.2", "n": 4}',
                '{"source.ip": "10.0.0.3", "source": {"geo.city": "Bonn", "ip": null}}',
                '{"source": 5}',
                '{"source": {"geo": [1]}}',
            ]
        )
    )

    assert parsed.columns["source.ip"].to_pylist() == ["10.0.0.1", None, None, "10.0.0.2", "10.0.0.3", None, None]
    assert parsed.columns["source.geo.city"].to_pylist() == ["Ulm", None, None, None, None, None, None]
    assert parsed.columns["n"].to_pylist() == [1, None, None, 4, None, None, None]
    assert parsed.reasons.to_pylist()[5:] == [
        "field 'source.ip' lies in the number 5, not in an object",
        "field 'source.geo.city' lies in an array, not in an object",
    ]


def test_structs_are_flat() -> None:
    step = Json(fields={"source": "struct<ip: string, port: int>"})

    parsed = step.compile()(pa.array(['{"source": {"ip": "::1", "port": 22}}']))

    assert step.parsed().names == ["source.ip", "source.port"]
    assert {name: column.to_pylist() for name, column in parsed.columns.items()} == {"source.ip": ["::1"], "source.port": [22]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "is null"),
        ("", "is empty"),
        ("[1]", "is an array, not an object"),
        ("null", "is null, not an object"),
        ("plain", "is not JSON: Expecting value at character 0"),
        ('{"a": "x"}', "field 'a' is the text 'x', not int"),
        ('{"a": 1.5}', "field 'a' is the number 1.5, not int"),
        ('{"a": {}}', "field 'a' is an object, not int"),
        ('{"a": NaN}', "field 'a' is NaN, which is not JSON, not int"),
    ],
)
def test_reasons(text: str | None, words: str) -> None:
    assert reason(text) == words


def test_reasons_of_times_and_floats_name_the_field() -> None:
    assert reason('{"t": "soon"}', t="timestamp") == "field 't' is 'soon', not an ISO 8601 timestamp"
    assert reason('{"f": 1e39}', f="float").startswith("field 'f' is '1e+39'")


def test_a_few_bad_rows_among_many() -> None:
    texts: list[str | None] = [json.dumps({"a": n}) for n in range(10_000)]
    bad = {5: '{"a": "x"}', 2047: "", 2048: None, 4097: '{"a": 1}{"a": 2}', 9_999: "]"}
    for row, text in bad.items():
        texts[row] = text

    assert values(texts, "int") == [BAD if row in bad else row for row in range(10_000)]


def test_many_bad_rows_and_slices() -> None:
    texts = [json.dumps({"a": n if n % 3 else str(n)}) for n in range(5_000)]
    parsed = Json(fields={"a": "int"}).compile()(pa.array(["junk", *texts]).slice(1))

    assert parsed.failed.to_pylist() == [n % 3 == 0 for n in range(5_000)]
    assert parsed.columns["a"].to_pylist() == [n if n % 3 else None for n in range(5_000)]


def rest(text: str, *names: str) -> str | None:
    parsed = Json(fields=dict.fromkeys(names, "string"), rest="rest").compile()(pa.array([text]))
    assert parsed.failed is None
    return parsed.columns["rest"][0].as_py()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": "1"}', None),
        ("{}", None),
        ('{"a": "1", "b": 1.50, "c": "\\u00e9"}', '{"b": 1.50,"c": "\\u00e9"}'),
        ('{ "b" : [ 1, {"a": 2} ] , "a" : null }', '{"b" : [ 1, {"a": 2} ]}'),
        ('{"o": {"p": "1", "q": 2}, "z": {}}', '{"o":{"q": 2},"z": {}}'),
        ('{"o": {"p": "1"}}', None),
        ('{"o": null, "o.p": "1"}', None),
        ('{"b": 1, "b": 1e400}', '{"b": 1,"b": 1e400}'),
    ],
)
def test_rest_is_what_nobody_declared_as_it_was_written(text: str, expected: str | None) -> None:
    assert rest(text, "a", "o.p") == expected


def test_rest_leaves_failed_rows_alone() -> None:
    parsed = Json(fields={"a": "int"}, rest="rest").compile()(
        pa.array(['{"b": 1}', "junk", '{"z": ' + "[" * 9_000 + "]" * 9_000 + "}"])
    )

    assert parsed.columns["rest"].to_pylist() == ['{"b": 1}', None, None]
    assert parsed.failed.to_pylist() == [False, True, True]


def outcome(step: Json, *texts: str) -> tuple[list[dict[str, Any]], list[tuple[dict[str, Any], str]]]:
    batch = pa.RecordBatch.from_pydict({"message": list(texts), "_offset": list(range(len(texts)))})
    events, rejects = step.open(batch.schema)(batch)
    assert step.fields(batch.schema) == events.schema
    dead = [(event, why) for r in rejects for event, why in zip(r.events.to_pylist(), r.reasons.to_pylist(), strict=True)]
    return events.to_pylist(), dead


def test_the_input_field_goes_stays_or_is_replaced() -> None:
    assert outcome(Json(fields={"a": "int"}), '{"a": 1}', "junk") == (
        [{"_offset": 0, "a": 1}],
        [({"message": "junk", "_offset": 1}, "is not JSON: Expecting value at character 0")],
    )
    assert outcome(Json(fields={"message": "string"}), '{"message": "hi"}') == ([{"message": "hi", "_offset": 0}], [])
    assert outcome(Json(fields={"a": "int"}, on_error="keep"), '{"a": 1}', "junk") == (
        [{"message": None, "_offset": 0, "a": 1}, {"message": "junk", "_offset": 1, "a": None}],
        [],
    )
    assert outcome(Json(fields={"a": "int"}, on_error="drop"), "junk") == ([], [])


def test_an_empty_batch() -> None:
    assert values([]) == []
    assert outcome(Json(fields={"a": "int", "t": "timestamp"}, rest="r")) == ([], [])


@pytest.mark.parametrize(
    ("options", "code", "path"),
    [
        ({"fields": {"a": "map<int, int>"}}, "unreadable-type", ("fields", "a")),
        ({"fields": {"a": "int", "a.b": "int"}}, "field-conflict", ("fields",)),
        ({"fields": {"a": "int"}, "rest": "a"}, "field-conflict", ("rest",)),
        ({"fields": {"a.b": "int"}, "rest": "a"}, "field-conflict", ("fields",)),
        ({"fields": {"message": "int"}, "on_error": "keep"}, "keep-conflict", ("on_error",)),
        ({"fields": {"a": "int"}, "field": "mesage"}, "unknown-field", ("field",)),
    ],
)
def test_findings(options: dict[str, Any], code: str, path: tuple[str, ...]) -> None:
    (finding,) = Json(**options).check(pa.schema([("message", pa.string())]))

    assert (finding.code, finding.path) == (code, path)


def test_every_type_is_what_it_says() -> None:
    step = Json(fields={"t": "timestamp", "f": "float", "d": "date", "b": "binary"})

    columns = step.compile()(pa.array(['{"t": "2024-01-01"}', "{}"])).columns

    assert pa.schema([(name, column.type) for name, column in columns.items()]) == step.parsed()
    assert columns["t"].type == TIMESTAMP


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec="utf-8"), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=5,
)
LINES = st.dictionaries(st.sampled_from(["a", "b", "c", "a.b"]), ANY_JSON, max_size=4).map(json.dumps) | st.sampled_from(
    ["", "{", "}", "{}{}", '{"b":', "1}", "{}\x00", "[{}]", "{},{}", '{"b": "x"}', '{"b": 1.0}']
)


@settings(max_examples=150, deadline=None)
@given(st.lists(LINES, max_size=12))
def test_a_row_does_not_depend_on_its_neighbours(lines: list[str]) -> None:
    parse = Json(fields={"a.b": "string", "b": "int", "c": "array<double>"}).compile()

    together = parse(pa.array(lines, pa.string()))

    for row, line in enumerate(lines):
        alone = parse(pa.array([line]))
        failed = together.failed is not None and together.failed[row].as_py()
        assert failed == (alone.failed is not None), line
        assert {name: column[row] for name, column in together.columns.items()} == {
            name: column[0] for name, column in alone.columns.items()
        }, line
