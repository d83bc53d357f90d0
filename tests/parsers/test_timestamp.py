"""Times in many formats: right, or failed with a reason, never wrapped."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.api import TIMESTAMP, Parsed
from parsers.timestamp.parser import Timestamp

NOW = datetime(2026, 1, 1, 0, 30, tzinfo=UTC)


def read(texts: list[Any], *formats: str, now: datetime = NOW, **options: Any) -> list[str | None]:
    parse = Timestamp(formats=formats or ["iso8601"], **options).compile_at(int(now.timestamp() * 1_000_000))
    column = parse(pa.array(texts)).columns["timestamp"]
    assert column.type == TIMESTAMP
    return [None if value is None else value.replace(tzinfo=None).isoformat(" ") for value in column.to_pylist()]


def test_zones_of_many_names_in_one_column_are_each_their_own() -> None:
    texts = [
        f"2024-07-01 12:00:00 {zone}" for zone in ("UTC", "Asia/Tokyo", "Nowhere/At_All", "asia/tokyo", "Europe/Berlin", "+01:00")
    ]

    assert read([*texts, "2024-07-01 12:00:00"], "yyyy-MM-dd HH:mm:ss[ z]", timezone="Asia/Kolkata") == [
        "2024-07-01 12:00:00",
        "2024-07-01 03:00:00",
        None,
        "2024-07-01 03:00:00",
        "2024-07-01 10:00:00",
        "2024-07-01 11:00:00",
        "2024-07-01 06:30:00",
    ]


@pytest.mark.parametrize("repeats", [1, 500])
def test_rows_stay_where_they_are(repeats: int) -> None:
    texts = ["2024-01-01", None, "2024-01-03T00:00:00.5Z", "nonsense", "2024-01-02"] * repeats

    expected = ["2024-01-01 00:00:00", None, "2024-01-03 00:00:00.500000", None, "2024-01-02 00:00:00"] * repeats
    assert read(texts) == expected


def test_a_column_of_nulls_fails_whole() -> None:
    assert Timestamp().compile()(pa.nulls(2)).reasons.to_pylist() == ["timestamp is null"] * 2


def test_slices_are_read_from_their_beginning() -> None:
    parse = Timestamp().compile()

    column = parse(pa.array(["junk", "2024-01-01", "2024-01-02"]).slice(1)).columns["timestamp"]

    assert [value.day for value in column.to_pylist()] == [1, 2]


@pytest.mark.parametrize(
    ("values", "format_", "expected"),
    [
        (pa.array([1_700_000_000, None], pa.int64()), "epoch", ["2023-11-14 22:13:20", None]),
        (pa.array([0, 2**31 - 1], pa.int32()), "epoch", ["1970-01-01 00:00:00", "2038-01-19 03:14:07"]),
        (
            pa.array([1_700_000_000.25, float("nan"), float("inf"), 1e300]),
            "epoch",
            ["2023-11-14 22:13:20.250000", None, None, None],
        ),
        (pa.array([2**63 - 1]), "epoch_millis", [None]),
        (pa.array([-1]), "epoch_nanos", ["1969-12-31 23:59:59.999999"]),
    ],
)
def test_numbers(values: pa.Array, format_: str, expected: list[str | None]) -> None:
    assert read(values, format_) == expected


def test_reasons_name_text_and_formats() -> None:
    parsed = Timestamp(formats=["syslog", "iso8601"]).compile()(pa.array(["2024-01-01", "x" * 1000, None]))

    assert parsed.failed.to_pylist() == [False, True, True]
    assert parsed.reasons.to_pylist()[1:] == [f"'{'x' * 100}' is not a time in syslog, iso8601", "timestamp is null"]


def outcome(step: Timestamp, **columns: list[Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    batch = pa.RecordBatch.from_pydict(columns)
    events, rejects = step.open(batch.schema)(batch)
    assert step.fields(batch.schema).names == events.schema.names
    return events.to_pylist(), [event for reject in rejects for event in reject.events.to_pylist()]


def test_field_target_and_errors() -> None:
    good, bad = outcome(Timestamp(), timestamp=["2024-01-01", "junk"], n=[1, 2])
    assert good == [{"timestamp": datetime(2024, 1, 1, tzinfo=ZoneInfo("UTC")), "n": 1}]
    assert bad == [{"timestamp": "junk", "n": 2}]

    good, bad = outcome(Timestamp(field="t", target="at", on_error="keep"), t=["2024-01-01", "junk"])
    assert [(event["t"], event["at"] is None) for event in good] == [(None, False), ("junk", True)]
    assert bad == []


def test_a_timestamp_passes_as_it_is() -> None:
    at = datetime(2024, 1, 1, tzinfo=UTC)
    schema = pa.schema([("timestamp", TIMESTAMP)])

    (finding,) = Timestamp().check(schema)
    good, bad = outcome(Timestamp(), timestamp=[at])

    assert (finding.code, finding.severity) == ("already-timestamp", "warning")
    assert (good, bad) == ([{"timestamp": at}], [])


@pytest.mark.parametrize(
    ("options", "code", "hint"),
    [
        ({"formats": ["iso8602"]}, "bad-time-format", "did you mean 'iso8601'?"),
        ({"formats": ["%Y-%m-%d"]}, "bad-time-format", "yyyy-MM-dd"),
        ({"formats": ["YYYY-MM-dd"]}, "bad-time-format", "did you mean 'yyyy'?"),
        ({"formats": ["yyyy-MM-dd hh:mm"]}, "bad-time-format", "did you mean 'HH'"),
        ({"formats": ["HH:mm"]}, "bad-time-format", "yyyy-MM-dd"),
        ({"formats": ["yyyy-MM-dd'T"]}, "bad-time-format", None),
        ({"formats": ["[yyyy-MM-dd"]}, "bad-time-format", None),
        ({"formats": ["yyyy-MM-dd]"]}, "bad-time-format", None),
        ({"formats": ["yyyy-MM-dd yyyy"]}, "bad-time-format", None),
        ({"timezone": "Europe/Berln"}, "unknown-timezone", "did you mean 'Europe/Berlin'?"),
        ({"timezone": "../../etc/passwd"}, "unknown-timezone", None),
        ({"field": "timestmp"}, "unknown-field", "did you mean 'timestamp'?"),
        ({"field": "n"}, "wrong-type", "epoch"),
        ({"field": "b", "formats": ["epoch"]}, "wrong-type", None),
        ({"on_error": "keep"}, "keep-needs-target", "target"),
    ],
)
def test_findings(options: dict[str, Any], code: str, hint: str | None) -> None:
    schema = pa.schema([("timestamp", pa.string()), ("n", pa.int64()), ("b", pa.bool_())])

    (finding,) = Timestamp(**options).check(schema)

    assert finding.code == code
    assert hint is None or hint in (finding.hint or "")


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)), st.sampled_from(["", "Z", "+05:30", "-11:00"])
)
def test_what_python_writes_is_read_back(time: datetime, zone: str) -> None:
    text = time.isoformat() + zone
    expected = datetime.fromisoformat(text.replace("Z", "+00:00"))
    expected = expected.astimezone(UTC).replace(tzinfo=None) if zone else expected

    assert read([text]) == [expected.isoformat(" ")]


@cache
def several_formats() -> Callable[[pa.Array], Parsed]:
    return Timestamp(formats=["iso8601", "syslog", "epoch", "rfc2822"]).compile()


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(max_size=30) | st.none(), max_size=20))
def test_any_text_is_read_or_fails(texts: list[str | None]) -> None:
    parsed = several_formats()(pa.array(texts, pa.string()))

    assert len(parsed.columns["timestamp"]) == len(texts)


# ── Times of day ──────────────────────────────────────────────────────────────────────────────────

NOON = int(datetime(2026, 11, 20, 12, 30, tzinfo=UTC).timestamp() * 1_000_000)


def times_of_day(texts: list[str], now: int = NOON, **options: Any) -> list[str | None]:
    step = Timestamp(**{"formats": ["HH:mm:ss[.SSS]"], "date": "latest", **options})
    assert not list(step.check(pa.schema([("timestamp", pa.string())])))
    found = step.compile_at(now)(pa.array(texts, pa.string())).columns["timestamp"]
    return [None if value is None else value.strftime("%m-%d %H:%M:%S") for value in found.to_pylist()]


def test_a_time_of_day_is_on_the_last_day_on_which_it_is_not_past_now() -> None:
    texts = ["12:29:59", "13:30:00", "13:30:01", "23:59:59.999", "00:00:00", "24:00:00", "noon", ""]

    found = times_of_day(texts)

    assert found == ["11-20 12:29:59", "11-20 13:30:00", "11-19 13:30:01", "11-19 23:59:59", "11-20 00:00:00", None, None, None]


def test_a_time_of_day_shortly_after_midnight_may_be_ahead_of_a_slow_clock() -> None:
    now = int(datetime(2026, 11, 20, 23, 30, tzinfo=UTC).timestamp() * 1_000_000)

    assert times_of_day(["00:10:00", "23:29:00", "00:40:00"], now) == ["11-21 00:10:00", "11-20 23:29:00", "11-20 00:40:00"]


def test_a_time_of_day_is_on_the_wall_clock_of_its_zone() -> None:
    now = int(datetime(2026, 11, 20, 23, 30, tzinfo=UTC).timestamp() * 1_000_000)

    assert times_of_day(["00:10:00", "23:50:00"], now, timezone="Europe/Berlin") == ["11-20 23:10:00", "11-20 22:50:00"]


def test_times_of_day_on_a_day_that_is_given_and_beside_other_formats() -> None:
    options = {"date": "2026-03-01", "formats": ["yyyy-MM-dd HH:mm:ss", "HH:mm:ss", "h:mm a"]}

    found = times_of_day(["06:25:03", "2026-11-20 06:25:03", "6:25 PM"], **options)

    assert found == ["03-01 06:25:03", "11-20 06:25:03", "03-01 18:25:00"]


@pytest.mark.parametrize("text", ["today", "2026-13-01", "20.11.2026"])
def test_a_date_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="date"):
        Timestamp(formats=["HH:mm:ss"], date=text)
