"""Steps that Spark computes after stateful ones: in each micro-batch, on the results of the state lane."""

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
      - {type: json, fields: {at: timestamp, user: string}}
      - {type: window, time: at, size: 1m, late: 0s, group_by: [user], aggregates: {n: count(*)}}
AFTER
      - {type: set, fields: {verdict: "case when n > 2 then 'many' else 'few' end"}}
      - {type: sql, query: "SELECT *, upper(user) AS loud, soundex(user) AS sound FROM events WHERE n > 1"}
      - {type: set, fields: {line: "concat(loud, ' ', verdict)"}}
    sink: {type: file, path: "{here}/out.jsonl"}
"""
PER_HOUR = "      - {type: window, time: window_start, size: 1h, group_by: [user], aggregates: {n: sum(n)}}"


def write(etl: Etl, name: str, *events: tuple[str, str]) -> None:
    (etl.folder / "in").mkdir(exist_ok=True)
    lines = [json.dumps({"at": f"2026-11-20T{time}Z", "user": user}) for time, user in events]
    (etl.folder / "in" / f"{name}.jsonl").write_text("\n".join(lines) + "\n")


def delivered(etl: Etl) -> list[dict[str, Any]]:
    path = etl.folder / "out.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


FIRST = [("06:00:01", "anna"), ("06:00:02", "anna"), ("06:00:03", "bertil"), ("06:00:04", "anna"), ("06:01:00", "anna")]
SECOND = [("06:01:30", "anna"), ("06:01:31", "bertil"), ("06:01:32", "bertil"), ("07:30:00", "clara")]


@pytest.mark.spark
def test_spark_computes_on_the_results_of_each_micro_batch(engine: Engine, etl: Etl) -> None:
    write(etl, "1", *FIRST)
    engine(PIPELINE.replace("AFTER\n", ""))
    before = [(row["line"], row["sound"]) for row in delivered(etl)]
    write(etl, "2", *SECOND)
    engine(PIPELINE.replace("AFTER\n", ""))

    assert before == [("ANNA many", "A500")]
    assert sorted(row["line"] for row in delivered(etl)) == ["ANNA few", "ANNA many", "BERTIL few"]


@pytest.mark.spark
def test_spark_computes_after_several_stateful_steps(engine: Engine, etl: Etl) -> None:
    text = PIPELINE.replace("AFTER", PER_HOUR)
    write(etl, "1", *FIRST)
    engine(text)
    write(etl, "2", *SECOND)
    engine(text, drain=True)

    assert sorted((row["line"], row["n"]) for row in delivered(etl)) == [("ANNA many", 5), ("BERTIL many", 3)]


@pytest.mark.spark
def test_a_condition_on_results_that_needs_spark_is_a_filter_after_the_window(engine: Engine, etl: Etl) -> None:
    having = "{type: window, time: at, size: 1m, late: 0s, group_by: [user], having: soundex(user) = 'A500',"
    text = PIPELINE.replace("AFTER\n", "").replace("{type: window, time: at, size: 1m, late: 0s, group_by: [user],", having)
    write(etl, "1", *FIRST, *SECOND)

    engine(text, drain=True)

    assert sorted(row["line"] for row in delivered(etl)) == ["ANNA few", "ANNA many"]


def test_explain_shows_the_order(etl: Etl) -> None:
    text = PIPELINE.replace("AFTER", PER_HOUR)
    lines = [line.strip() for line in render_plan(planned(load(etl.pipeline(text)), DiscardSink(), SCHEMA))]

    found = [line.removeprefix("steps").split(": ") for line in lines if line.startswith("steps[")]
    names = ["[0] json", "[1] window", "[2] window", "[3] set", "[4] sql", "[4] sql", "[4] sql", "[5] set"]
    assert [name for name, *_ in found] == names
    state = "Arrow, keeps state in 16 parts"
    spark = "Spark, because soundex() has no Arrow form"
    assert [where for _, where, *_ in found][1:] == [state, state, "Arrow", "Arrow", spark, "Arrow", "Arrow"]
    assert "results, in tasks of Spark's partitions:" in lines
