"""Taking grok expressions apart."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.inference.grok.pattern_parts import alternatives, next_part


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        ("%{IP:a} x", [["%{IP:a}", " ", "x"]]),
        (r"a\[%{INT}\]+", [["a", r"\[", "%{INT}", r"\]+"]]),
        ("[a|b]{2,3}?c", [["[a|b]{2,3}?", "c"]]),
        ("[]|]x", [["[]|]", "x"]]),
        ("[^]|]", [["[^]|]"]]),
        ("(a|(b|c))*d|e", [["(a|(b|c))*", "d"], ["e"]]),
        (r"(?<n>\))x", [[r"(?<n>\))", "x"]]),
        (r"\p{L}\x41{2}", [[r"\p{L}", r"\x41{2}"]]),
        ("", [[]]),
        ("a|", [["a"], []]),
        ("(a", [["(a"]]),
    ],
)
def test_parts(pattern: str, parts: list[list[str]]) -> None:
    assert alternatives(pattern) == parts


@settings(deadline=None)
@given(st.text(alphabet="ab%{}()[]|\\*+?^:0,"))
def test_parts_put_together_are_the_pattern(pattern: str) -> None:
    assert "|".join("".join(parts) for parts in alternatives(pattern)) == pattern


def test_what_is_wanted_is_a_name_a_group_or_a_text() -> None:
    assert next_part(["%{IP:a}", " "]) == "%{IP:a}"
    assert next_part(["(a|b)", "c"]) == "(a|b)"
    assert next_part([" ", "f", r"\.", "%{IP}"]) == r"` f\.`"
    assert next_part([]) == "the end of the pattern"
