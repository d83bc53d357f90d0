"""Windows over time."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from state.lane import Lane

from etl.api import TIMESTAMP, Schema
from etl.steps.window import ARRIVAL, Window

Row = dict[str, Any]
Results = list[list[Row]]
"""Of each micro-batch: its rows."""

SCHEMA = pa.schema(
    [
        ("time", TIMESTAMP),
        ("source.ip", pa.string()),
        ("user_name", pa.string()),
        ("port", pa.int32()),
        ("price", pa.decimal128(10, 2)),
    ]
)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def event(offset: int, seconds: float, ip: str | None = "a", **fields: Any) -> Row:
    return {"_offset": offset, "time": at(seconds), "source.ip": ip, **fields}


def heartbeat(seconds: float) -> Row:
    return {"time": at(seconds)}


def window(**options: Any) -> Window:
    return Window.model_validate({"time": "time", "late": "0s", "aggregates": {"n": "count(*)"}, **options})


Stream = Callable[..., Results]


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    """Run a window over batches of events, each a micro-batch."""

    def run(step: Window, *batches: Iterable[Row], incoming: Schema = SCHEMA) -> Results:
        lane = Lane(step, incoming, tmp_path / "state")
        return [lane.run(list(batch)) for batch in batches]

    return run


def rows(results: Results, *fields: str) -> list[tuple[Any, ...]]:
    """All rows of a run, sorted; times as seconds after noon."""
    found = [tuple(_seconds(row[name]) for name in fields) for batch in results for row in batch]
    return sorted(found, key=lambda row: [(value is None, value) for value in row])


def _seconds(value: Any) -> Any:
    return (value.astimezone(UTC) - NOON).total_seconds() if isinstance(value, datetime) else value


EDGES = ("window_start", "window_end", "source.ip", "n")

# ── Time ──────────────────────────────────────────────────────────────────────────────────────────


def test_tumbling_windows_close_by_the_watermark_and_drop_late_events(stream: Stream) -> None:
    step = window(size="1m", late="10s", group_by=["source.ip"])

    results = stream(
        step,
        [event(0, 0), event(1, 59.999), event(2, 60), event(3, 5, None)],
        [event(4, 65, "b"), event(5, 3)],  # watermark 50: the first window is open still
        [event(6, 75, "b")],  # watermark 65 from here on
        [heartbeat(76)],  # gives the first window
        [event(7, 59), heartbeat(130)],  # late
        [heartbeat(131)],
    )

    assert rows(results, *EDGES) == [(0, 60, "a", 3), (0, 60, None, 1), (60, 120, "a", 1), (60, 120, "b", 2)]


@pytest.mark.parametrize("more", [{}, {"users": "count(distinct user_name)"}], ids=["panes", "whole"])
def test_sliding_windows_hold_an_event_once_each(stream: Stream, more: dict[str, str]) -> None:
    step = window(size="3m", slide="1m", group_by=["source.ip"], aggregates={"n": "count(*)", "port.most": "max(port)", **more})
    times = [0, 30, 61, 150, 299]

    results = stream(step, [event(i, t, port=i) for i, t in enumerate(times)], [heartbeat(1000)], [heartbeat(1001)])

    starts = range(-120, 300, 60)
    inside = {s: [i for i, t in enumerate(times) if s <= t < s + 180] for s in starts}
    expected = [(s, s + 180, "a", len(found), found[-1]) for s, found in inside.items() if found]
    assert rows(results, *EDGES, "port.most") == expected


def test_sessions_end_with_the_gap(stream: Stream) -> None:
    step = window(gap="30s", group_by=["source.ip"])

    results = stream(
        step,
        [event(0, 0), event(1, 29), event(2, 100), event(3, 10, "b")],
        [heartbeat(100)],  # gives the sessions that ended before 100
        [event(4, 58)],  # late
        [heartbeat(1000)],
        [heartbeat(1001)],
    )

    assert rows(results, *EDGES) == [(0, 59, "a", 2), (10, 40, "b", 1), (100, 130, "a", 1)]


def test_on_change_gives_each_changed_window_after_each_batch(stream: Stream) -> None:
    step = window(size="1m", group_by=["source.ip"], emit="on_change")

    results = stream(step, [event(0, 0), event(1, 1, "b")], [event(2, 2)], [event(3, 61)])

    given = [rows([batch], *EDGES) for batch in results]
    assert given[:3] == [[(0, 60, "a", 1), (0, 60, "b", 1)], [(0, 60, "a", 2)], [(60, 120, "a", 1)]]


def test_without_a_time_windows_go_by_the_time_of_reading(stream: Stream) -> None:
    step = window(time=None, size="1m", group_by=["source.ip"])

    def read(offset: int | None, seconds: float) -> Row:
        return {"_offset": offset, ARRIVAL: at(seconds), "source.ip": "a"}

    results = stream(
        step,
        [read(0, 1), read(1, 59)],
        [read(2, 61)],
        [read(None, 130)],
        [read(None, 131)],
        incoming=pa.schema([(ARRIVAL, TIMESTAMP), ("source.ip", pa.string())]),
    )

    assert rows(results, *EDGES) == [(0, 60, "a", 2), (60, 120, "a", 1)]
    assert step.idle_after() == timedelta(seconds=61)


def test_rates_are_of_the_seconds_of_each_window(tmp_path: Path) -> None:
    aggregates = {
        "rate": "per_second(count(*))",
        "ports": "per_second(sum(port)) filter (where port > 1)",
        "none": "per_second(sum(price))",
    }
    step = window(size="20s", slide="10s", aggregates=aggregates)
    lane = Lane(step, SCHEMA, tmp_path / "sliding")

    results = [lane.run([event(0, 0, port=1), event(1, 12, port=3)]), lane.run([heartbeat(60)])]

    assert rows(results, "window_start", "rate", "ports", "none") == [
        (-10, 0.05, None, None),
        (0, 0.1, 0.15, None),
        (10, 0.05, 0.15, None),
    ]


def test_a_session_lasts_from_its_first_event_to_its_end(tmp_path: Path) -> None:
    lane = Lane(window(gap="10s", aggregates={"rate": "per_second(count(*))"}), SCHEMA, tmp_path)

    results = [lane.run([event(0, 0), event(1, 6)]), lane.run([heartbeat(60)])]

    assert rows(results, "window_end", "rate") == [(16, 0.125)]


@pytest.mark.parametrize("length", [{"size": "1m"}, {"size": "1m", "slide": "30s"}, {"gap": "1m"}])
def test_lists_and_structs_are_groups_on_the_state_lane(tmp_path: Path, length: dict[str, str]) -> None:
    fields = pa.struct([("name", pa.string()), ("ports", pa.list_(pa.int64()))])
    incoming = SCHEMA.append(pa.field("tags", pa.list_(pa.string()))).append(pa.field("host", fields))
    step = window(**length, group_by=["tags", "host"], aggregates={"n": "count(*)", "last": "last(host)"})
    lane = Lane(step, incoming, tmp_path)
    one, other = {"name": "x", "ports": [1, 2]}, {"name": "x", "ports": [1]}

    lane.run([event(0, 0, tags=["a"], host=one), event(1, 1, tags=["a"], host=other)], [event(2, 2, tags=["a"], host=one)])
    lane.run([event(3, 3, tags=["a"], host=one), event(4, 4, tags=None, host=None)])
    results = lane.run([event(5, 600, tags=[], host=one)])

    first = [row for row in results if row["window_start"] == results[-1]["window_start"]] if "slide" in length else results
    found = [(row["tags"], row["host"], row["n"], row["last"]) for row in first]
    assert sorted(found, key=str) == sorted([(["a"], one, 3, one), (["a"], other, 1, other), (None, None, 1, None)], key=str)


def test_a_new_aggregate_counts_open_windows_from_here_on(tmp_path: Path) -> None:
    lane = Lane(window(size="1m", aggregates={"n": "count(*)", "gone": "max(port)"}), SCHEMA, tmp_path)
    lane.run([event(0, 0, port=9), event(1, 1, port=1)])

    lane.step = window(size="1m", aggregates={"n": "count(*)", "ports": "count(port)", "most": "max(user_name)"})
    lane.run([event(2, 2, port=3)])
    (result,) = lane.run([heartbeat(60)])

    assert (result["n"], result["ports"], result["most"]) == (3, 1, None)
    assert "gone" not in result


def test_results_do_not_depend_on_how_events_are_cut(tmp_path: Path) -> None:
    step = window(
        size="1m", slide="20s", late="10m", group_by=["source.ip"], aggregates={"n": "count(*)", "first": "first(port)"}
    )
    events = [event(i, (i * 37) % 300 / 3, "abc"[i % 3], port=i) for i in range(60)]

    def results(*batches: list[list[Row]]) -> list[tuple[Any, ...]]:
        lane = Lane(step, SCHEMA, tmp_path / str(len(batches)))
        return rows([*(lane.run(*splits) for splits in batches), lane.run([heartbeat(1000)])], *EDGES, "first")

    whole = results([events])
    assert whole
    assert results([events[:7], events[7:20]], [events[20:]]) == whole
    assert results(*[[events[i : i + 1]] for i in sorted(range(60), key=lambda i: events[i]["time"])]) == whole


# ── Aggregates ────────────────────────────────────────────────────────────────────────────────────

AGGREGATES = {
    "n": "count(*)",
    "users": "count(user_name)",
    "high": "count_if(port > 2)",
    "total": "sum(port)",
    "cost": "sum(price)",
    "overflow": "sum(port + 9223372036854775800)",
    "mean": "avg(port)",
    "least": "min(port)",
    "most": "max(user_name)",
    "different": "count(distinct user_name)",
    "about": "approx_count_distinct(user_name)",
    "earliest": "first(user_name)",
    "latest": "last(user_name)",
    "some": "collect(user_name, 3)",
    "median": "percentile(port, 0.5)",
    "p90": "approx_percentile(port, 0.9)",
    "of_a": "count(*) filter (where user_name = 'u1')",
    "last_low": "last(user_name) filter (where port < 3)",
    "nested.sum": "sum(port * 2)",
    "inside": "count_if(ip_in(source.ip, '10.0.0.0/8'))",
}


def test_every_aggregate_equals_python(stream: Stream) -> None:
    step = window(size="1m", group_by=["source.ip"], aggregates=AGGREGATES)
    ports = [5, 1, None, 3, 2, 2, 4]
    users = ["u3", "u1", None, "u2", "u1", "u1", None]
    events = [
        event(i, 30 - (i // 2), port=p, user_name=u, price=Decimal("1.25"))
        for i, (p, u) in enumerate(zip(ports, users, strict=True))
    ]
    empty = [event(10 + i, i, None) for i in range(2)]

    results = stream(step, [*events[:3], *empty], events[3:], [heartbeat(61)], [heartbeat(62)])

    by_ip = {row["source.ip"]: row for batch in results for row in batch}
    there = [p for p in ports if p is not None]
    in_order = [row["user_name"] for row in sorted(events, key=lambda e: (e["time"], e["_offset"])) if row["user_name"]]
    assert {name: by_ip["a"][name] for name in AGGREGATES} == {
        "n": 7,
        "users": 5,
        "high": 3,
        "total": sum(there),
        "cost": Decimal("8.75"),
        "overflow": None,
        "mean": pytest.approx(statistics.mean(there)),
        "least": 1,
        "most": "u3",
        "different": 3,
        "about": 3,
        "earliest": in_order[0],
        "latest": in_order[-1],
        "some": in_order[:3],
        "median": statistics.median(there),
        "p90": sorted(there)[math.ceil(0.9 * len(there)) - 1],
        "of_a": 3,
        "last_low": "u1",
        "nested.sum": 2 * sum(there),
        "inside": 0,
    }
    nothing = {name: by_ip[None][name] for name in AGGREGATES}
    assert nothing == dict.fromkeys(AGGREGATES) | {"n": 2, "some": []} | dict.fromkeys(
        ("users", "high", "different", "about", "of_a", "inside"), 0
    )


# ── What it says of itself ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "code", "path"),
    [
        ({}, "bad-window", ()),
        ({"size": "1m", "gap": "1m"}, "bad-window", ()),
        ({"size": "0s"}, "bad-window", ("size",)),
        ({"size": "1m", "slide": "2m"}, "bad-window", ("slide",)),
        ({"gap": "1m", "slide": "1m"}, "bad-window", ("slide",)),
        ({"gap": "1m", "emit": ["on_close", {"when": "n > 3"}]}, "bad-emit", ("emit", 1)),
        ({"size": {"field": "port", "default": "1m", "max": "1h"}, "emit": {"every": "1s"}}, "bad-emit", ("emit",)),
        ({"size": []}, "bad-window", ("size",)),
        ({"size": ["1m", "5m", "60s"]}, "bad-window", ("size", 2)),
        ({"size": ["1m", "0s"]}, "bad-window", ("size", 1)),
        ({"size": ["5m", "1m"], "slide": "2m"}, "bad-window", ("slide",)),
        ({"size": ["5m", "1m"], "step": "1m"}, "bad-window", ("step",)),
        ({"size": "5m", "step": "0s"}, "bad-window", ("step",)),
        ({"size": "5m", "step": "2m"}, "bad-window", ("step",)),
        ({"size": "5m", "step": "5m"}, "bad-window", ("step",)),
        ({"size": "5m", "step": "1m", "slide": "1m"}, "bad-window", ("step",)),
        ({"gap": "5m", "step": "1m"}, "bad-window", ("step",)),
        ({"gap": {"field": "port", "default": "0s", "max": "1h"}}, "bad-window", ("gap", "default")),
        ({"gap": {"field": "port", "default": "2h", "max": "1h"}}, "bad-window", ("gap", "default")),
        ({"gap": {"field": "prot", "default": "1m", "max": "1h"}}, "unknown-field", ("gap", "field")),
        ({"size": {"field": "user_name", "default": "1m", "max": "1h"}}, "wrong-type", ("size", "field")),
        ({"size": {"field": "port", "default": "1m", "max": "1h"}, "slide": "1m"}, "bad-window", ("slide",)),
        ({"size": "1m", "emit": []}, "bad-emit", ("emit",)),
        ({"size": "1m", "emit": ["on_close", "on_close"]}, "bad-emit", ("emit", 1)),
        ({"size": "1m", "emit": [{"when": "n > 3"}, {"when": "n > 3", "again_after": "1m"}]}, "bad-emit", ("emit", 1)),
        ({"size": "1m", "emit": {}}, "bad-emit", ("emit",)),
        ({"size": "1m", "emit": {"when": "n > 3", "every": "1s"}}, "bad-emit", ("emit",)),
        ({"size": "1m", "emit": {"when": "n > 3", "groups": "all"}}, "bad-emit", ("emit", "groups")),
        ({"size": "1m", "emit": ["on_close", {"every": "1s", "again_after": "1h"}]}, "bad-emit", ("emit", 1, "again_after")),
        ({"size": "1m", "emit": ["on_close", {"every": "0s"}]}, "bad-emit", ("emit", 1, "every")),
        ({"size": "1m", "emit": ["on_close", {"every": "1m"}]}, "bad-emit", ("emit", 1, "every")),
        ({"size": "1m", "emit": {"every": "1s"}}, "bad-emit", ("emit",)),
        ({"size": "1m", "emit": ["on_change", {"every": "1s"}]}, "bad-emit", ("emit",)),
        ({"size": "1m", "emit": {"late": {"for": "1h"}}}, "bad-emit", ("emit",)),
        ({"size": "1m", "emit": ["on_close", {"late": {"for": "0s"}}]}, "bad-emit", ("emit", 1, "late", "for")),
        ({"size": "1m", "emit": ["on_close", {"late": {"for": "1h", "every": "0s"}}]}, "bad-emit", ("emit", 1, "late", "every")),
        ({"size": "1m", "emit": {"when": "m > 3"}}, "unknown-field", ("emit", "when")),
        ({"size": "1m", "emit": ["on_close", {"when": "n + 3"}]}, "not-boolean", ("emit", 1, "when")),
        ({"size": "1m", "emit": {"when": "soundex(string(n)) = 'x'"}}, "bad-emit", ("emit", "when")),
        ({"size": "1m", "emit": {"when": "n > 1"}, "having": "soundex(string(n)) = 'x'"}, "bad-emit", ("having",)),
        ({"size": "1m", "emit_reason": "n"}, "name-conflict", ("aggregates",)),
        ({"size": "1m", "time": "tmie"}, "unknown-field", ("time",)),
        ({"size": "1m", "time": "user_name"}, "wrong-type", ("time",)),
        ({"size": "1m", "group_by": ["user_name", "source.ipp"]}, "unknown-field", ("group_by", 1)),
        ({"size": "1m", "aggregates": {"a": "count(*)", "b": "sum(source.ip)"}}, "wrong-type", ("aggregates", "b")),
        ({"size": "1m", "aggregates": {"window_end": "count(*)"}}, "name-conflict", ("aggregates",)),
        ({"size": "1m", "group_by": ["source.ip"], "aggregates": {"source": "count(*)"}}, "name-conflict", ("aggregates",)),
        ({"size": "1m", "having": "m > 3"}, "unknown-field", ("having",)),
        ({"size": "1m", "having": "n + 1"}, "not-boolean", ("having",)),
    ],
)
def test_findings(options: dict[str, Any], code: str, path: tuple[str | int, ...]) -> None:
    found = list(window(**options).check(SCHEMA))

    assert [(f.code, f.path) for f in found] == [(code, path)]


@pytest.mark.parametrize("aggregate", ["min(host)", "count(distinct tags)", "mode(host)", "max_by(port, tags)", "top(tags, 3)"])
def test_lists_and_structs_are_not_compared(aggregate: str) -> None:
    nested = SCHEMA.append(pa.field("tags", pa.list_(pa.string()))).append(pa.field("host", pa.struct([("n", pa.int64())])))

    (found,) = window(size="1m", aggregates={"x": aggregate}).check(nested)

    assert (found.code, found.path) == ("wrong-type", ("aggregates", "x"))
    assert "values that can be compared" in found.message


def test_maps_are_no_groups() -> None:
    labels = SCHEMA.append(pa.field("labels", pa.map_(pa.string(), pa.string())))

    (found,) = window(size="1m", group_by=["source.ip", "labels"]).check(labels)

    assert (found.code, found.path) == ("wrong-type", ("group_by", 1))


def test_a_good_window_has_no_findings_and_known_fields() -> None:
    step = window(
        size="10m", slide="1m", group_by=["source.ip"], aggregates={"n": "count(*)", "users": "count(distinct user_name)"}
    )

    assert list(step.check(SCHEMA)) == []
    assert step.fields(SCHEMA) == pa.schema(
        [
            ("window_start", TIMESTAMP),
            ("window_end", TIMESTAMP),
            ("source.ip", pa.string()),
            ("n", pa.int64()),
            ("users", pa.int64()),
        ]
    )
    assert step.needs(SCHEMA) == {"time", "source.ip", "user_name"}
    assert (step.event_time(), step.max_delay(), step.idle_after()) == (("time", timedelta(0)), timedelta(minutes=10), None)


EVERYTHING = [
    "on_close",
    "on_change",
    {"every": "10s", "groups": "all"},
    {"late": {"for": "1h", "every": "30s"}},
    {"when": "n > 1"},
]


def test_a_window_says_when_it_gives_results() -> None:
    step = window(size="1m", emit=EVERYTHING, emit_reason="why")

    assert list(step.check(SCHEMA)) == []
    assert step.fields(SCHEMA).names[-1] == "why"
    panes = "keeps a row of each group and pane, until the watermark has passed its windows"
    session = "keeps a row of each session, until the watermark has passed its end"
    assert list(step.notes(SCHEMA)) == [
        panes,
        "results: on close; on change; every 10s, all groups; late for 1h every 30s, corrected; when n > 1, once",
    ]
    assert list(window(size="1m").notes(SCHEMA)) == [panes]
    assert list(window(gap="1m").notes(SCHEMA)) == [session]
    assert list(window(size=["1h", "15m"], slide="10m").notes(SCHEMA)) == ["panes: 5m, up to 12 in a window", panes]


LENGTH = {"field": "port", "default": "1m", "max": "1h"}


def test_state_depends_on_lengths_in_any_order_and_on_the_field_that_has_them() -> None:
    assert window(size=["1h", "1m"]).remembered(SCHEMA)["size"] == ["1m", "1h"]
    assert window(size="1d", step="1h").remembered(SCHEMA).items() >= {"size": "1d", "step": "1h"}.items()
    assert window(gap=LENGTH).remembered(SCHEMA)["gap"] == {"field": "port"}


def test_what_waits_for_an_interval_is_given_before_a_run_ends() -> None:
    assert window(size="1m", emit=["on_close", {"late": {"for": "1h", "every": "5m"}}]).max_delay() == timedelta(minutes=5)


def test_unknown_types_pass() -> None:
    unknown: Schema = pa.schema([(f.name, pa.null()) for f in SCHEMA])

    found = list(window(size="1m", aggregates=AGGREGATES, group_by=["source.ip"]).check(unknown))

    assert found == []
