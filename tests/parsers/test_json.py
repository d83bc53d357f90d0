"""JSON objects: the right values in the right rows, and only the wrong rows fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.api import TIMESTAMP, Parsed
from etl.columns.texts import materialize, materialize_array
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


def test_a_number_of_very_many_digits_fails() -> None:
    assert values(['{"a": ' + "1" * 5000 + "}"], "int") == [BAD]


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
    assert materialize_array(parsed.columns["f"]).type == Json(fields={"f": type_}).parsed_fields().field("f").type
    failed = parsed.failed.to_pylist() if parsed.failed is not None else [False] * len(texts)
    return [BAD if bad else value for bad, value in zip(failed, parsed.columns["f"].to_pylist(), strict=True)]


@pytest.mark.parametrize(
    ("path", "at"), [("", 0), ("[0]", 0), (".a", 0), ("a.", 1), ("a..b", 1), ("a[x]", 1), ("a[-1]", 1), ("a['b", 1), ("a[0]b", 4)]
)
def test_bad_paths(path: str, at: int) -> None:
    (finding,) = Json(fields={"a": "int"}, paths={"a": path}).check(pa.schema([("message", pa.string())]))

    assert (finding.code, finding.path, finding.at) == ("bad-path", ("paths", "a"), at)


# ── The rest ──────────────────────────────────────────────────────────────────────────────────────


def rest(text: str, *names: str) -> str | None:
    parsed = Json(fields=dict.fromkeys(names, "string"), rest="rest").compile()(pa.array([text]))
    assert parsed.failed is None
    return parsed.columns["rest"][0].as_py()


def test_rest_without_declared_members() -> None:
    parsed = Json(fields={}, rest="r").compile()(pa.array(['{"a":  1}', "{}", "[1]", "x", None]))
    assert parsed.columns["r"].to_pylist() == ['{"a":  1}', None, None, None, None]
    assert parsed.failed is not None
    assert parsed.failed.to_pylist() == [False, False, True, True, True]


def test_rest_leaves_failed_rows_alone() -> None:
    deep = '{"z": ' + "[" * 9_000 + "]" * 9_000 + "}"

    parsed = Json(fields={"a": "int"}, rest="rest").compile()(pa.array(['{"b": 1}', "junk", '{"b": {', deep, None]))

    assert parsed.columns["rest"].to_pylist() == ['{"b": 1}', None, None, deep, None]
    assert parsed.failed.to_pylist() == [False, True, True, False, True]


def outcome(step: Json, *texts: str) -> tuple[list[dict[str, Any]], list[tuple[dict[str, Any], str]]]:
    batch = pa.RecordBatch.from_pydict({"message": list(texts), "_offset": list(range(len(texts)))})
    found = step.open(batch.schema)(batch)
    events = materialize(found.events)
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
        ({"fields": {}}, "no-fields", ("fields",)),
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

    assert pa.schema([(name, column.type) for name, column in columns.items()]) == step.parsed_fields()
    assert columns["t"].type == TIMESTAMP


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec="utf-8"), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=5,
)
LINES = st.dictionaries(st.sampled_from(["a", "b", "c", "a.b"]), ANY_JSON, max_size=4).map(json.dumps) | st.sampled_from(
    ["", "{", "}", "{}{}", '{"b":', "1}", "{}\x00", "[{}]", "{},{}", '{"b": "x"}', '{"b": 1.0}']
)


@cache
def of_many_types() -> Callable[[pa.Array], Parsed]:
    return Json(
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


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(LINES, max_size=12))
def test_a_row_does_not_depend_on_its_neighbours(lines: list[str]) -> None:
    parse = of_many_types()

    together = rows_of(parse(pa.array(lines, pa.string())), len(lines))

    for line, row in zip(lines, together, strict=True):
        assert row == rows_of(parse(pa.array([line])), 1)[0], line


def rows_of(parsed: Parsed, count: int) -> list[Any]:
    """Whether each row has failed, and its values."""
    failed = parsed.failed.to_pylist() if parsed.failed is not None else [False] * count
    columns = {name: materialize_array(column).to_pylist() for name, column in parsed.columns.items()}
    return [(failed[row], {name: column[row] for name, column in columns.items()}) for row in range(count)]


@cache
def with_rest() -> Callable[[pa.Array], Parsed]:
    return Json(fields={"a.b": "string", "b": "string", "c": "string"}, rest="rest").compile()


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(LINES, max_size=8))
def test_the_kernel_of_rest_and_its_form_in_python_agree(lines: list[str]) -> None:
    tree = declared_tree([("a", "b"), ("b",), ("c",)], ["a.b"])

    found = rows_of(with_rest()(pa.array(lines, pa.string())), len(lines))

    for line, (failed, columns) in zip(lines, found, strict=True):
        if not failed:
            assert columns["rest"] == undeclared_text(line, tree), line


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text('{}[]":,\\ab1 \x00\x0b', max_size=30), max_size=20))
def test_the_kernel_stays_inside_texts_that_are_no_json(lines: list[str]) -> None:
    _, rest = copy_undeclared(pa.array(lines, pa.string()), name_trie(declared_tree([("a", "b"), ("b",)])), [])

    rest.validate()
    assert len(rest) == len(lines)


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.parametrize("type_", ["tinyint", "smallint", "int", "bigint"])
def test_whole_numbers_at_the_ends_of_their_types(type_: str) -> None:
    bits = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}[type_]
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    texts = [f'{{"n": {value}}}' for value in (low, high, 0, "-0", "null", 7)] + ["{}"]
    batch = pa.record_batch({"message": texts, "_offset": list(range(len(texts)))})

    events, rejects = Json(fields={"n": type_}).open(batch.schema)(batch)

    assert not rejects
    assert events.column("n").to_pylist() == [low, high, 0, 0, None, 7, None]


@pytest.mark.parametrize("value", ["128", "-129", "1.5", '"7"', "123456789012345678901", "true", "[1]"])
def test_a_value_that_is_not_a_whole_number_of_the_type_is_rejected(value: str) -> None:
    batch = pa.record_batch({"message": ['{"n": 1}', f'{{"n": {value}}}', '{"n": 5.0}'], "_offset": [0, 1, 2]})

    events, rejects = Json(fields={"n": "tinyint"}).open(batch.schema)(batch)

    assert events.column("n").to_pylist() == [1, 5]
    assert [reject.events.column("_offset").to_pylist() for reject in rejects] == [[1]]
