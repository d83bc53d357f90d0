"""The step `correlate`: whole pipelines on Spark."""

from __future__ import annotations

import json
import pickle
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from running import Engine, Etl

from connectors.discard import DiscardSink
from etl.api import OFFSET, TIMESTAMP
from etl.config.loader import load
from etl.plan.planner import plan as planned
from etl.plan.render import render_plan
from etl.plan.segments import Branch, Segment, StepNode
from etl.segment import preopened_steps
from etl.steps.detection.correlate import Correlate
from etl.steps.detection.correlate_events import CorrelateEvents, _compile

RULES = """
title: Failed login
name: failed
logsource: {product: linux}
detection: {selection: {action: failed}, condition: selection}
---
title: Login
name: success
logsource: {product: linux}
detection: {selection: {action: success}, condition: selection}
---
title: Command as root
name: sudo
logsource: {product: linux}
detection: {selection: {action: sudo}, condition: selection}
---
title: Many failures
name: many
level: high
tags: [attack.t1110]
correlation: {type: event_count, generate: true, rules: [failed], group-by: [ip], timespan: 5m, condition: {gte: 3}}
---
title: Many users
correlation:
  {type: value_count, generate: true, rules: [failed], group-by: [ip], timespan: 5m, condition: {field: user, gte: 3}}
---
title: Login and command
correlation:
  type: temporal
  rules: [success, sudo]
  group-by: [who]
  timespan: 5m
  aliases: {who: {success: user, sudo: by}}
---
title: Guessed
correlation: {type: temporal_ordered, generate: true, rules: [many, success], group-by: [ip], timespan: 10m}
"""
PIPELINE = """
    source: {type: file, path: "{here}/in/*.jsonl"}
    steps:
      - type: json
        fields: {time: string, action: string, user: string, by: string, ip: string, port: int}
      - {type: timestamp, field: time, formats: [iso8601]}
      - {type: correlate, files: ["{here}/rules.yml"], time: time, late: 10s, sample: user}
    sink: {type: file, path: "{here}/out.jsonl"}
"""


def event(minutes: float, action: str, **fields: Any) -> dict[str, Any]:
    seconds = round(minutes * 60)
    return {"time": f"2026-11-20T{6 + seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}Z", "action": action, **fields}


@pytest.fixture
def rules(etl: Etl) -> Path:
    """The file of rules, beside an empty folder for events."""
    (etl.folder / "in").mkdir()
    path = etl.folder / "rules.yml"
    path.write_text(textwrap.dedent(RULES))
    return path


def write(etl: Etl, name: str, *events: dict[str, Any]) -> None:
    (etl.folder / "in" / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in events))


def alerts(etl: Etl) -> list[tuple[Any, ...]]:
    """Of each alert: title, whose, first and last time, count."""
    path = etl.folder / "out.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return sorted(_alert(json.loads(line)) for line in lines)


def _alert(one: dict[str, Any]) -> tuple[Any, ...]:
    times = (one[name][11:16] for name in ("window_start", "last_seen"))
    return one["rule"]["title"], one["ip"] or one["who"], *times, one["correlation"]["count"]


GUESSING = (
    event(0, "failed", ip="192.0.2.1", user="anna"),
    event(1, "failed", ip="192.0.2.1", user="root"),
    event(1, "failed", ip="192.0.2.2", user="root"),
    event(1, "failed", user="root"),
    event(2, "failed", ip="192.0.2.1", user="anna"),
    event(3, "failed", ip="192.0.2.1", user="bertil"),
    event(4, "success", ip="192.0.2.1", user="bertil"),
    event(4, "success", ip="192.0.2.2", user="clara"),
    event(6, "sudo", by="bertil"),
    event(9, "sudo", by="clara"),
)
FOUND = [
    ("Guessed", "192.0.2.1", "06:02", "06:04", 2),
    ("Login and command", "bertil", "06:04", "06:06", 2),
    ("Many failures", "192.0.2.1", "06:00", "06:02", 3),
    ("Many users", "192.0.2.1", "06:00", "06:03", 4),
]


