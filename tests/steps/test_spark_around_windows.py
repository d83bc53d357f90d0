"""Windows with expressions that only Spark computes: it does so before the window, which stays on the state lane."""

from __future__ import annotations

import json
from typing import Any

import pytest
from running import Engine, Etl

from connectors.discard import DiscardSink
from etl.config.loader import load
from etl.delivery.dead_letters import SCHEMA
from etl.plan.planner import plan as planned
from etl.plan.render import render_plan

PIPELINE = """
    source: {type: file, path: "{here}/in/*.jsonl"}
    steps:
      - {type: json, fields: {at: timestamp, user: string, n: int, text: string}}
      - type: window
        time: at
        size: 1m
        late: 0s
        group_by: [user]
        aggregates:
          n: count(*)
          sounds: count(distinct soundex(text))
          large: sum(cast(soundex(text) as int)) filter (where text rlike '^[0-9]+$')
          alike: count(*) filter (where soundex(text) = 'A500')
    sink: {type: file, path: "{here}/out.jsonl"}
"""


def write(etl: Etl, name: str, *events: tuple[str, str, str]) -> None:
    (etl.folder / "in").mkdir(exist_ok=True)
    lines = [json.dumps({"at": f"2026-11-20T{time}Z", "user": user, "text": text}) for time, user, text in events]
    (etl.folder / "in" / f"{name}.jsonl").write_text("\n".join(lines) + "\n")


def delivered(etl: Etl) -> list[dict[str, Any]]:
    path = etl.folder / "out.jsonl"
    found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [{name: value for name, value in row.items() if not name.startswith("window_")} for row in found]


@pytest.mark.spark
def test_spark_computes_arguments_and_filters_for_events_that_meet_them(engine: Engine, etl: Etl) -> None:
    write(etl, "1", ("06:00:01", "anna", "anna"), ("06:00:02", "anna", "Anne"), ("06:00:03", "anna", "12"))
    engine(PIPELINE)
    write(etl, "2", ("06:00:04", "anna", "34"), ("06:00:05", "bertil", "x"))
    engine(PIPELINE, drain=True)

    assert sorted(delivered(etl), key=str) == [
        {"user": "anna", "n": 4, "sounds": 3, "large": 46, "alike": 2},
        {"user": "bertil", "n": 1, "sounds": 1, "large": None, "alike": 0},
    ]


def test_explain_shows_the_set_in_front(etl: Etl) -> None:
    lines = [line.strip() for line in render_plan(planned(load(etl.pipeline(PIPELINE)), DiscardSink(), SCHEMA))]

    found = [line for line in lines if line.startswith("steps[1]")]
    assert found[0] == "steps[1] keep: Arrow"
    assert found[1].startswith("steps[1] set: Spark, because soundex")
    assert found[2:] == ["steps[1] set: Arrow", "steps[1] window: Arrow, keeps state in 16 parts"]


BETWEEN = """
    sources: {lines: {type: file, path: "{here}/in/*.jsonl"}}
    streams:
      events: {from: lines, steps: [{type: json, fields: {at: timestamp, user: string, text: string}}]}
      short: {from: events, steps: [{type: window, time: at, size: 1m, late: 0s, group_by: [user], aggregates: {n: count(*)}}]}
      long: {from: events, steps: [{type: window, time: at, size: 2m, late: 0s, group_by: [user], aggregates: {n: count(*)}}]}
      sounds:
        from: [short, long]
        steps:
          - {type: set, fields: {sound: soundex(user)}}
          - {type: regex, field: sound, patterns: ["^(?<letter>.)"], keep_field: true}
          - {type: window, time: window_start, size: 1h, group_by: [sound, letter], aggregates: {n: sum(n), users: count(*)}}
    sinks:
      out: {from: sounds, type: file, path: "{here}/out.jsonl"}
"""


@pytest.mark.spark
def test_spark_computes_between_two_stateful_steps_and_another(engine: Engine, etl: Etl) -> None:
    write(etl, "1", ("06:00:01", "anna", ""), ("06:00:02", "Anne", ""), ("06:01:30", "bertil", ""))
    engine(BETWEEN)
    write(etl, "2", ("06:02:30", "anna", ""), ("06:02:31", "anna", ""))
    ran = engine(BETWEEN, drain=True)

    assert sorted(delivered(etl), key=str) == [
        {"sound": "A500", "letter": "A", "n": 8, "users": 6},
        {"sound": "B634", "letter": "B", "n": 2, "users": 2},
    ]
    assert ran.dead == 0


TIME_FROM_SPARK = """
    sources: {lines: {type: file, path: "{here}/in/*.jsonl"}}
    streams:
      sounds:
        from: lines
        steps:
          - {type: json, fields: {at: string, user: string}}
          - {type: sql, query: "SELECT try_cast(at AS timestamp) AS at, soundex(user) AS sound, length(user) AS l FROM events"}
      minutes:
        from: sounds
        steps:
          - {type: window, time: at, size: 1m, late: 0s, group_by: [sound], aggregates: {n: count(1 / (l - 3))}}
      ever:
        from: sounds
        steps: [{type: window, emit: on_change, ttl: 1h, group_by: [sound], aggregates: {n: count(*)}}]
    sinks:
      out: {from: minutes, type: file, path: "{here}/out.jsonl"}
      totals: {from: ever, type: file, path: "{here}/totals.jsonl", changes: kind}
"""


@pytest.mark.spark
def test_windows_over_a_time_that_spark_computes_close_and_events_without_a_usable_one_are_dead_letters(
    engine: Engine, etl: Etl
) -> None:
    write(etl, "1", ("06:00:01", "anna", ""), ("06:00:02", "anne", ""))
    engine(TIME_FROM_SPARK)
    before = delivered(etl)
    write(etl, "2", ("06:00:03", "anna", ""), ("no time", "anna", ""), ("06:00:03", "bob", ""))
    with (etl.folder / "in" / "2.jsonl").open("a") as lines:
        lines.write('{"at": "2099-01-01T00:00:00Z", "user": "anna"}\n')
    ran = engine(TIME_FROM_SPARK, drain=True)

    assert before == []
    assert delivered(etl) == [{"sound": "A500", "n": 3}]
    assert ran.dead == 3
    letters = [json.loads(line) for line in (etl.folder / "state" / "dead_letters.jsonl").read_text().splitlines()]
    assert sorted((one["at"], one["code"]) for one in letters) == [
        ("event time", "event-time-out-of-range"),
        ("event time", "no-event-time"),
        ("minutes[0] window", "aggregate-failed"),
    ]
    totals = [json.loads(line) for line in (etl.folder / "totals.jsonl").read_text().splitlines()]
    assert [row["n"] for row in totals if row["sound"] == "A500"] == [2, 2, 5]  # the first one is replaced by the next run's
