"""Tests of pipelines, run: what comes in, what comes out, what is told."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from etl.config.cases.case_file import Suite, inspect_tests
from etl.plan.query_plan import Plan
from etl.testing.on_spark import run_on
from etl.testing.results import Result, result
from etl.testing.trial import Outcome, run_case, wants_spark

if TYPE_CHECKING:
    from etl.running.shared_session import SharedSession

PIPELINE = """\
sources:
  auth: {type: file, path: /nowhere/auth.log}
  web: {type: file, path: /nowhere/web.log}
streams:
  failed:
    from: [auth, web]
    steps:
      - {type: regex, patterns: ['(?P<user_name>\\w+) from (?P<port>\\d+)$']}
      - {type: convert, fields: {port: int}}
      - {type: filter, where: "user_name <> 'backup'"}
  counted:
    from: failed
    steps:
      - {type: window, size: 1m, aggregates: {n: count(*)}}
sinks:
  kept: {from: failed, type: file, path: /nowhere/kept.jsonl}
  counts: {from: counted, type: console}
"""


def suite(folder: Path, tests: str, pipeline: str = PIPELINE) -> Suite:
    path = folder / "p.yaml"
    path.write_text(f"{pipeline}tests:\n  one:\n{tests}")
    checked = inspect_tests(path)
    assert checked.suite is not None, checked.problems
    return checked.suite


def no_spark(plan: Plan, state: Path, drain: bool) -> None:
    raise AssertionError("Spark was asked for")


def outcome(folder: Path, tests: str, pipeline: str = PIPELINE) -> Outcome:
    made = suite(folder, tests, pipeline)
    return run_case(made, made.cases[0], no_spark)


def verdict(folder: Path, tests: str) -> Result:
    made = suite(folder, tests)
    return result(made, made.cases[0], no_spark)


LINES = "    input: {auth: [anna from 1, nonsense, backup from 2], web: [bob from 3]}\n"


def test_real_steps_run_and_only_those_that_lead_to_what_is_expected(tmp_path: Path) -> None:
    found = outcome(tmp_path, f"{LINES}    expect: {{failed: 1, kept: 1}}\n")

    expected = [{"user_name": "anna", "port": 1}, {"user_name": "bob", "port": 3}]
    assert found.events["failed"].rows == expected
    assert found.events["kept"].rows == expected
    assert [(row["code"], row["at"], row["offset"], row["event"]) for row in found.letters.rows] == [
        ("regex-failed", "failed[0] regex", 1, "nonsense")
    ]


def test_spark_starts_only_for_outputs_that_it_computes(tmp_path: Path) -> None:
    row_wise = suite(tmp_path, f"{LINES}    expect: {{kept: 1}}\n")
    assert not wants_spark(row_wise, row_wise.cases[0])

    windowed = suite(tmp_path, f"{LINES}    expect: {{counted: 1}}\n")
    assert wants_spark(windowed, windowed.cases[0])

    shown = suite(tmp_path, LINES)
    assert wants_spark(shown, shown.cases[0])


def lines_of(ran: Result) -> list[str]:
    return [line.rpartition("/")[2] for line in ran.lines()]


def test_a_difference_names_field_and_line(tmp_path: Path) -> None:
    ran = verdict(
        tmp_path,
        """\
    input: {auth: [anna from 1, bob from 2]}
    expect:
      failed:
        - {user_name: anna, port: 1}
        - user_name: rob
          port: 2