@pytest.mark.spark
def test_each_type_gives_an_alert_a_burst(engine: Engine, etl: Etl, rules: Path) -> None:
    write(etl, "a", *GUESSING)

    totals = engine(PIPELINE)

    assert alerts(etl) == FOUND
    assert totals.to_spark["steps-correlate"].left == 9  # the event without an address counts for nothing
    shown_text = json.loads(next(line for line in (etl.folder / "out.jsonl").read_text().splitlines() if "Many users" in line))
    assert shown_text["correlation"] == {
        "type": "value_count",
        "count": 4,
        "measure": 3.0,
        "rules": ["Failed login"],
        "values": ["anna", "root", "bertil"],
        "samples": ["anna", "root", "bertil"],
    }
    assert shown_text["window_end"] == "2026-11-20T06:05:00.000000Z"


@pytest.mark.spark
def test_a_restart_between_any_two_events_changes_nothing(engine: Engine, etl: Etl, rules: Path) -> None:
    for number, one in enumerate((GUESSING[:2], GUESSING[2:6], GUESSING[6:])):
        write(etl, f"{number}", *one)
        engine(PIPELINE)

    assert alerts(etl) == FOUND


@pytest.mark.spark
def test_events_too_late_are_dropped_and_others_count_where_their_time_says(engine: Engine, etl: Etl, rules: Path) -> None:
    def failed(minutes: float) -> dict[str, Any]:
        return event(minutes, "failed", ip="192.0.2.1", user="anna")

    write(etl, "1", failed(0), failed(4.9))
    engine(PIPELINE)
    write(etl, "2", event(5, "other"))  # the watermark follows it from the next micro-batch on
    engine(PIPELINE)
    write(etl, "3", failed(3))  # more than ten seconds before the latest, 5:00
    totals = engine(PIPELINE)
    before = alerts(etl)
    write(etl, "4", failed(4.95))
    engine(PIPELINE)

    assert before == []
    assert totals.late == {"steps-correlate": 1}
    assert alerts(etl) == [("Many failures", "192.0.2.1", "06:00", "06:04", 3)]


@pytest.mark.spark
def test_drained_windows_without_a_rule_and_of_few_events(engine: Engine, etl: Etl, rules: Path) -> None:
    rules.write_text(
        rules.read_text()
        + textwrap.dedent("""
        ---
        title: Few failures
        correlation: {type: event_count, rules: [failed], group-by: [ip], timespan: 5m, condition: {lt: 3}}
        ---
        title: Command without login
        correlation:
          type: temporal
          rules: [success, sudo]
          group-by: [who]
          timespan: 5m
          aliases: {who: {success: user, sudo: by}}
          condition: sudo and not success
        """)
    )
    write(etl, "a", *GUESSING)

    engine(PIPELINE, drain=True)

    more = [("Few failures", "192.0.2.2", "06:01", "06:01", 1), ("Command without login", "clara", "06:09", "06:09", 1)]
    assert alerts(etl) == sorted([*FOUND, *more])


@pytest.mark.spark
def test_rules_that_change_count_without_a_new_state(engine: Engine, etl: Etl, rules: Path) -> None:
    write(etl, "1", *GUESSING[:2])
    engine(PIPELINE)
    rules.write_text(rules.read_text().replace("{gte: 3}", "{gte: 2}"))
    write(etl, "2", GUESSING[4])
    engine(PIPELINE)

    assert alerts(etl) == [("Many failures", "192.0.2.1", "06:00", "06:01", 2)]


@pytest.mark.spark
def test_a_window_after_it_counts_alerts(engine: Engine, etl: Etl, rules: Path) -> None:
    write(etl, "a", *GUESSING)
    window = "{type: window, time: last_seen, size: 1h, group_by: [ip], aggregates: {n: count(*), title: max(rule.title)}}"

    engine(PIPELINE.replace("    sink:", f"      - {window}\n    sink:"), drain=True)

    found = [json.loads(line) for line in (etl.folder / "out.jsonl").read_text().splitlines()]
    assert sorted((one["ip"] or "", one["n"], one["title"]) for one in found) == [
        ("", 1, "Login and command"),
        ("192.0.2.1", 3, "Many users"),
    ]


# ── Without Spark ─────────────────────────────────────────────────────────────────────────────────

SCHEMA = pa.schema([("time", TIMESTAMP), *((name, pa.string()) for name in ("action", "user", "by", "ip"))])


