"""An expression that an automaton takes over from RE2 is found in the same texts; what may differ is left to RE2."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from etl.columns.texts import Texts
from etl.rules.search.re2_syntax import compile_automaton
from etl.rules.search.regex_literals import min_length
from etl.rules.search.regex_search import AutomatonMatcher
from etl.rules.search.regex_search import compile_matcher as compile_matcher
from etl.scanner.scanner import Scanner

PARTS = [
    r"a",
    r"b",
    r"S",
    r"k",
    r"\s",
    r"\d",
    r"\w",
    r"\S",
    r".",
    r"^",
    r"$",
    r"\b",
    r"[a-c]",
    r"[^ab]",
    r"[\s.]",
    r"\x2e",
    r"\n",
    r"\.",
    r"-",
]
QUANTIFIERS = ["", "", "", "*", "+?", "{2}", "{1,3}", "?"]
TEXTS = st.text("abcSsK1 .\n\r\x0b\u2028\u212a\u017fé-", max_size=10)
patterns = st.builds(
    lambda flags, parts, grouped: flags + (f"(?:{parts}|b)" if grouped else parts),
    st.sampled_from(["", "(?i)", "(?s)", "(?si)"]),
    st.lists(st.tuples(st.sampled_from(PARTS), st.sampled_from(QUANTIFIERS)).map("".join), min_size=1, max_size=4).map("".join),
    st.booleans(),
)


def by_re2(pattern: str, texts: list[str]) -> list[bool]:
    return pc.match_substring_regex(pa.array(texts, pa.string()), pattern).to_pylist()  # type: ignore[no-any-return]


@pytest.mark.slow
@example(r"(?i)a\w", ["a\u017f", "a\u212a", "ax"])
@example(r"(?i)a[\w-]{2}", ["a\u017f-", "a\u212aB"])
@example(r"(?i)a[^\w]", ["a\u017f", "a\u212a", "a-"])
@example(r"(?i)a\W", ["a\u017f", "a\u212a", "a-", "aß"])
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(patterns, st.lists(TEXTS, min_size=1, max_size=20))
def test_an_automaton_finds_what_re2_finds(pattern: str, texts: list[str]) -> None:
    # given
    try:
        expected = by_re2(pattern, texts)
    except pa.ArrowException:
        assume(False)
    tree = compile_automaton(pattern)
    assume(tree is not None)

    # when
    found = Scanner([tree]).matches(pa.array(texts, pa.string()))  # type: ignore[list-item]

    # then
    assert found.to_pylist() == expected


@pytest.mark.parametrize(
    "pattern",
    [
        r"a++",
        r"(?m)^a",
        r"(?U)a+",
        r"[[:alpha:]]",
        r"\pL",
        r"(?i)[a-z]",
        r"(?P<n>a)",
        r"a{,3}",
        r"[]a]",
        r"(?i)é",
        r"\C",
        r"(a",
        r"\Qa\E",
    ],
)
def test_what_may_mean_something_else_is_left_to_re2(pattern: str) -> None:
    # when
    found = compile_automaton(pattern)

    # then
    assert found is None


@pytest.mark.parametrize("pattern", [r"(.){20,}", r"-k\s\w{1,64}(?:\s?-p)?", r"a[^\\]{0,64}z"])
def test_an_expression_with_many_repeats(pattern: str) -> None:
    # given
    texts = ["", "-k abc -p", "a" * 19, "a" * 20, "x" * 30, "a" + "b" * 64 + "z", "a" + "b" * 65 + "z", "é" * 20]

    # when
    found = compile_matcher(pattern, automata=True)(pa.array(texts, pa.string()))

    # then
    assert found.to_pylist() == by_re2(pattern, texts)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(patterns, TEXTS)
def test_no_shorter_text_matches(pattern: str, text: str) -> None:
    # when
    minimum = min_length(pattern)

    # then
    try:
        found = by_re2(pattern, [text])[0]
    except pa.ArrowException:
        assume(False)
    assert not found or len(text.encode()) >= minimum


def test_least_lengths() -> None:
    assert min_length("(.){200,}") == 200
    assert min_length("(?:ab|c)d+") == 2
    assert min_length("a*") == min_length("(") == 0


@pytest.mark.parametrize("pattern", [r"-(W|R)\s?([0-9a-f]{2}\s?){2,20}x", r"\Aa{16,20}b", r"^b{16}", r"(?i)c{17}\z"])
def test_chosen_texts_are_tested_as_a_column_is(pattern: str) -> None:
    # given
    texts = pa.array(["-W ab cd x", None, "aaaa" * 4 + "b", "x\n" + "b" * 16, "b" * 17, "Cc" * 9, "", "-w ab cd x"])
    test, rows = compile_matcher(pattern, automata=True), np.array([7, 0, 2, 3, 4, 5, 6])
    assert isinstance(test, AutomatonMatcher)

    # when
    found = test.match_rows(Texts.of(texts), rows)

    # then
    assert found.tolist() == pc.match_substring_regex(texts.take(pa.array(rows)), pattern).to_pylist()
