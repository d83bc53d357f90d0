"""Rules that are wrong or too slow: each is named, and the others run."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from running import Engine

from etl.cli.rules import command
from etl.rules.search import backtracking
from etl.rules.search import regex_search as regexes
from etl.steps.detection.rules import Rules

pytestmark = pytest.mark.slow

SCHEMA = pa.schema([("process", pa.string()), ("n", pa.int64()), ("_offset", pa.int64())])
EVENTS = pa.RecordBatch.from_pydict(
    {"process": ["sh", "word99999", "a" * 60 + "!", None], "n": [1, 2, 3, None], "_offset": [0, 1, 2, 3]}, schema=SCHEMA
)
GOOD = {"name": "good", "where": "n = 1"}


def sigma(title: str, selection: dict[str, Any], condition: str = "s") -> dict[str, Any]:
    detection = {"s": selection, "t": {"process": "bash"}, "condition": condition}
    return {"title": title, "logsource": {"category": "process_creation"}, "detection": detection}


def matched(folder: Path, *rules: dict[str, Any]) -> list[list[str]]:
    """The titles of the rules that each event meets, of rules in a file and a good one beside."""
    (folder / "rules.yml").write_text("\n---\n".join(json.dumps(rule) for rule in (*rules, GOOD)))
    step = Rules.model_validate({"files": [str(folder / "*.yml")], "output": "annotate"})
    events = step.open(SCHEMA)(EVENTS).events.to_pylist()
    return [[rule["title"] for rule in event["rules"]] for event in events]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Path:
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path / "cache"))
    caplog.set_level(logging.WARNING)
    return tmp_path


BAD = {
    "an unknown modifier": (sigma("bad", {"process|shout": "sh"}), "shout"),
    "no such field": ({"name": "bad", "where": "proc = 'sh'"}, "there is no field 'proc' here"),
    "no condition": ({"name": "bad", "where": "n + 1"}, "a condition is needed"),
    "no SQL": ({"name": "bad", "where": "n = = 1"}, "bad"),
    "too deep": ({"name": "bad", "where": f"{'(' * 5000}n = 1{')' * 5000}"}, "nested too deeply"),
    "too many parts": ({"name": "bad", "where": " or ".join(f"n = {n}" for n in range(100_000))}, "more than 5,000"),
    "no pattern": (sigma("bad", {"process|re": "(a"}), "bad"),
    "an unknown name": (sigma("bad", {"process": "sh"}, "s and nothing"), "nothing"),
    "a pattern of 20,000 words": (
        {"name": "bad", "where": "process rlike '" + "|".join(f"word{n}" for n in range(20_000)) + "'"},
        "'bad': ",
    ),
}


@pytest.mark.parametrize(("rule", "reason"), BAD.values(), ids=BAD)
def test_a_bad_rule_is_named_and_the_others_run(
    rule: dict[str, Any], reason: str, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # when
    found = matched(folder, rule)

    # then
    assert found == [["good"], [], [], []]
    assert reason in caplog.text
    assert "1 rule is left out, the first: " in caplog.text
    assert len(caplog.text) < 2000


def test_a_hundred_thousand_alternatives(folder: Path) -> None:
    wide = sigma("wide", {"process|contains": [f"word{n:05}" for n in range(100_000)]})
    assert matched(folder, wide) == [["good"], ["wide"], [], []]


RUNAWAY = sigma("runaway", {"process|re": "(?=a)(a|aa)+$"})


def test_a_slow_expression_is_stopped_and_logged(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert matched(folder, RUNAWAY) == [["good"], [], [], []]
    assert "the pattern '(?=a)(a|aa)+$' takes longer than 0.1 s for a text" in caplog.text


def test_a_slow_expression_delays_a_stream_by_seconds_at_most(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # given
    for name, value in (("SECONDS", 0.02), ("FEW", 2), ("GRANTED", 0.0412), ("SHARE", 0.0)):
        monkeypatch.setattr(backtracking, name, value)
    texts = pa.array(["aa"] + [f"{'a' * 60}{n}" for n in range(6)] + [None, "ab aa"])

    # when
    found = regexes.compile_matcher("(?=a)(?:a|aa|aaa)+$", False)(texts).to_pylist()

    # then
    assert found == [True, *[False] * 8]
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "it does not match such texts",
        "from now on each has 0.001 s",
        "it is tried on fewer while they come",
    ]


def test_a_slow_expression_is_tested_again_after_its_texts_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    # given
    for name, value in (("SECONDS", 0.02), ("FEW", 1), ("GRANTED", 0.0), ("SHARE", 0.1)):
        monkeypatch.setattr(backtracking, name, value)
    test = regexes.compile_matcher("(?=b)(?:b|bb|bbb)+$", False)

    # when
    during = test(pa.array([f"{'b' * 60}1", "bb"])).to_pylist()
    time.sleep(0.25)
    afterwards = test(pa.array(["bb"])).to_pylist()

    # then
    assert (during, afterwards) == ([False, False], [True])


def test_a_field_that_events_lack_is_no_error(folder: Path) -> None:
    # given
    rules = sigma("lacks", {"Nowhere": "x"}), sigma("lacks not", {"Nowhere": "x"}, "not s")

    # when, then
    assert matched(folder, *rules) == [["good", "lacks not"], ["lacks not"], ["lacks not"], ["lacks not"]]


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("s and t", "process cannot be 'bash' and 'sh', unless it is a list"),
        ("s and not s", "process equals 'sh' is required and excluded"),
        ("(s and t) or (s and not s)", "process cannot be"),
    ],
)
def test_a_contradiction_matches_nothing_and_is_reported(folder: Path, condition: str, reason: str) -> None:
    # when
    found = matched(folder, sigma("never", {"process": "sh"}, condition))

    # then
    assert found == [["good"], [], [], []]
    assert f"'never': {reason}" in CliRunner().invoke(command, ["check", str(folder)]).output


@pytest.mark.parametrize("condition", ["s or t", "not s", "s and not t", "not (s and t)"])
def test_what_can_be_true_is_no_contradiction(folder: Path, condition: str) -> None:
    matched(folder, sigma("may", {"process": "sh"}, condition))
    assert "never matches" not in CliRunner().invoke(command, ["check", str(folder)]).output


@pytest.mark.spark
def test_bad_rules_cost_no_event(engine: Engine) -> None:
    # given
    here = engine.etl.folder
    (here / "rules").mkdir()
    rules = [one for one, _ in list(BAD.values())[:4]] + [RUNAWAY, GOOD]
    (here / "rules" / "a.yml").write_text("\n---\n".join(json.dumps(one) for one in rules))
    (here / "rules" / "b.yml").write_text("{no rule")
    (here / "in.log").write_text("".join(f"{n} {'a' * (n % 50)}!\n" for n in range(2000)))

    # when
    totals = engine("""
        name: bad
        source: {type: file, path: "{here}/in.log"}
        steps:
          - {type: regex, patterns: ['^(?<n>[0-9]+) (?<process>.*)$']}
          - {type: convert, fields: {n: int}}
          - {type: rules, files: ["{here}/rules/*.yml"], output: annotate}
        sink: {type: file, path: "{here}/out.jsonl"}
    """)

    # then
    events = [json.loads(line) for line in (here / "out.jsonl").read_text().splitlines()]
    assert [event["n"] for event in events] == list(range(2000))
    assert [event["n"] for event in events if event["rules"]] == [1]
    state = totals.measured["steps[2] rules"].state
    assert (state["rules"], state["left_out"]) == (2, 5)
    assert totals.measured["steps[2] rules"].sums["matches"] == {"good": 1}
