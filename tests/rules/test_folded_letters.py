"""Letters beyond ASCII that a regular expression takes for letters of ASCII: long s, the sign of Kelvin, i with a dot."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.rules.conditions.tree import Condition, Leaf
from etl.rules.engine.batch_engine import Engine
from etl.rules.files import Document
from etl.rules.predicates.pattern import Pattern
from etl.rules.reader import rules_from_documents
from etl.rules.search import regex_search as regexes
from etl.rules.search.literals import forms_of
from etl.rules.search.regex_literals import required_literals
from etl.rules.search.regex_search import choose_engine

SCHEMA = pa.schema([("a", pa.string())])
ALIKE = {"k": "kK\u212a", "s": "sS\u017f", "i": "iI\u0130\u0131"}
EXPRESSIONS = {
    "(?i)ask": "ask",
    "(?i)x[sS]kk": "xskk",
    "(?i:Sk)y": "sky",
    "a(?i)ks": "aks",
    "kiss": "kiss",
    "(?i)(?:ski|kiss)x?": "kiss",
    "(?i)is(?=k)": "isk",
    "(?i)kissesskis": "kissesskis",
}
"""Each with a text that it is found in. One needs the package regex, which takes other letters for i than RE2 does."""


def evaluate(condition: Condition, texts: list[str]) -> list[bool]:
    offsets = Engine([condition], SCHEMA).run(pa.RecordBatch.from_pydict({"a": texts}, SCHEMA)).offsets.tolist()
    return [after > before for before, after in itertools.pairwise(offsets)]


@pytest.fixture(scope="module", autouse=True)
def kernels() -> None:
    """Compiled outside of hypothesis, which watches every line."""
    evaluate(Leaf(Pattern("a", "x", ("x",))), ["x"])


def disguised(text: str) -> st.SearchStrategy[str]:
    """The text with letters that may equal its own."""
    return st.tuples(*(st.sampled_from(ALIKE.get(letter, letter + letter.upper())) for letter in text)).map("".join)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(EXPRESSIONS)), st.data())
def test_an_expression_matches_the_same_with_and_without_its_literals(pattern: str, data: st.DataObject) -> None:
    texts = data.draw(st.lists(disguised(EXPRESSIONS[pattern]) | st.text("aiks\u0130\u017f\u212a"), min_size=1, max_size=9))
    known = required_literals(pattern, choose_engine(pattern))

    assert known
    assert (
        evaluate(Leaf(Pattern("a", pattern, known)), texts)
        == regexes.compile_matcher(pattern, automata=False)(pa.array(texts)).to_pylist()
    )


@pytest.mark.parametrize("pattern", sorted(EXPRESSIONS))
def test_the_engines_treat_the_letters_as_equal(pattern: str) -> None:
    """Without this the law above would say nothing."""
    text = EXPRESSIONS[pattern]
    folded = [n for n, letter in enumerate(text) if letter in "sk"]
    others = ["".join(ALIKE[one][2] if n == place else one for n, one in enumerate(text)) for place in folded]

    assert all(regexes.compile_matcher(pattern, automata=False)(pa.array(others)).to_pylist()) == (
        "(?i" in pattern and not pattern.startswith("kiss")
    )


def test_a_long_text_with_many_such_letters_is_cut() -> None:
    assert required_literals("(?i)powershell") == ("powershell", "power\u017fhell")
    assert required_literals("(?i)kissesskis")[0] == "kisse"
    assert len(required_literals("(?i)kissesskis")) == 8
    assert required_literals("powershell") == required_literals("(?i)powershell", "java") == ("powershell",)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(st.text("akKsS\u017f\u212a", min_size=1, max_size=2), min_size=2, max_size=3), st.data())
def test_a_text_with_a_wildcard_inside_is_compared_as_one_without(parts: list[str], data: st.DataObject) -> None:
    # given
    text = data.draw(disguised("x".join(parts).lower()) | st.text("aksKS\u017f\u212a", max_size=5))
    rule: dict[str, Any] = {"title": "t", "logsource": {"category": "c"}}
    document = Document("r", 1, {**rule, "detection": {"one": {"a": "?".join(parts)}, "condition": "one"}})

    # when
    (answer,) = evaluate(rules_from_documents({"r": [document]}, {}).rules[0].condition, [text])

    # then
    expected = "\0".join(parts)
    assert answer == (len(text) == len(expected) and all(map(alike, text, expected)))


def alike(char: str, expected: str) -> bool:
    return expected == "\0" or char in forms_of(expected)
