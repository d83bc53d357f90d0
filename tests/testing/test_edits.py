"""Changing values of a YAML text."""

from __future__ import annotations

import pytest

from etl.config.document.parser import parse
from etl.config.model import OptionPath
from etl.testing.edits import Edit, apply_edits

TEXT = """\
# head
tests:
  one:   # first
    # about the input
    input: [a]   # lines
    expect:
      s: 4   # four
      block:   # all of them
        - {a: 1}   # c1
        - a: 2   # c2
          b: 3
        # end of block

      flow: {events: [{a: 1}, {a: 2}], fields: [a]}
  # between

  two: {input: [b]}
  three:
    input: |
      x

      y
last: 1
"""


@pytest.mark.parametrize(
    ("path", "value", "old", "new"),
    [
        (("tests", "one", "expect", "s"), 5, "s: 4   # four", "s: 5   # four"),
        (("tests", "one", "expect", "s"), [{"a": 1}], "s: 4   # four", "s:\n        - {a: 1}   # four"),
        (("tests", "one", "expect", "block", 0), {"a": 9}, "{a: 1}   # c1", "{a: 9}   # c1"),
        (
            ("tests", "one", "expect", "block", 1),
            {"a": 2},
            "        - a: 2   # c2\n          b: 3\n",
            "        - {a: 2}\n",
        ),
        (
            ("tests", "one", "expect", "block"),
            [{"z": 1}],
            "        - {a: 1}   # c1\n        - a: 2   # c2\n          b: 3\n",
            "        - {z: 1}\n",
        ),
        (
            ("tests", "one", "expect", "block"),
            "none",
            ":   # all of them\n        - {a: 1}   # c1\n        - a: 2   # c2\n          b: 3\n",
            ": none   # all of them\n",
        ),
        (("tests", "one", "expect", "flow", "events", 1), {"a": 3}, "{a: 2}]", "{a: 3}]"),
        (("tests", "one", "expect", "flow", "events"), [], "[{a: 1}, {a: 2}]", "[]"),
        (("tests", "two", "expect"), {"s": "none"}, "{input: [b]}", "{input: [b], expect: {s: none}}"),
        (("tests", "three", "expect"), {"s": [{"a": 1}]}, "      y\n", "      y\n    expect:\n      s:\n        - {a: 1}\n"),
        (("tests", "one", "dead_letters"), "none", "fields: [a]}\n", "fields: [a]}\n    dead_letters: none\n"),
    ],
)
def test_only_the_value_changes(path: OptionPath, value: object, old: str, new: str) -> None:
    assert old in TEXT

    assert apply_edits(TEXT, [Edit(path, value)]) == TEXT.replace(old, new)


def test_several_edits_at_once() -> None:
    edits = [Edit(("tests", "one", "expect", "s"), 5), Edit(("last",), 2), Edit(("tests", "two", "expect"), {"s": 1})]

    assert apply_edits(TEXT, edits) == TEXT.replace("s: 4", "s: 5").replace("last: 1", "last: 2").replace(
        "{input: [b]}", "{input: [b], expect: {s: 1}}"
    )


def test_a_text_without_a_last_newline() -> None:
    text = "tests:\n  one:\n    input: |\n      x"

    after = apply_edits(text, [Edit(("tests", "one", "expect"), {"s": "none"})])

    assert parse(after).value == {"tests": {"one": {"input": "x", "expect": {"s": "none"}}}} or parse(after).value == {
        "tests": {"one": {"input": "x\n", "expect": {"s": "none"}}}
    }


def test_a_path_that_is_not_there_changes_nothing() -> None:
    assert apply_edits(TEXT, [Edit(("tests", "four", "expect"), 1)]) == TEXT