""",
    )

    assert lines_of(ran) == ["p.yaml:24: failed[1]", "  - user_name: rob", "  + user_name: bob"]


@pytest.mark.parametrize(
    ("expected", "lines"),
    [
        ("{failed: none}", ["p.yaml:21: failed: expected no events, found 1", "  + {user_name: anna, port: 1}"]),
        ("{failed: 2}", ["p.yaml:21: failed: expected 2 events, found 1", "  + {user_name: anna, port: 1}"]),
        ("{failed: []}", ["p.yaml:21: failed: an event that is not expected", "  + {user_name: anna, port: 1}"]),
        (
            "{failed: [{user_name: anna, port: 1}, {user_name: x}]}",
            ["p.yaml:21: failed[1] is missing", "  - {user_name: x}"],
        ),
        ("{failed: [{user_name: anna}]}", ["p.yaml:21: failed[0]", "  + port: 1"]),
        ("{failed: {fields: [user_name], events: [{user_name: anna}]}}", []),
        ("{failed: {contains: [{port: 1}], count: 1}}", []),
        (
            "{failed: {contains: [{user_name: x, port: 1}]}}",
            ["p.yaml:21: failed: there is no such event; the one most like it", "  - user_name: x", "  + user_name: anna"],
        ),
        ("{failed: [{port: 1, user_name: anna}]}", []),
    ],
)
def test_all_ways_to_expect(tmp_path: Path, expected: str, lines: list[str]) -> None:
    assert lines_of(verdict(tmp_path, f"    input: {{auth: [anna from 1]}}\n    expect: {expected}\n")) == lines


@pytest.mark.parametrize(
    ("letters", "lines"),
    [
        (
            "",
            [
                "p.yaml:19: dead_letters: expected no dead letters, found 1",
                "  + {at: failed[0] regex, code: regex-failed, reason: does not match, event: zzz}",
            ],
        ),
        ("    dead_letters: 1\n", []),
        ("    dead_letters: [{event: zzz}]\n", []),
        ("    dead_letters: [{code: regex-failed, source: auth, offset: 0}]\n", []),
        ("    dead_letters: [{event: yyy}]\n", ["p.yaml:22: dead_letters[0]", "  - event: yyy", "  + event: zzz"]),
    ],
)
def test_dead_letters_are_never_passed_over(tmp_path: Path, letters: str, lines: list[str]) -> None:
    found = lines_of(verdict(tmp_path, f"    input: {{auth: [zzz]}}\n    expect: {{failed: none}}\n{letters}"))

    assert [line.replace("'", "").replace('"', "") for line in found] == lines


def test_a_source_groups_lines_as_it_does_in_a_run(tmp_path: Path) -> None:
    pipeline = PIPELINE.replace("auth.log}", "auth.log, multiline: {continue: '^ '}}").replace("\\w+)", "[\\w\\s]+)")

    found = outcome(tmp_path, '    input: {auth: [a, " b from 1", c from 2]}\n    expect: {failed: 2}\n', pipeline)

    assert [row["user_name"] for row in found.events["failed"].rows] == ["a\n b", "c"]


def test_lines_come_from_a_file_beside_the_test(tmp_path: Path) -> None:
    (tmp_path / "a [1].log").write_text("anna from 1\nbob from 2\n")

    found = outcome(tmp_path, "    input: {auth: {file: 'a [1].log'}}\n    expect: {failed: 2}\n")

    assert [row["port"] for row in found.events["failed"].rows] == [1, 2]


def test_a_file_that_is_not_there_is_the_tests_result(tmp_path: Path) -> None:
    ran = verdict(tmp_path, "    input: {auth: {file: b.log}}\n    expect: {failed: 2}\n")

    assert not ran.passed
    assert "there is no file" in str(ran.error)


def test_events_of_a_source_with_fields(tmp_path: Path) -> None:
    pipeline = PIPELINE.replace("auth.log}", "auth.log, path_field: log.path}")
    lines = "    input: {auth: [{message: anna from 1, log: {path: /a}}, {message: bob from 2}, eve from 3]}\n"

    found = outcome(tmp_path, f"{lines}    expect: {{failed: 1}}\n", pipeline)

    assert [row.get("log.path") for row in found.events["failed"].rows] == ["/a", None, None]


def test_a_value_that_does_not_fit_its_field_is_an_error(tmp_path: Path) -> None:
    ran = verdict(tmp_path, "    input: {auth: [{message: [1]}]}\n    expect: {failed: 2}\n")

    assert "gives field 'message' a value that is not of type string" in str(ran.error)


@pytest.mark.parametrize(
    ("now", "year"), [("2026-11-20", 2025), ("2026-12-31T23:00Z", 2026), ("2020-01-01T00:00:00+01:00", 2019)]
)
def test_dates_without_a_year_use_the_tests_clock(tmp_path: Path, now: str, year: int) -> None:
    pipeline = """\
source: {type: file, path: /nowhere/x.log}
steps:
  - {type: timestamp, field: message, formats: [syslog]}
sink: {type: discard}
"""
    found = outcome(tmp_path, f"    input: [Dec 31 22:59:59]\n    now: {now}\n    expect: 1\n", pipeline)

    times = [value for row in found.events["main"].rows for value in row.values()]
    assert times == [f"{year}-12-31T22:59:59Z"]


WINDOWED = """\
source: {type: file, path: /nowhere/x.log}
steps:
  - {type: regex, patterns: ['(?P<t>\\S+) (?P<k>\\w+)']}
  - {type: convert, fields: {t: timestamp}}
  - {type: window, time: t, size: 10m, late: 1m, group_by: [k], aggregates: {n: count(*)}}
sink: {type: console}
"""


@pytest.mark.spark
def test_event_times_advance_the_watermark_between_micro_batches(tmp_path: Path, shared_session: SharedSession) -> None:
    tests = """\
    input:
      - [2026-01-01T00:01:00Z a, 2026-01-01T00:02:00Z b, nonsense]
      - [2026-01-01T00:03:00Z a, 2026-01-01T00:12:00Z a]
      - [2026-01-01T00:04:00Z b, 2026-01-01T00:13:00Z a]
    expect:
      - {window_start: 2026-01-01T00:10:00Z, window_end: 2026-01-01T00:20:00Z, k: a, n: 2}
      - {window_start: 2026-01-01T00:00:00Z, window_end: 2026-01-01T00:10:00Z, k: a, n: 2}
      - {window_start: 2026-01-01T00:00:00Z, window_end: 2026-01-01T00:10:00Z, k: b, n: 1}
    dead_letters: [{event: nonsense}]
"""
    made = suite(tmp_path, tests, WINDOWED)

    ran = result(made, made.cases[0], partial(run_on, shared_session))

    assert list(ran.lines()) == []


@pytest.mark.spark
def test_without_drain_open_windows_stay_open(tmp_path: Path, shared_session: SharedSession) -> None:
    tests = "    input: [2026-01-01T00:01:00Z a, 2026-01-01T00:12:00Z b]\n    drain: false\n    expect: [{k: a}]\n"
    made = suite(tmp_path, tests, WINDOWED)

    found = run_case(made, made.cases[0], partial(run_on, shared_session))

    assert [(row["k"], row["n"]) for row in found.events["main"].rows] == [("a", 1)]
