"""The fallback engines match a tree as automata do."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from oracles import array_of_bytes, tree

from etl.scanner import learning, stages
from etl.scanner.char_class import POSIX
from etl.scanner.engines import EngineResult, _compile_backtracking, _compile_linear, check_compiles, compile_search
from etl.scanner.learning import Learner
from etl.scanner.regex_printer import format_regex
from etl.scanner.scanner import Scanner
from etl.scanner.tree import Node

TIMEOUT = timedelta(seconds=5)
CHARACTERS = "aZ5_-!~ \t\x00\x07\x7f\x85\xa0éßÀλЖ中٣²…€\u0301\u2028\u3000😀"


def by_re2(node: Node, texts: pa.Array) -> EngineResult:
    return _compile_linear(node, format_regex(node))(texts)


def by_regex(node: Node, texts: pa.Array) -> EngineResult:
    return _compile_backtracking(node, TIMEOUT)(texts)


@pytest.mark.slow
@pytest.mark.parametrize("not_", ["", "^"])
@pytest.mark.parametrize("name", POSIX)
def test_classes_of_unicode_are_the_same_everywhere(name: str, not_: str) -> None:
    node = tree(rf"[{not_}[:{name}:]]")
    texts = pa.array(list(CHARACTERS))

    found = [Scanner([node]).matches(texts), by_re2(node, texts).matched, by_regex(node, texts).matched]

    assert found[0].to_pylist() == found[1].to_pylist() == found[2].to_pylist()


@pytest.mark.parametrize("pattern", [r"\bx", r"x\b", r"\Bx", r"x\B", r"\w", r"\W", r"[^\W_]", r"\d", r"\D", r"\s", r"\S"])
def test_words_digits_and_spaces_are_of_ascii_everywhere(pattern: str) -> None:
    node = tree(pattern)
    texts = pa.array(["x", "éx", "xé", "axa", " x ", *CHARACTERS])

    found = [Scanner([node]).matches(texts), by_re2(node, texts).matched, by_regex(node, texts).matched]

    assert found[0].to_pylist() == found[1].to_pylist() == found[2].to_pylist()


@pytest.mark.parametrize("by", [by_re2, by_regex])
@pytest.mark.parametrize("type_", [pa.string(), pa.large_string()])
def test_captures(by: Any, type_: pa.DataType) -> None:
    node = tree(r"(?:(?<x>a+)|(?<x>b+))(?<y>c*)")

    answer = by(node, pa.array(["-aac", "bb", "", None, "c"], type_))

    assert answer.matched.to_pylist() == [True, True, False, False, False]
    assert answer.captures["x"].to_pylist() == ["aa", "bb", None, None, None]
    assert answer.captures["y"].to_pylist() == ["c", None, None, None, None]


@pytest.mark.parametrize("by", [by_re2, by_regex])
def test_bytes_that_are_no_characters(by: Any) -> None:
    texts = array_of_bytes([b"\xff k=v\x80", b"\xe2\x82=x", None, b"\xed\xa0\x80k=w"], pa.string())

    answer = by(tree(r"(?<k>\w+)=(?<v>\w+)(?<rest>.?)"), texts)

    assert answer.matched.to_pylist() == [True, False, False, True]
    assert answer.captures["k"].to_pylist() == ["k", None, None, "k"]
    assert answer.captures["v"].to_pylist() == ["v", None, None, "w"]


def test_patterns_too_large_for_re2_run_on_regex() -> None:
    find = compile_search(tree("(?<x>(?:[a-z]{1,1000}){1,1000})"), TIMEOUT)

    assert find(pa.array(["-ab"])).captures["x"].to_pylist() == ["ab"]


def test_the_time_limit_applies_to_each_text() -> None:
    answer = _compile_backtracking(tree(r"^(?<x>a|b)(?:a|aa|a?a)+\k<x>+$"), timedelta(milliseconds=10))(
        pa.array(["a" * 60 + "c", "baab", None])
    )

    assert answer.timed_out is not None
    assert answer.timed_out.to_pylist() == [True, False, False]
    assert answer.matched.to_pylist() == [False, True, False]


def test_a_pattern_without_an_engine_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"."):
        check_compiles(tree(r"(?=a)\k<nobody>"))
    check_compiles(tree(r"(?<x>a)\k<x>"))


def test_no_word_boundary_is_found_inside_a_character() -> None:
    answer = compile_search(tree(r"(?P<c>x?)\B"), timedelta(seconds=1))(pa.array(["béa", "bb"]))

    assert answer.matched.to_pylist() == [False, True]


@pytest.mark.parametrize("learns", [True, False])
@pytest.mark.parametrize(
    ("pattern", "captured"),
    [("^<1> (?<m>.*)$", b"a\xff("), ("(?<m>[^x]+)$", b"<1> a\xff("), (r"(?i)^<1> A(?<m>\D*)", b"\xff("), (r"\((?<m>$)", None)],
)
def test_runs_of_any_character_pass_over_bytes_that_are_no_utf8_in_every_engine(
    pattern: str, captured: bytes | None, learns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which engine reads a text depends on the time spent on training, so all must give the same result."""
    monkeypatch.setattr(stages, "_learner", Learner)
    if not learns:
        monkeypatch.setattr(learning, "MAX_STATES", 0)
    texts = array_of_bytes([b"<1> a\xff(", b"<1> a(", None], pa.string())

    found = Scanner([tree(pattern)]).scan(texts)

    assert found.pattern.tolist() == [0, 0, -1]
    assert found.captures["m"].view(pa.binary_view()).to_pylist()[0] == captured
