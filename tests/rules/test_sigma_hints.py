"""What is said of Sigma rules that pySigma refuses: what is accepted instead."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from etl.rules.reader import read_rules

SOURCE = {"category": "test"}


def rule(selection: dict[str, Any], condition: str = "s", **more: Any) -> dict[str, Any]:
    return {"title": "t", "logsource": SOURCE, "detection": {"s": selection, "condition": condition}, **more}


def correlation(**options: Any) -> dict[str, Any]:
    given = {"type": "event_count", "rules": ["a"], "group-by": ["f"], "timespan": "1m", "condition": {"gte": 5}, **options}
    return {"title": "t", "correlation": {key: value for key, value in given.items() if value is not None}}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (rule({"f|contain": "x"}), "did you mean 'contains'?"),
        (rule({"f|zzzzzz": "x"}), "modifiers are all, base64, "),
        (rule({"f|lt": "x"}), "it compares with a number"),
        (rule({"f|exists": "x"}), "its value is true or false"),
        (rule({"f|hour": "noon"}), "its value is a whole number"),
        (rule({"f|base64": 5}), "it is for texts"),
        (rule({"f|base64": "x*"}), "write * as \\*"),
        (rule({"f": "x"}, "s and t"), "a condition names the keys of its detection"),
        (rule({"f": "x"}, "s | count() > 5"), "write a correlation instead"),
        (rule({"f": "x"}, level="severe"), "levels are informational, low, medium, high, critical"),
        (rule({"f": "x"}, status="odd"), "they are stable, test, "),
        (rule({"f": "x"}, id="1"), "make one with uuidgen"),
        ({"title": "t", "logsource": SOURCE, "detection": {"s": {"f": "x"}}}, "a detection has a 'condition'"),
        ({"title": "t", "detection": {"s": {"f": "x"}, "condition": "s"}}, "such as logsource: {"),
        ({"logsource": SOURCE, "detection": {"s": {"f": "x"}, "condition": "s"}}, "such as title: "),
        (correlation(timespan="1 minute"), "write a number and s, m, h, d, w, M or y: 10m"),
        (correlation(timespan=None), "such as timespan: 10m"),
        (correlation(type="event_counts"), "types are event_count, value_count, "),
        (correlation(condition={"more": 5}), "one of gt, gte, "),
        (correlation(condition=None), "such as condition: {gte: 5}"),
        (correlation(type="value_count"), "condition: {gte: 5, field: user_name}"),
        (correlation(rules=None), "such as correlation: {type: event_count"),
    ],
)
def test_the_message_says_what_is_accepted(tmp_path: Path, document: dict[str, Any], reason: str) -> None:
    (tmp_path / "r.yml").write_text(json.dumps(document))

    (problem,) = read_rules([str(tmp_path / "r.yml")]).problems

    assert reason in problem.message.partition("; ")[2]


def test_a_document_that_is_no_rule_is_shown(tmp_path: Path) -> None:
    (tmp_path / "r.yml").write_text("just text\n")

    assert str(read_rules([str(tmp_path / "r.yml")]).problems[0]).endswith("a rule is a mapping, and this is 'just text'")
