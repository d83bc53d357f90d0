"""Rules that stand in a pipeline: what lint says of them, their ids, and their tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from etl.cli.rules import command
from etl.config.loader import inspect
from etl.config.problems import ConfigError
from etl.steps.detection.rules import Rules

HEAD = """\
source: {type: stdin}
steps:
  - {type: json, fields: {user_name: string, n: bigint}}
"""
SCHEMA = pa.schema([("user_name", pa.string()), ("n", pa.int64()), ("_offset", pa.int64())])


def problems(folder: Path, steps: str) -> list[str]:
    """Place, code and path of what lint finds in the file, after the head."""
    path = folder / "p.yaml"
    path.write_text(HEAD + steps)
    return [f"{one.line}: {one.code}: {one.path}" for one in inspect(path).problems]


def rules(*given: dict[str, Any], **options: Any) -> Rules:
    return Rules.model_validate({"type": "rules", "rules": list(given), **options})


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ("  - {type: rules, rules: [{name: a, where: n = 1, unknown: 1}]}\n", ["4: unknown-option: $.steps[1].rules[0]"]),
        ("  - {type: rules, rules: [{name: a, where: 3}]}\n", ["4: type: $.steps[1].rules[0].where"]),
        ("  - {type: rules, files: 7}\n", ["4: type: $.steps[1].files"]),
        ("  - {type: rules}\n", ["4: no-rules: $.steps[1]"]),
        (
            "  - type: correlate\n    time: t\n    rules: [{name: a, where: n = 1, unknown: 1}]\n"
            "    correlations: [{title: c, correlation: "
            "{type: event_count, rules: [a], group-by: [n], timespan: 1m, condition: {gte: 2}}}]\n",
            ["5: unknown-field: $.steps[1].time", "6: unknown-option: $.steps[1].rules[0]"],
        ),
    ],
)
def test_a_rule_with_an_error_counts_as_a_rule(tmp_path: Path, steps: str, found: list[str]) -> None:
    assert problems(tmp_path, steps) == found


def test_rules_beside_one_with_an_error_are_checked(tmp_path: Path) -> None:
    steps = "  - type: rules\n    rules:\n      - {name: a, where: n = 1, unknown: 1}\n      - {name: b, where: m = 1}\n"

    assert problems(tmp_path, steps) == ["6: unknown-option: $.steps[1].rules[0]", "7: unknown-field: $.steps[1].rules[1].where"]


def test_a_match_shows_the_id() -> None:
    # given
    step = rules({"name": "a", "id": "own-1", "where": "n = 1"}, {"name": "b", "where": "n = 1"})
    batch = pa.RecordBatch.from_pydict({"user_name": ["x"], "n": [1], "_offset": [0]}, schema=SCHEMA)

    # when
    (event,) = step.open(SCHEMA)(batch).events.to_pylist()

    # then
    assert [(rule["id"], rule["title"]) for rule in event["rules"]] == [("own-1", "a"), ("b", "b")]


def test_no_two_rules_have_one_id(tmp_path: Path) -> None:
    # given
    one, other = {"name": "a", "id": "1", "where": "n = 1"}, {"name": "b", "id": "1", "where": "n = 2"}
    named = {"name": "c", "id": "a", "where": "n = 2"}

    # when
    found = [
        [(f.path, f.message) for f in rules(*some).check(SCHEMA)]
        for some in ((one, other), (one, named), (one, one | {"id": "2"}))
    ]

    # then
    assert found == [[(("rules", 1, "id"), "rules[0] has the id '1', too")], [], []]
    assert [f.path for f in rules({"name": "a", "where": "n = 1"}, named).check(SCHEMA)] == [("rules", 1, "id")]


def test_a_rule_of_a_file_with_the_id_of_one_of_the_step_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # given
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "f.yml"
    file.write_text("{name: other, id: a, where: n = 2}")
    step = rules({"name": "a", "where": "n = 1"}, files=[str(file)])

    # when
    force, found = step.compile_rules(SCHEMA), list(step.check(SCHEMA))

    # then
    reason = f"{file}:1: 'other': its id 'a' is that of rules[0] of the step itself"
    assert [rule.title for rule in force.rules] == ["a"]
    assert [str(problem) for problem in force.problems] == [reason]
    assert [(one.code, one.message) for one in found] == [("bad-rule", reason.removeprefix(f"{file}:1: "))]


def test_problems_of_one_place_come_by_file_and_line(tmp_path: Path) -> None:
    # given
    for name in ("b.yml", "a.yml"):
        (tmp_path / name).write_text("\n---\n".join(f"name: r{n}\nwhere: zzz = 1" for n in range(5)))
    path = tmp_path / "p.yaml"
    path.write_text(f"{HEAD}  - {{type: rules, files: ['{tmp_path}/*.yml']}}\n")

    # when
    found = [(one.file.removeprefix(f"{tmp_path}/"), one.line, one.column, one.path) for one in inspect(path).problems]

    # then
    assert found == [(name, line, 1, "$.where") for name in ("a.yml", "b.yml") for line in (2, 5, 8, 11, 14)]


def test_two_steps_on_one_folder_find_its_problems_once(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("- {name: good, where: n = 1}\n- name: bad\n  where: zzz = 1\n")
    steps = f"  - {{type: rules, files: ['{tmp_path}/*.yml'], output: annotate}}\n" * 2
    path = tmp_path / "p.yaml"
    path.write_text(f"{HEAD}{steps}")

    (found,) = inspect(path).problems

    assert (found.file, found.line, found.column, found.severity) == (f"{tmp_path}/a.yml", 3, 3, "warning")


# ── A pipeline's rules, checked and tested ────────────────────────────────────────────────────────

STEP = """\
  - type: rules
    files: ["{here}/*.yml"]
    rules:
      - {name: root, where: user_name = 'root', tests: [{event: {user_name: root}}, {event: {user_name: x}, matches: false}]}
      - {name: many, where: n > 5, tests: [{event: {n: 5}}]}
