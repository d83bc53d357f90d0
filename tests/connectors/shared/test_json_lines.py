"""JSON lines: the form of each type, and that no value breaks a line."""

from __future__ import annotations

import base64
import io
import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.shared import json_lines
from etl.api import TIMESTAMP, nest
from etl.columns.json.values import as_text, to_json_types

NOON = datetime(2026, 1, 2, 12, 0, 0, 120, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "type_", "text"),
    [
        ('a"b\\/\n\r\t\b\f\x00\x1f\x7f\u2028é😀', pa.string(), '"a\\"b\\\\/\\n\\r\\t\\b\\f\\u0000\\u001f\x7f\u2028é😀"'),
        (2**63 - 1, pa.int64(), "9223372036854775807"),
        (2**64 - 1, pa.uint64(), "18446744073709551615"),
        (math.nan, pa.float64(), "null"),
        (-math.inf, pa.float32(), "null"),
        (1.0, pa.float64(), "1.0"),
        (-(2**63), pa.int64(), "-9223372036854775808"),
        (-128, pa.int8(), "-128"),
        (2**32 - 1, pa.uint32(), "4294967295"),
        (True, pa.bool_(), "true"),
        (None, pa.null(), "null"),
        (NOON, TIMESTAMP, '"2026-01-02T12:00:00.000120Z"'),
        (NOON, pa.timestamp("us", "Asia/Tokyo"), '"2026-01-02T12:00:00.000120Z"'),
        (NOON.replace(tzinfo=None), pa.timestamp("us"), '"2026-01-02T12:00:00.000120"'),
        (0, pa.timestamp("s", "UTC"), '"1970-01-01T00:00:00Z"'),
        (1, pa.timestamp("ns", "UTC"), '"1970-01-01T00:00:00.000000001Z"'),
        (2**60, TIMESTAMP, '"-27032-08-17T21:30:06.846976Z"'),
        (date(2026, 1, 2), pa.date32(), '"2026-01-02"'),
        (-719_529, pa.date32(), '"-0001-12-31"'),
        (2_932_897, pa.date32(), '"10000-01-01"'),
        (253_402_300_800_000, pa.timestamp("ms"), '"10000-01-01T00:00:00.000"'),
        (date(2026, 1, 2), pa.date64(), '"2026-01-02"'),
        (Decimal("-1.20"), pa.decimal128(10, 2), '"-1.20"'),
        (Decimal("-1.20"), pa.decimal256(50, 2), '"-1.20"'),
        (b"\xff\x00", pa.binary(), '"/wA="'),
        (b"ab", pa.binary(2), '"YWI="'),
        ([b"a", None], pa.list_(pa.binary()), '["YQ==",null]'),
        ([NOON], pa.large_list(TIMESTAMP), '["2026-01-02T12:00:00.000120Z"]'),
        ([NOON, None], pa.list_(TIMESTAMP, 2), '["2026-01-02T12:00:00.000120Z",null]'),
        ({"a": 1, "b": None}, pa.struct([("a", pa.int64()), ("b", pa.string())]), '{"a":1,"b":null}'),
        ({"t": NOON}, pa.struct([("t", TIMESTAMP)]), '{"t":"2026-01-02T12:00:00.000120Z"}'),
        ([("k", 1)], pa.map_(pa.string(), pa.int64()), '{"k":1}'),
        ([(1, b"a")], pa.map_(pa.int64(), pa.binary()), '{"1":"YQ=="}'),
    ],
)
def test_forms_of_all_types(value: Any, type_: pa.DataType, text: str) -> None:
    # a slice of a longer array, with a null before it: offsets and null bitmaps must be respected
    values = pa.concat_arrays([pa.array([value], type_), pa.nulls(1, type_), pa.array([value], type_)]).slice(1)

    lines = bytes(json_lines.encode(pa.record_batch({"v": values, "_offset": [0, 1]}))).decode()

    assert lines == f'{{"v":null}}\n{{"v":{text}}}\n'


def test_dotted_fields_nest_and_odd_names_are_quoted() -> None:
    batch = pa.record_batch({"a.b": [1], 'q"\n': ["x"], "a.c": [2], "_source": ["s"], "_partition": ["p"], "_offset": [3]})

    assert bytes(json_lines.encode(batch)) == b'{"a":{"b":1,"c":2},"q\\"\\n":"x"}\n'


def test_events_without_fields_and_batches_without_events() -> None:
    assert bytes(json_lines.encode(pa.record_batch({"_offset": [1, 2]}))) == b"{}\n{}\n"
    assert bytes(json_lines.encode(pa.record_batch({"a": pa.array([], pa.string())}))) == b""


def test_as_text_keeps_nulls() -> None:
    lists = pa.array([[1, None], None, []], pa.list_(pa.int64()))

    assert as_text(lists).to_pylist() == ["[1,null]", None, "[]"]


times = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC))
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), st.text()),
    "whole": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "real": (pa.float64(), st.floats()),
    "truth": (pa.bool_(), st.booleans()),
    "time": (TIMESTAMP, times),
    "bytes": (pa.binary(), st.binary()),
    "in.list": (pa.list_(pa.string()), st.lists(st.none() | st.text(), max_size=3)),
    "in.struct": (
        pa.struct([("t", TIMESTAMP), ("s", pa.string())]),
        st.fixed_dictionaries({"t": st.none() | times, "s": st.none() | st.text()}),
    ),
}


def meant(value: Any) -> Any:
    """Return the value that a reader of the JSON should get."""
    if isinstance(value, datetime):
        return f"{value:%Y}".zfill(4) + f"{value:-%m-%dT%H:%M:%S.%fZ}"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: meant(member) for name, member in value.items()}
    return [meant(item) for item in value] if isinstance(value, list) else value


@pytest.mark.slow
@given(
    st.lists(st.fixed_dictionaries({name: st.none() | values for name, (_, values) in COLUMNS.items()}), min_size=1, max_size=6)
)
@settings(deadline=None, max_examples=150)
def test_every_line_is_read_back_as_its_event(events: list[dict[str, Any]]) -> None:
    columns = {name: pa.array([event[name] for event in events], type_) for name, (type_, _) in COLUMNS.items()}
    batch = pa.record_batch({**columns, "_offset": list(range(len(events)))})

    lines = bytes(json_lines.encode(batch)).split(b"\n")

    assert lines.pop() == b""
    expected = [{name: meant(value) for name, value in event.items()} for event in events]
    for event in expected:
        event["in"] = {"list": event.pop("in.list"), "struct": event.pop("in.struct")}
    assert [json.loads(line) for line in lines] == expected
    assert json_lines.sizes(batch).to_pylist() == [len(line) + 1 for line in lines]


@pytest.mark.slow
@given(st.lists(st.none() | st.text(), min_size=1), st.lists(st.none() | st.text(), min_size=1))
@settings(deadline=None, max_examples=200)
def test_text_columns_read_back(one: list[str | None], other: list[str | None]) -> None:
    rows = min(len(one), len(other))
    batch = pa.record_batch({"a": pa.array(one[:rows], pa.string()), "b": pa.array(other[:rows], pa.string())})

    lines = bytes(json_lines.encode(batch)).split(b"\n")[:-1]

    assert [json.loads(line) for line in lines] == batch.to_pylist()


EASY: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "a.text": (pa.large_string(), st.text()),
    "whole": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "a.time": (TIMESTAMP, times),
    "truth": (pa.bool_(), st.booleans()),
    "a.b.day": (pa.date32(), st.dates()),
    "hard": (pa.string(), st.text()),
}


@pytest.mark.slow
@given(
    st.lists(st.fixed_dictionaries({name: st.none() | values for name, (_, values) in EASY.items()}), min_size=1), st.booleans()
)
@settings(deadline=None, max_examples=200)
def test_the_kernel_writes_what_polars_writes(events: list[dict[str, Any]], full: bool) -> None:
    rows = [event for event in events if None not in event.values()] if full else events
    columns = {name: pa.array([row[name] for row in rows], type_) for name, (type_, _) in EASY.items()}

    lines = json_lines.encode(pa.record_batch(columns))

    assert bytes(lines) == by_polars(columns)


def by_polars(columns: dict[str, pa.Array]) -> bytes:
    events = nest(pa.RecordBatch.from_arrays([to_json_types(column) for column in columns.values()], names=list(columns)))
    lines = io.BytesIO()
    pl.from_arrow(events).write_ndjson(lines)
    return lines.getvalue()


def test_slices_are_joined_from_their_own_rows() -> None:
    batch = pa.record_batch({"a": ['"', "x", "y", "\n"], "n": [1, 2, 3, 4]}).slice(1, 2)

    assert bytes(json_lines.encode(batch)) == b'{"a":"x","n":2}\n{"a":"y","n":3}\n'


def test_durations_are_iso_8601() -> None:
    batch = pa.record_batch({"d": pa.array([timedelta(seconds=90)])})

    assert bytes(json_lines.encode(batch)) == b'{"d":"PT90S"}\n'


@pytest.mark.parametrize(
    "columns", [{"a": ['"', None], "at": pa.array([0, 1 << 60], pa.timestamp("us", "UTC"))}, {"_offset": [0, 1]}]
)
def test_objects_are_written_in_a_frame(columns: dict[str, Any]) -> None:
    frame = json_lines.Frame(('{"id":', ',"to":', "}\n["), "]")
    batch = pa.record_batch(columns)

    lines = json_lines.write_framed(batch, frame, [pa.array(['x"', None]), pa.array([None, "y\n"])])

    first, second = bytes(json_lines.encode(batch)).splitlines()
    expected = [b'{"id":"x\\"","to":null}\n[' + first + b"]\n", b'{"id":null,"to":"y\\n"}\n[' + second + b"]\n"]
    assert bytes(lines.text) == b"".join(expected)
    assert lines.lengths.tolist() == [len(line) for line in expected]
