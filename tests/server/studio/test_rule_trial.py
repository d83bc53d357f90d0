"""Rules that are being written: their problems, and their test events."""

from __future__ import annotations

import pytest

from etl.server.studio import rule_trial
from etl.server.studio.rule_trial import try_rules

RULES = """\
- name: root
  where: action = 'failed' and user = 'root'
  tests:
    - event: {action: failed, user: root}
    - event: {action: failed, user: ann}
    - {event: {action: failed, user: eve}, matches: false}
    - 7
- name: broken
  where: action = foo(
"""

SIGMA = """\
title: Shell
logsource: {category: process_creation}
detection:
  s:
    process.name|ends: sh
  condition: s
tests:
  - event: {process: {name: bash}}
"""


def test_problems_have_their_place_and_good_rules_run_their_tests() -> None:
    found = try_rules(RULES)

    assert [(one["line"], one["column"]) for one in found["problems"]] == [(9, 3)]
    assert "bracket" in found["problems"][0]["message"]
    assert [(one["rule"], one["line"], one["number"], one["failure"]) for one in found["tests"]] == [
        ("root", 1, 1, None),
        ("root", 1, 2, "it does not fire"),
        ("root", 1, 3, None),
        ("root", 1, 4, "a test is a mapping with an 'event', and this is 7"),
    ]
    assert (found["rules"], found["all_tests"]) == (1, 4)
    assert found["report"][0].startswith("1 rule loaded, 1 problem")


def test_sigma_rules_are_checked_and_tried() -> None:
    wrong, right = try_rules(SIGMA), try_rules(SIGMA.replace("|ends", "|endswith"))

    assert [(one["line"], "Unknown modifier 'ends'" in one["message"]) for one in wrong["problems"]] == [(5, True)]
    assert (right["problems"], [one["failure"] for one in right["tests"]]) == ([], [None])


BOMB = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}' if n else 'x'] * 9)}]" for n in range(9))


@pytest.mark.parametrize(
    "text", ["", ": : [", "\ud800", "- " * 2_000, "a: &a [*a]", "&a {x: *a}", BOMB, "name: x\nwhere: 1\ntests: {a: b}"]
)
def test_any_text_is_answered_with_problems_or_no_rule(text: str) -> None:
    found = try_rules(text)

    assert (found["rules"], found["tests"]) == (0, [])
    assert found["problems"] or "there is no rule in it" in found["report"][0]
    assert "/" not in "".join(found["report"])


def test_many_tests_and_long_texts_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_trial, "MAX_TESTS", 2)
    monkeypatch.setattr(rule_trial, "MAX_CHARACTERS", 5)

    found = try_rules(RULES)

    assert (len(found["tests"]), found["all_tests"]) == (2, 4)
    assert {len(one["message"]) for one in found["problems"]} == {6}