"""


def etl(*words: str) -> Result:
    return CliRunner().invoke(command, list(words))


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    (tmp_path / "f.yml").write_text("name: file\nwhere: n = 1\ntests: [{event: {n: 1}}]\n")
    path = tmp_path / "p.yaml"
    path.write_text(HEAD + STEP.replace("{here}", str(tmp_path)))
    return path


def test_the_rules_of_a_pipeline_are_tested(pipeline: Path) -> None:
    # when
    shown_text = etl("test", str(pipeline))

    # then
    assert shown_text.exit_code == 1
    assert shown_text.output == f"{pipeline}:8: 'many', test 1: it does not fire\n4 tests of 3 rules, 1 failed\n"


def test_a_test_is_written_as_one(tmp_path: Path) -> None:
    steps = "  - {type: rules, rules: [{name: a, where: n = 1, tests: [{evnt: {n: 1}}]}]}\n"

    assert problems(tmp_path, steps)[0].startswith("4: ")
    assert {one.split(": ")[1] for one in problems(tmp_path, steps)} == {"unknown-option"}


def test_the_rules_of_a_pipeline_are_checked_in_front_of_its_fields(pipeline: Path) -> None:
    # given
    (pipeline.parent / "g.yml").write_text("name: typed\nwhere: n + 1\n---\nname: lost\nwhere: m = 1\n")

    # when
    shown_text = etl("check", str(pipeline))

    # then
    assert shown_text.exit_code == 1
    lines = shown_text.output.splitlines()
    assert lines[0] == "steps[1] rules:"
    assert lines[1].startswith(f"{pipeline.parent}/g.yml:2: 'typed': ")
    assert lines[2].startswith(f"{pipeline.parent}/g.yml:5: 'lost': there is no field 'm' here")
    assert lines[3].startswith("3 rules loaded, 2 problems, ")


def test_a_pipeline_without_rules_is_wrong_use(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(HEAD)

    assert "is a pipeline without a step that goes by rules" in etl("check", str(path)).output


def test_correlations_of_a_pipeline_are_named_by_their_lines(tmp_path: Path) -> None:
    # given
    path = tmp_path / "p.yaml"
    path.write_text(f"""{HEAD}  - {{type: timestamp, field: user_name, target: t}}
  - type: correlate
    time: t
    rules: [{{name: a, where: n = 1}}]
    correlations:
      - title: fine
        correlation: {{type: event_count, rules: [a], group-by: [n], timespan: 1m, condition: {{gte: 2}}}}
      - title: lost
        correlation: {{type: event_count, rules: [b], group-by: [n], timespan: 1m, condition: {{gte: 2}}}}
""")

    # when
    found = inspect(path).problems

    # then
    (lost,) = found
    assert (lost.line, lost.column, lost.code, lost.severity) == (12, 50, "bad-rule", "error")
    assert lost.message.startswith("'lost': there is no rule 'b'")
    assert isinstance(etl("check", str(path)).exception, ConfigError)


def test_an_empty_file_is_named(tmp_path: Path) -> None:
    # given
    for name, text in (("a.yml", ""), ("b.yml", "# nothing\n---\n"), ("c.yml", "{name: c, where: n = 1}"), ("d.yml", "[")):
        (tmp_path / name).write_text(text)

    # when
    shown_text = etl("check", str(tmp_path))
    found = [(one.code, one.severity, one) for one in rules(files=[str(tmp_path / "?.yml")]).check(SCHEMA)]

    # then
    reason = [f"{tmp_path}/{name}: there is no rule in it" for name in ("a.yml", "b.yml")]
    assert [line for line in shown_text.output.splitlines() if "no rule" in line] == reason
    assert "1 rule loaded, 1 problem" in shown_text.output
    empty = [one for code, severity, one in found if (code, severity) == ("no-rule-files", "warning")]
    assert [f"{one.location.file}: {one.message}" for one in empty if one.location] == reason
