"""Values as YAML writes them, and when two are the same."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.config.document.parser import parse
from etl.testing.values import is_equal, to_plain, to_rows
from etl.testing.yaml_writer import format_flow_mapping, format_item, format_scalar

texts = st.text() | st.sampled_from(
    ["", "no", "none", "~", "1e3", "0x1f", "- x", "a: b", "a #b", "2026-11-20T06:25:03Z", "{", "'", "\\n"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(values)
def test_what_is_written_is_read_back(value: Any) -> None:
    document = parse(f"a: {format_scalar(value)}\n")

    assert document.flaws == []
    assert is_equal(document.value["a"], value)


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(st.dictionaries(texts, values, max_size=4))
def test_an_event_of_a_block_list_is_read_back(event: dict[str, Any]) -> None:
    document = parse("a:\n" + "\n".join(format_item(event, 2)) + "\n")

    assert document.flaws == []
    assert is_equal(document.value["a"][0], event)


def test_events_are_written_as_people_would() -> None:
    event = {"user_name": "root", "source.ip": "192.0.2.1", "port": 22, "ok": True, "when": "2026-11-20T06:25:03Z", "to": "a: b"}

    assert (
        format_flow_mapping(event)
        == '{user_name: root, source.ip: 192.0.2.1, port: 22, ok: true, when: 2026-11-20T06:25:03Z, to: "a: b"}'
    )


def test_columns_become_plain_values_without_nulls() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "t": pa.array([datetime(2026, 1, 2, 3, 4, 5, 6, UTC), None]),
            "d": pa.array([date(2026, 1, 2), None]),
            "n": pa.array([Decimal("1.50"), None]),
            "b": pa.array([b"\x00", None]),
            "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
            "s": pa.array([{"x": 1, "y": None}, None], pa.struct([("x", pa.int64()), ("y", pa.int64())])),
            "_offset": pa.array([0, 1]),
        }
    )

    assert to_rows(batch) == [
        {"t": "2026-01-02T03:04:05.000006Z", "d": "2026-01-02", "n": 1.5, "b": "AA==", "m": {"k": 1}, "s": {"x": 1}},
        {},
    ]


@pytest.mark.parametrize(
    ("expected", "found", "equal"),
    [
        ("2026-11-20T07:25:03+01:00", "2026-11-20T06:25:03Z", True),
        ("2026-11-20T06:25:03.000000Z", "2026-11-20T06:25:03Z", True),
        ("2026-11-20T06:25:04Z", "2026-11-20T06:25:03Z", False),
        (1, 1.0, True),
        (1, True, False),
        (0.1 + 0.2, 0.3, True),
        ("1", 1, False),
        (None, None, True),
        ({"a": 1, "b": None}, {"a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([1, 2], [2, 1], False),
        ("x", "x", True),
    ],
)
def test_sameness(expected: Any, found: Any, equal: bool) -> None:
    assert is_equal(expected, found) is equal


def test_a_time_without_a_zone_stays_one() -> None:
    assert to_plain(datetime(2026, 1, 2)) == "2026-01-02T00:00:00"
