"""Tests of pipelines as lint sees them: their shape, the names in them, where they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from etl.config import check, inspect
from etl.config.cases.case import Case, flat_event
from etl.config.cases.case_check import LETTER
from etl.config.cases.case_file import inspect_tests
from etl.delivery.dead_letters import SCHEMA

PIPELINE = """\
sources:
  auth: {type: file, path: /nowhere/auth.log}
streams:
  failed:
    from: auth
    steps:
      - {type: regex, patterns: ['(?P<user_name>\\w+) from (?P<source.ip>\\S+)']}
sinks:
  kept: {from: failed, type: console}
"""


def problems(folder: Path, tests: str, pipeline: str = PIPELINE) -> list[str]:
    path = folder / "p.yaml"
    path.write_text(f"{pipeline}tests:\n  one:\n{tests}")
    return [f"{p.line}:{p.column} {p.code}: {p.message} ({p.hint})" for p in check([path])]


def case(folder: Path, tests: str) -> Case:
    path = folder / "p.yaml"
    path.write_text(f"{PIPELINE}tests:\n  one:\n{tests}")
    checked = inspect(path)
    assert checked.pipeline is not None, checked.problems
    return checked.pipeline.tests[0]


def test_all_forms_are_read(tmp_path: Path) -> None:
    found = case(
        tmp_path,
        """\
    input: {auth: [a, [b, {message: c}], d, e]}
    expect:
      failed: none
      kept: {count: 2, fields: [source.ip], events: [{source.ip: x}], contains: [{source: {ip: y}}]}
    dead_letters: 3
    now: 2026-11-20
    drain: false
