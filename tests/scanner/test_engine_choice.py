"""The engine of a pattern, and the reason."""

from __future__ import annotations

import pytest
from oracles import tree

from etl.scanner.engine_choice import choose_engine

AHEAD = "a look-ahead of more than one character"
BEHIND = "a look-behind of more than one character"


@pytest.mark.parametrize(
    ("pattern", "engine", "reason"),
    [
        ("a(b|c)*", "scanner", None),
        (r"(?>a)b*+\b(?!\d)(?<![ab])(?=$|x)", "scanner", None),
        (r"(?=.*)(?!.)", "scanner", None),
        (r"\Z", "regex", AHEAD),
        ("(?!ab)", "scanner", AHEAD),
        ("(?=ab)", "regex", AHEAD),
        ("(?!a*)", "scanner", None),
        ("(?!a*$)", "regex", "a negative look-ahead that may be empty"),
        ("(?<!ab)", "regex", BEHIND),
        ("(?<=é)", "regex", BEHIND),
        (r"(?<x>a)\k<x>", "regex", "a back-reference"),
        ("(?:[a-z]{1,1000}){1,1000}", "RE2", "counted repeats that multiply, or thousands of alternatives"),
        ("(?>[a-z]{1,1000}){1,1000}", "regex", "counted repeats that multiply, or thousands of alternatives"),
    ],
)
def test_choose_engine(pattern: str, engine: str, reason: str | None) -> None:
    assert choose_engine(tree(pattern)) == (engine, reason)