def step(rules: Path, **options: Any) -> Correlate:
    return Correlate.model_validate({"files": [str(rules)], "time": "time", **options})


def codes(found: Iterator[Any]) -> list[str]:
    return [finding.code for finding in found]


def test_alerts_have_the_groups_under_the_streams_names(rules: Path) -> None:
    assert list(step(rules).fields(SCHEMA).names)[-2:] == ["ip", "who"]


def test_findings_of_the_step(rules: Path, tmp_path: Path) -> None:
    empty = tmp_path / "none.yml"
    empty.write_text("title: x\ndetection: {s: {a: b}, condition: s}\nlogsource: {product: linux}\n")

    assert codes(step(rules).check(SCHEMA)) == []
    assert codes(step(rules, time="tme", sample="usr").check(SCHEMA)) == ["unknown-field", "unknown-field"]
    assert codes(step(rules, time="user").check(SCHEMA)) == ["wrong-type"]
    assert codes(step(empty).check(SCHEMA)) == ["no-correlations"]
    assert codes(step(rules, fields="nowhere.yml").check(SCHEMA)) == ["bad-taxonomy"]
    without = pa.schema([field for field in SCHEMA if field.name != "by"])
    assert codes(step(rules).check(without)) == ["bad-rule"]


def test_explain_shows_both_parts(etl: Etl, rules: Path) -> None:
    lines = "\n".join(render_plan(planned(load(etl.pipeline(PIPELINE)), DiscardSink(), SCHEMA)))

    assert "steps[2] correlate (matching): Arrow" in lines
    assert "emitted: time timestamp, counts array<struct<head:string," in lines
    assert "watermark: time, 10 s late at most" in lines
    assert "steps[2] correlate: Arrow, keeps state in 16 parts" in lines


def test_correlations_written_in_the_pipeline() -> None:
    one = Correlate.model_validate(
        {
            "rules": [{"name": "failed", "where": "action = 'failed'"}],
            "correlations": [
                {"title": "A", "correlation": {"type": "temporal", "rules": ["failed"], "group-by": ["ip"], "timespan": "5m"}},
                {"title": "B", "correlation": {"type": "temporal", "rules": ["other"], "group-by": ["ip"], "timespan": "5m"}},
            ],
            "time": "time",
        }
    )

    (finding,) = one.check(SCHEMA)

    assert (finding.code, finding.severity, finding.path) == ("bad-rule", "error", ("correlations", 1, "correlation", "rules", 0))
    assert "'B': there is no rule 'other'" in finding.message
    assert one.fields(SCHEMA).names[-1] == "ip"


def test_events_that_count_for_nothing_go_no_further(rules: Path) -> None:
    batch = pa.RecordBatch.from_pylist(
        [
            {OFFSET: 1, "action": "failed", "ip": "192.0.2.1", "user": "anna"},
            {OFFSET: 2, "action": "other", "ip": "192.0.2.1"},
            {OFFSET: 3, "action": "failed", "user": "anna"},
            {OFFSET: 4, "action": "success", "ip": "192.0.2.1", "user": "anna"},
        ],
        SCHEMA.append(pa.field(OFFSET, pa.int64())),
    )

    kept = CorrelateEvents(of=step(rules)).open(SCHEMA)(batch).events.to_pylist()

    assert [(row[OFFSET], [one["member"] for one in row["counts"]]) for row in kept] == [
        (1, ["many", "Many users", "many"]),
        (4, ["Login and command", "Guessed"]),
    ]


def test_rules_are_compiled_before_workers_are_forked(rules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # given
    monkeypatch.setenv("SLUICE_OPEN_FIRST", "")  # what is left here is forgotten afterwards
    matching = step(rules).parts(SCHEMA)[0]
    assert isinstance(matching, CorrelateEvents)
    node = StepNode("main[0]", matching, SCHEMA, matching.fields(SCHEMA))
    preopened_steps.save_steps_to_open(
        [("main", Segment({"main": Branch((node,), node.outgoing)}, {}))], tmp_path / "open-first.pickle"
    )

    # when
    assert preopened_steps.open_steps() == 1
    before = _compile.cache_info()
    pickle.loads(pickle.dumps(matching)).open(SCHEMA)

    # then
    after = _compile.cache_info()
    assert (after.hits - before.hits, after.misses - before.misses) == (1, 0)