""",
    )

    assert found.given["auth"].batches == (("a",), ("b", {"message": "c"}), ("d", "e"))
    assert found.expected["failed"].count == 0
    kept = found.expected["kept"]
    assert (kept.count, kept.fields, kept.events, kept.contains) == (
        2,
        ("source.ip",),
        ({"source.ip": "x"},),
        ({"source": {"ip": "y"}},),
    )
    assert found.dead_letters is not None
    assert (found.dead_letters.count, found.now, found.drain, found.shows) == (3, "2026-11-20", False, False)


def test_short_forms_mean_the_only_source_and_sink(tmp_path: Path) -> None:
    found = case(tmp_path, "    input: |\n      a\n      b\n    expect: [{user_name: x}]\n")

    assert found.given["auth"].batches == (("a", "b"),)
    assert found.expected["kept"].events == ({"user_name": "x"},)


def test_lines_keep_what_looks_like_variables(tmp_path: Path) -> None:
    found = case(tmp_path, '    input: ["${HOME} ${", "$${x}"]\n')

    assert found.given["auth"].batches == (("${HOME} ${", "$${x}"),)
    assert found.shows


@pytest.mark.parametrize(
    ("tests", "found"),
    [
        ("    input: {auht: [x]}\n", "12:13 unknown-place: there is no source 'auht' (did you mean 'auth'?)"),
        ("    input: [x]\n    tables: {intel: []}\n", "13:14 unknown-table: there is no table 'intel' (tables are: none)"),
        (
            "    input: [x]\n    expect: {faild: 1}\n",
            "13:14 unknown-place: there is no stream or sink 'faild' (did you mean 'failed'?)",
        ),
        (
            "    input: [x]\n    expect:\n      failed:\n        - {source: {ip: y}, usr_name: z}\n",
            "15:29 unknown-field: there is no field 'usr_name' here (did you mean 'user_name'?)",
        ),
        (
            "    input: [x]\n    expect: {failed: {fields: [source.pi]}}\n",
            "13:32 unknown-field: there is no field 'source.pi' here (did you mean 'source.ip'?)",
        ),
        (
            "    input: [x]\n    dead_letters: [{cod: y}]\n",
            "13:21 unknown-field: there is no field 'cod' here (did you mean 'code'?)",
        ),
        ("    input: [x]\n    expect: {failed: nobody}\n", "13:22 enum: 'nobody' is not one of: none (None)"),
        ("    input: [x]\n    expct: 1\n", "13:5 unknown-option: has no option 'expct' (did you mean 'expect'?)"),
        ("    expect: 1\n", "12:5 missing-option: needs 'input' (What the source reads: lines, or by the names of sources.)"),
        ("    input: [x]\n    now: yesterday\n", "13:10 invalid-value: 'yesterday' is not a time (such as 2026-11-20T12:00:00Z)"),
        ("    input: [{massage: x}]\n", "12:5 unknown-field: there is no field 'massage' here (did you mean 'message'?)"),
    ],
)
def test_problems_have_a_location_and_a_hint(tmp_path: Path, tests: str, found: str) -> None:
    assert problems(tmp_path, tests) == [found]


def test_several_sources_and_sinks_need_names(tmp_path: Path) -> None:
    pipeline = PIPELINE.replace("streams:", "  web: {type: file, path: /nowhere/web.log}\nstreams:")
    pipeline = pipeline.replace("    from: auth", "    from: [auth, web]") + "  more: {from: failed, type: discard}\n"

    found = problems(tmp_path, "    input: [x]\n    expect: 1\n", pipeline)

    assert [line.split(":")[1].split()[-1] for line in found] == ["ambiguous-test", "ambiguous-test"]


def test_a_missing_file_of_lines_is_a_warning_for_the_pipeline_runs_without(tmp_path: Path) -> None:
    assert "missing-file" in problems(tmp_path, "    input: {auth: {file: x.log}}\n")[0]

    assert inspect(tmp_path / "p.yaml").pipeline is not None


def test_a_test_file_finds_its_pipeline(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    own, other = tmp_path / "p_test.yaml", tmp_path / "other_test.yaml"
    own.write_text("tests: {one: {input: [x]}}\n")
    other.write_text("pipeline: p.yaml\ntests:\n  two: {input: [x], expect: {failed: none}}\n")

    suites = [inspect_tests(path).suite for path in (own, other)]

    assert [suite.cases[0].name for suite in suites if suite] == ["one", "two"]
    assert suites[1] is not None
    assert suites[1].location(("tests", "two", "expect", "failed")) == f"{other}:3"
    assert check([own, other]) == []


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("lost_test.yaml", "tests: {one: {input: [x]}}\n", "missing-file"),
        ("p_test.yaml", "tests: {one: {input: [x], expect: {faild: 1}}}\n", "unknown-place"),
        ("p_test.yaml", "test: {}\n", "missing-option"),
        ("p_test.yaml", "[]\n", "missing-option"),
        ("p_test.yaml", "tests: {one: [}\n", "yaml-syntax"),
    ],
)
def test_a_wrong_test_file_is_found_by_lint(tmp_path: Path, name: str, text: str, code: str) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    path = tmp_path / name
    path.write_text(text)

    found = check([path])

    assert code in [problem.code for problem in found]
    assert inspect_tests(path).suite is None


def test_problems_of_the_pipeline_are_those_of_its_tests(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE.replace("regex", "regx"))
    path = tmp_path / "p_test.yaml"
    path.write_text("tests: {one: {input: [x]}}\n")

    assert [(Path(problem.file).name, problem.code) for problem in check([path])] == [("p.yaml", "unknown-type")]


def test_dead_letters_have_the_fields_that_lint_checks() -> None:
    assert set(LETTER.names) == set(SCHEMA.names) - {"time", "pipeline"}


def test_members_are_followed_as_deep_as_there_are_fields() -> None:
    names = ["source.ip", "labels", "a.b.c"]

    found = flat_event({"source": {"ip": 1, "port": 2}, "labels": {"x": 1}, "a.b": {"c": 3}}, names)

    assert found == {"source.ip": 1, "source.port": 2, "labels": {"x": 1}, "a.b.c": 3}
