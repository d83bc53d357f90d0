"""A pipeline tried on pasted lines: what each step does to the events, and where lines stop matching."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from etl.config.cases.case_file import inspect_tests
from etl.server.studio.drafted_test import draft_test
from etl.server.studio.format_search import find_format
from etl.server.studio.step_trial import TrialRequest, try_pipeline
from etl.testing.case_comparison import differences
from etl.testing.trial import run_case

LINES = """\
2026-11-20 06:25:03 INFO alice logged in
2026-11-20 06:25:04 WARN <script>alert(1)</script> 🦀 logged in
a line without a time
2026-11-20 06:25:05 INFO bob logged in
"""

PIPELINE = """\
source: {type: file, path: app.log}
steps:
  - type: grok
    patterns: ['^%{TIMESTAMP_ISO8601:timestamp} %{LOGLEVEL:level} (?<user_name>.+) logged in$']
  - {type: filter, where: level = 'INFO'}
  - {type: set, fields: {shout: upper(user_name)}}
"""


def tried(text: str = PIPELINE, lines: str = LINES, **more: Any) -> dict[str, Any]:
    return try_pipeline(TrialRequest(text, lines, **more))


def test_each_step_has_its_counts_and_the_chosen_one_its_events() -> None:
    found = tried(step="steps[2]")

    counts = [(step["type"], step["incoming"], step["left"], step["dead"]) for step in found["steps"]]
    assert counts == [("grok", 4, 3, 1), ("filter", 3, 2, 0), ("set", 2, 2, 0)]
    assert found["steps"][2]["added"] == ["shout"]
    after = found["shown"]["after"]["rows"]
    assert [(row["line"], row["values"]["shout"]) for row in after] == [(1, "ALICE"), (4, "BOB")]


def test_captures_are_located_by_characters_and_failed_lines_say_where_they_stop() -> None:
    lines = {row["line"]: row for row in tried()["lines"]}

    text = lines[2]["text"]
    shown = {field: text[start:end] for field, start, end in lines[2]["spans"]}
    assert shown == {"timestamp": "2026-11-20 06:25:04", "level": "WARN", "user_name": "<script>alert(1)</script> 🦀"}
    assert lines[3]["fate"] == "dead"
    assert lines[3]["stop"] == {"at": 0, "prefix": "^", "expected": "%{TIMESTAMP_ISO8601:timestamp}", "within": ()}


def test_filtered_events_are_told_from_dead_ones() -> None:
    fates = {row["line"]: row["fate"] for row in tried(step="steps[1]")["shown"]["before"]["rows"]}

    assert fates == {1: "passed", 2: "filtered", 4: "passed"}


def test_values_are_located_where_the_parser_does_not_say_it() -> None:
    text = "source: {type: file, path: x}\nsteps: [{type: json, fields: {user: string, n: int}}]\n"

    (row,) = tried(text, '{"user": "eve", "n": 17}\n')["lines"]

    assert {row["text"][start:end] for _, start, end in row["spans"]} == {"eve", "17"}


def test_streams_and_their_unions_are_shown_step_by_step() -> None:
    text = """\
sources: {app: {type: file, path: app.log}}
streams:
  short: {from: app, steps: [{type: filter, where: length(message) < 30}]}
  long: {from: app, steps: [{type: filter, where: length(message) >= 30}, {type: set, fields: {n: length(message)}}]}
  all: {from: [short, long], steps: [{type: drop, fields: [n]}]}
"""

    steps = {step["id"]: (step["incoming"], step["left"]) for step in tried(text)["steps"]}

    assert steps == {"short[0]": (4, 1), "long[0]": (4, 3), "long[1]": (3, 3), "all[0]": (4, 4)}


def test_problems_of_the_text_are_those_of_lint_and_nothing_runs() -> None:
    found = tried(PIPELINE.replace("level = 'INFO'", "levle = 'INFO'"))

    assert [(one["line"], one["code"]) for one in found["problems"]] == [(5, "unknown-field")]
    assert "steps" not in found


def test_values_that_javascript_would_misread_are_texts() -> None:
    text = PIPELINE + '  - {type: set, fields: {big: "9007199254740993", odd: "double(\'NaN\')"}}\n'

    values = tried(text)["shown"]["after"]["rows"][0]["values"]

    assert (values["big"], values["odd"]) == ("9007199254740993", "nan")


@pytest.mark.slow
def test_a_draft_of_the_lines_is_a_pipeline_that_reads_them() -> None:
    found = find_format(LINES.replace("a line without a time\n", ""), origin="/var/log/app.log")

    tried_again = tried(found["yaml"], LINES)
    assert found["candidates"][0]["read"] == 3
    assert tried_again["problems"] == []
    assert tried_again["steps"][0]["left"] == 3


WINDOW = """\
  - {type: timestamp, formats: [iso8601]}
  - {type: window, time: timestamp, size: 1s, group_by: [level], aggregates: {n: count(*)}}
  - {type: window, time: window_end, size: 1m, aggregates: {total: sum(n)}}
"""


def test_steps_with_state_run_in_this_process_and_their_results_are_of_no_line() -> None:
    found = tried(PIPELINE.partition("  - {type: filter")[0] + WINDOW)

    counts = [(step["type"], step["runs_on"], step["incoming"], step["left"]) for step in found["steps"]]
    assert counts == [("grok", "arrow", 4, 3), ("timestamp", "arrow", 3, 3), ("window", "state", 3, 3), ("window", "state", 3, 1)]
    (row,) = found["shown"]["after"]["rows"]
    assert (row["line"], row["values"]["total"]) == (None, 3)


def test_a_step_that_spark_runs_says_so_and_those_before_it_are_shown() -> None:
    found = tried(PIPELINE + "  - {type: set, fields: {sound: soundex(user_name)}}\n  - {type: drop, fields: [sound]}\n")

    assert [(step["ran"], step["left"]) for step in found["steps"]] == [(True, 3), (True, 2), (True, 2), (False, 0), (False, 0)]
    assert "soundex" in found["steps"][3]["spark_reason"]


def test_a_test_of_the_lines_passes(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(PIPELINE)
    (tmp_path / "shop_test.yaml").write_text(draft_test(PIPELINE, LINES, "shop"))

    suite = inspect_tests(tmp_path / "shop_test.yaml").suite
    assert suite is not None
    (case,) = suite.cases
    assert differences(suite, case, run_case(suite, case, lambda *_: None)) == []
    assert case.dead_letters is not None
