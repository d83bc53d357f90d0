"""JSON objects: the right values in the right rows, and only the wrong rows fail."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.api import TIMESTAMP
from etl.columns.texts import owned, owned_array
from parsers.json.declared_members import find_members
from parsers.json.parser import Json
from parsers.json.tries import declared_tree, name_trie
from parsers.json.undeclared_members import copy_undeclared, undeclared_text

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


@pytest.mark.parametrize(
    "text", ['{"a": [\x01]}', '{"a": [\x00, 1]}', '{"a": [1 2]}', '{"a": [,,]}', '{"a": [}', '{"a": ]}', '{"a":', '{"a": [[1}]]}']
)
def test_broken_arrays_fail_alone(text: str) -> None:
    parse = Json(fields={"f": "string", "g": "int"}, paths={"f": "a[1]", "g": "a[0].b"}, rest="rest").compile()

    parsed = parse(pa.array(['{"a": [null, "x"]}', text, '{"a": null}']))

    assert parsed.failed.to_pylist() == [False, True, False]
    assert parsed.columns["f"].to_pylist() == ["x", None, None]
    assert at("a[1]", "string", text) == [BAD]


def test_deep_nesting_fails_cleanly() -> None:
    deep = '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}"
    unfinished = '{"a": ' * 100_000

    assert values([deep, unfinished, '{"a": "1"}'], "array<int>") == [BAD, BAD, BAD]
    assert values([deep, unfinished, '{"a": "1"}']) == [deep[6:-1], BAD, "1"], "as a text it is not looked into"


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


# ── Paths and arrays ──────────────────────────────────────────────────────────────────────────────


def at(path: str, type_: str, *texts: str) -> list[Any]:
    """What is at a path, `BAD` where the row failed."""
    parsed = Json(fields={"f": type_}, paths={"f": path}).compile()(pa.array(texts, pa.string()))
    assert owned_array(parsed.columns["f"]).type == Json(fields={"f": type_}).parsed().field("f").type
    failed = parsed.failed.to_pylist() if parsed.failed is not None else [False] * len(texts)
    return [BAD if bad else value for bad, value in zip(failed, parsed.columns["f"].to_pylist(), strict=True)]


@pytest.mark.parametrize(
    ("path", "type_", "text", "expected"),
    [
        ("tags[0]", "string", '{"tags": ["x", "y"]}', "x"),
        ("tags[1]", "string", '{"tags": [ {"a": [1, "]"]} , "y" ]}', "y"),
        ("tags[2]", "string", '{"tags": ["x", "y"]}', None),
        ("tags[0]", "string", '{"tags": []}', None),
        ("tags[0]", "string", '{"tags": null}', None),
        ("tags[0]", "string", '{"tags": [null, 1]}', None),
        ("tags[0]", "string", '{"other": [1]}', None),
        ("tags[0]", "string", '{"tags": "x"}', BAD),
        ("tags[0]", "string", '{"tags": {"0": "x"}}', BAD),
        ("tags[0]", "string", '{"tags": ["a\\nb"]}', "a\nb"),
        ("tags[0]", "string", '{"tags": [{"x": [1, 2.50]}]}', '{"x":[1,2.50]}'),
        ("tags[1]", "int", '{"tags": ["x", 7]}', 7),
        ("tags[0]", "int", '{"tags": ["x", 7]}', BAD),
        ("tags[0]", "int", '{"tags": [1.5]}', BAD),
        ("tags[0].id", "bigint", '{"tags": [{"id": 5}, {"id": 6}]}', 5),
        ("tags[0].id", "bigint", '{"tags": [[1]]}', BAD),
        ("tags[0][1]", "double", '{"tags": [[1, 2.5]]}', 2.5),
        ("tags[1].o.p", "timestamp", '{"tags": [1, {"o": {"p": "2024-01-01"}}]}', datetime(2024, 1, 1, tzinfo=UTC)),
        ("a.b.c", "int", '{"a": {"b": {"c": 1}}}', 1),
        ("a.b.c", "int", '{"a": {"b": 1}}', BAD),
        ("a.b.c", "int", '{"a.b.c": 1}', None),
        ('a["b.c"]', "int", '{"a": {"b.c": 1, "b": {"c": 2}}}', 1),
        ("['a b']", "string", '{"a b": 1}', "1"),
        ("é", "string", '{"é": "1", "\\u00e9": "2"}', "2"),
        ("a", "map<string,string>", '{"a": {"x": 1, "y": "\\u00e9"}}', [("x", "1"), ("y", "é")]),
        ("a", "decimal(5,2)", '{"a": 1.5}', Decimal("1.50")),
        ("a", "array<struct<x: int, y: string>>", '{"a": [{"x": 1, "y": "b"}]}', [{"x": 1, "y": "b"}]),
    ],
)
def test_paths_into_arrays_and_objects(path: str, type_: str, text: str, expected: Any) -> None:
    assert at(path, type_, text) == [expected]
    assert at(path, type_, "{}", text, "junk", text) == [None, expected, BAD, expected]


def test_fields_of_one_path_and_of_paths_that_cross() -> None:
    step = Json(
        fields={
            "tags": "array<string>",
            "first": "string",
            "again": "string",
            "n": "int",
            "whole": "string",
            "source.ip": "string",
        },
        paths={"first": "tags[0]", "again": "tags[0]", "n": "o.n", "whole": "o", "source.ip": "client.addr"},
        rest="rest",
    )

    parsed = step.compile()(
        pa.array(['{"tags": ["x", "y"], "o": {"n": 5, "m": 6}, "client": {"addr": "::1", "port": 2}, "source.ip": "no"}'])
    )

    assert {name: column[0].as_py() for name, column in parsed.columns.items()} == {
        "tags": ["x", "y"],
        "first": "x",
        "again": "x",
        "n": 5,
        "whole": '{"n":5,"m":6}',
        "source.ip": "::1",
        "rest": '{"client":{"port": 2},"source.ip": "no"}',
    }


def test_what_a_path_takes_out_of_an_array_stays_in_the_rest() -> None:
    parsed = Json(fields={"f": "int"}, paths={"f": "a[0].b"}, rest="rest").compile()(pa.array(['{"a": [{"b": 1}], "c": 2}']))

    assert parsed.columns["rest"].to_pylist() == ['{"a": [{"b": 1}],"c": 2}']


def test_structs_under_a_path() -> None:
    step = Json(fields={"source": "struct<ip: string, port: int>"}, paths={"source": "peers[0]"})

    parsed = step.compile()(pa.array(['{"peers": [{"ip": "::1", "port": 22}]}']))

    assert {name: column.to_pylist() for name, column in parsed.columns.items()} == {"source.ip": ["::1"], "source.port": [22]}


@pytest.mark.parametrize(
    ("path", "at"), [("", 0), ("[0]", 0), (".a", 0), ("a.", 1), ("a..b", 1), ("a[x]", 1), ("a[-1]", 1), ("a['b", 1), ("a[0]b", 4)]
)
def test_bad_paths(path: str, at: int) -> None:
    (finding,) = Json(fields={"a": "int"}, paths={"a": path}).check(pa.schema([("message", pa.string())]))

    assert (finding.code, finding.path, finding.at) == ("bad-path", ("paths", "a"), at)


# ── Several objects in a text ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "first", "more"),
    [
        ('{"a": "1"}', "1", None),
        ('{"a": "1"}{"a": "2"}', "1", ['{"a": "2"}']),
        ('\ufeff{"a": "1"} \n {"a": "}{"},{"b": [{}]}\n', "1", ['{"a": "}{"}', '{"b": [{}]}']),
        ('[{"a": "1"}, {"a": "2"}]', "1", ['{"a": "2"}']),
        (' [ {"a": "1"} ] ', "1", None),
        ("[]", BAD, None),
        ("[1]", BAD, None),
        ('[{"a": "1"}, 2]', BAD, None),
        ('{"a": "1"} garbage', BAD, None),
        ('{"a": "1"}{"a": ', BAD, None),
        ('{"a": "1"}}', BAD, None),
        ('{"a": 1}{"a": "\x01"}', BAD, None),
        ("", BAD, None),
        (None, BAD, None),
    ],
)
def test_further_objects(text: str | None, first: Any, more: list[str] | None) -> None:
    parsed = Json(fields={"a": "string"}, more="more").compile()(pa.array([text, '{"a": "9"}'], pa.string()))

    failed = parsed.failed is not None and parsed.failed[0].as_py()
    assert (BAD if failed else parsed.columns["a"][0].as_py()) == first
    assert parsed.columns["more"].to_pylist() == [more, None]
    assert parsed.columns["a"][1].as_py() == "9"


def test_further_objects_of_events() -> None:
    events, dead = outcome(Json(fields={"a": "int"}, more="more", rest="rest"), '{"a": 1}{"a": 2}', '{"a": "x"}{"a": 3}')

    assert events == [{"_offset": 0, "a": 1, "rest": None, "more": ['{"a": 2}']}]
    assert dead[0][1] == "field 'a' is the text 'x', not int"


# ── The rest ──────────────────────────────────────────────────────────────────────────────────────


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
    deep = '{"z": ' + "[" * 9_000 + "]" * 9_000 + "}"

    parsed = Json(fields={"a": "int"}, rest="rest").compile()(pa.array(['{"b": 1}', "junk", '{"b": {', deep, None]))

    assert parsed.columns["rest"].to_pylist() == ['{"b": 1}', None, None, deep, None]
    assert parsed.failed.to_pylist() == [False, True, True, False, True]


def test_rest_of_rows_with_escaped_names() -> None:
    texts = ['{"\\u0061": "1", "b": 2}', '{"b": 3}', '{"o": {"\\u0070": "1", "q": 2}}', '{"\\"": "\\\\"}']

    parsed = Json(fields={"a": "string", "o.p": "string"}, rest="rest").compile()(pa.array(texts))

    assert parsed.failed is None
    assert parsed.columns["a"].to_pylist() == ["1", None, None, None]
    assert parsed.columns["rest"].to_pylist() == ['{"b": 2}', '{"b": 3}', '{"o":{"q": 2}}', texts[3]]


def outcome(step: Json, *texts: str) -> tuple[list[dict[str, Any]], list[tuple[dict[str, Any], str]]]:
    batch = pa.RecordBatch.from_pydict({"message": list(texts), "_offset": list(range(len(texts)))})
    found = step.open(batch.schema)(batch)
    events = owned(found.events)
    assert step.fields(batch.schema) == events.schema
    dead = [(event, why) for r in found.rejects for event, why in zip(r.events.to_pylist(), r.reasons.to_pylist(), strict=True)]
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
        ({"fields": {"a": "int"}, "more": "a"}, "field-conflict", ("more",)),
        ({"fields": {"a": "int"}, "rest": "r", "more": "r"}, "field-conflict", ("more",)),
        ({"fields": {"a": "int"}, "paths": {"b": "c"}}, "unknown-field", ("paths", "b")),
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


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(LINES, max_size=12))
def test_a_row_does_not_depend_on_its_neighbours(lines: list[str]) -> None:
    parse = Json(
        fields={
            "a.b": "string",
            "b": "int",
            "c": "array<double>",
            "d": "string",
            "e": "int",
            "g": "map<string,string>",
            "h": "string",
        },
        paths={"d": "c[1]", "e": "a.c[0]", "g": "a", "h": "a.c"},
        rest="rest",
    ).compile()

    together = parse(pa.array(lines, pa.string()))

    for row, line in enumerate(lines):
        alone = parse(pa.array([line]))
        failed = together.failed is not None and together.failed[row].as_py()
        assert failed == (alone.failed is not None), line
        assert {name: owned_array(column)[row] for name, column in together.columns.items()} == {
            name: owned_array(column)[0] for name, column in alone.columns.items()
        }, line


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(LINES, max_size=8))
def test_the_kernel_of_rest_and_its_form_in_python_agree(lines: list[str]) -> None:
    tree = declared_tree([("a", "b"), ("b",), ("c",)], ["a.b"])
    parsed = Json(fields={"a.b": "string", "b": "string", "c": "string"}, rest="rest").compile()(pa.array(lines, pa.string()))

    for row, line in enumerate(lines):
        if parsed.failed is None or not parsed.failed[row].as_py():
            assert parsed.columns["rest"][row].as_py() == undeclared_text(line, tree), line


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text('{}[]":,\\ab1 \x00\x0b', max_size=30), max_size=20))
def test_the_kernel_stays_inside_texts_that_are_no_json(lines: list[str]) -> None:
    _, rest = copy_undeclared(pa.array(lines, pa.string()), name_trie(declared_tree([("a", "b"), ("b",)])), [])

    rest.validate()
    assert len(rest) == len(lines)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text('{}[]":,\\ab01 é\x00\x0b', max_size=30), max_size=20))
def test_spans_lie_inside_texts_that_are_no_json(lines: list[str]) -> None:
    odd = np.zeros(len(lines), bool)

    found = find_members(pa.array(lines, pa.string()), dict.fromkeys([("a", "b"), ("b",), ("a", 0, "b"), ("a", 1)], True), odd)

    lengths = np.array([len(line.encode()) for line in lines])
    assert found.starts.shape == (4, len(lines))
    assert ((found.starts == -1) | (found.starts <= found.ends)).all()
    assert ((found.starts == -1) | (found.ends <= lengths)).all()
    for number in range(4):
        assert len(found.texts_of(number, {}, "x")) == len(lines)


OBJECTS = st.sampled_from(
    [
        '{"a":[1,2.5e-3,{"b":null}],"c":"x\\u00e9\\n","d":{"e":true,"f":false}}',
        '{"n": -0.0E+10 , "m" : 0 }',
        '{"a":"0123456789abcdef\\"","b":[[],{}]}',
    ]
)
CHANGES = st.lists(
    st.tuples(st.integers(0, 70), st.integers(0, 1), st.text('{}[]":,\\ 01.eE+-truafls\nn\x01/é', max_size=1)), max_size=3
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(OBJECTS, CHANGES), min_size=1, max_size=10))
def test_the_kernel_that_tells_json_agrees_with_python(seeds: list[tuple[str, list[tuple[int, int, str]]]]) -> None:
    texts = []
    for text, changes in seeds:
        for place, gone, new in changes:
            text = text[:place] + new + text[place + gone :]
        texts.append(text)
    inside = [f'{{"x":{text}}}' for text in texts]  # where names may have escapes: no path leads there
    odd = np.zeros(len(texts), bool)

    find_members(pa.array(inside), {("zz",): True}, odd)

    assert not [text for text, bad in zip(inside, odd, strict=True) if not bad and not is_object(text)]
    assert not [text for text, bad in zip(texts, odd, strict=True) if bad and is_object(text)]


def is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict) and text[:1] == "{" and text[-1:] == "}"
    except ValueError:
        return False


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from(["x", "é", "\n", '"', "\\", "\x01", "😀"]), max_size=40).map("".join), min_size=1, max_size=12
    )
)
def test_texts_of_any_length_with_any_escapes(texts: list[str]) -> None:
    # given
    lines = [
        json.dumps({"b": 1, "a": text, "c": "x" * (number % 20)}, ensure_ascii=bool(number % 2))
        for number, text in enumerate(texts)
    ]

    # when
    found = values(lines)  # type: ignore[arg-type]

    # then
    assert found == texts


def test_members_whose_names_are_alike() -> None:
    # given
    names = [f"a{number:02}z" for number in range(60)] + ["", "a", "aa", "az"]
    event = {name: f"{number}" for number, name in enumerate(names)}
    declared = [name for name in names if name][::2]

    # when
    columns = Json(fields=dict.fromkeys(declared, "string")).compile()(pa.array([json.dumps(event)])).columns

    # then
    assert {name: column[0].as_py() for name, column in columns.items()} == {name: event[name] for name in declared}
