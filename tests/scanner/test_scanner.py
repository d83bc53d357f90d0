"""The scanner's public interface, by examples."""

from __future__ import annotations

import pickle
from datetime import timedelta

import pyarrow as pa
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import array_of_bytes, expected, filled, rows, tree

from etl.columns.texts import Texts
from etl.scanner.automata.automaton import UNKNOWN
from etl.scanner.learning import Learner
from etl.scanner.scanner import NO_PATTERN, Scanner
from etl.scanner.stages import EngineStage, _learner

pytestmark = pytest.mark.slow

TYPES = [pa.string(), pa.large_string(), pa.string_view()]
LINE = r"(?P<key>\w+)=(?P<value>\S*)"


def scanner(*patterns: str, timeout: timedelta = timedelta(seconds=5)) -> Scanner:
    return Scanner([tree(pattern) for pattern in patterns], timeout)


@pytest.mark.parametrize("type_", TYPES)
def test_captures_are_views_into_the_column(type_: pa.DataType) -> None:
    column = pa.array(["  status=" + "x" * 40, "none", "a=1"], type_)

    found = scanner(LINE).scan(column)

    assert rows(found) == [(0, {"key": "status", "value": "x" * 40}), None, (0, {"key": "a", "value": "1"})]
    assert {captured.type for captured in found.captures.values()} == {pa.string_view()}
    assert found.unmatched.to_pylist() == [False, True, False]
    _, _, *data = found.captures["value"].buffers()
    bounds = [(buffer.address, buffer.address + buffer.size) for buffer in column.buffers()[1:]]
    assert all(any(first <= buffer.address < last for first, last in bounds) for buffer in data)


@pytest.mark.parametrize("type_", [*TYPES, pa.null()])
@pytest.mark.parametrize("column", [[], [None], [None] * 40])
def test_a_column_without_texts_matches_nothing(type_: pa.DataType, column: list[None]) -> None:
    found = scanner(LINE, "", r"(?P<other>x)\k<other>").scan(pa.array(column, type_))

    assert found.pattern.tolist() == [NO_PATTERN] * len(column)
    assert {name: captured.to_pylist() for name, captured in found.captures.items()} == dict.fromkeys(
        ["key", "value", "other"], column
    )


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize(
    ("pattern", "matched"), [("", True), ("a*", True), ("^$", True), (r"\A\z", True), (r"\b", False), ("a", False)]
)
def test_empty_texts(type_: pa.DataType, pattern: str, matched: bool) -> None:
    column = pa.array(["", None, ""], type_)

    assert scanner(pattern).matches(column).to_pylist() == [matched, None, matched]


def test_an_empty_capture_is_null() -> None:
    assert rows(scanner(LINE).scan(pa.array(["a="]))) == [(0, {"key": "a", "value": None})]


def test_the_order_of_patterns_is_kept_across_engines() -> None:
    patterns = [r"one (?P<a>\d+)", r"(?P<b>\w)\k<b> (?P<a>\d+)", r"(?<=two )(?P<a>\d+)", r"(?P<c>\d+)"]
    column = pa.array(["xx 1", "xx one 2", "two 3", "4", "-", None, "two one 5"])

    found = scanner(*patterns)

    assert [choice.engine for choice in found.engine_choices] == ["scanner", "regex", "regex", "scanner"]
    assert rows(found.scan(column)) == [
        (1, {"a": "1", "b": "x", "c": None}),
        (0, {"a": "2", "b": None, "c": None}),
        (2, {"a": "3", "b": None, "c": None}),
        (3, {"a": None, "b": None, "c": "4"}),
        None,
        None,
        (0, {"a": "5", "b": None, "c": None}),
    ]


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("pattern", [LINE, rf"(?!zz){LINE}", rf"{LINE}(?!q*zz)", rf"(?<q>[a-z])?{LINE}(?:\k<q>)?"])
def test_bytes_that_are_not_utf8_do_not_change_other_matches(pattern: str, type_: pa.DataType) -> None:
    several = [b"\xff a=1\x80 \xc3", b"a=\xe2\x82 b", b"\xf0\x9f\x98", None, b"k=\xc3\xa9\0\xff z", b"zzz\x80 k=v zz"]

    found = scanner(pattern).scan(array_of_bytes(several, type_))

    values = found.captures["value"].cast(pa.binary_view()).to_pylist()
    assert found.captures["key"].cast(pa.binary_view()).to_pylist() == [b"a", b"a", None, None, b"k", b"k"]
    assert [values[0], values[2], values[3], values[5]] == [b"1", None, None, b"v"] or values[0] == b"1\x80"


def test_atomic_groups_give_nothing_back() -> None:
    cases = {
        r"(?P<x>(?>a+)b)": [None, "ab", "aab"],
        r"(?P<x>(?>a+)ab)": [None, None, None],
        r"(?P<x>a*+c)": ["aac", None, None],
        r"(?P<x>^(?>a|ab)b)": [None, "ab", None],
        r"(?P<x>^(?>ab|a)b)": [None, "abb", None],
        r"(?P<x>^(?>a|ab)*+b)": [None, "ab", "aab"],
        r"(?:^(?>a|ab)c|(?P<x>ab+))": [None, "abb", "ab"],
    }
    column = pa.array(["aac", "abb", "aab"])

    for pattern, result in cases.items():
        found = scanner(pattern)
        assert found.engine_choices[0] == ("scanner", None)
        assert found.scan(column).captures["x"].to_pylist() == result, pattern


def test_texts_in_which_a_long_look_ahead_decides_go_to_another_engine(
    own_cache: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[str] = []
    run = EngineStage.run

    def watched(self: EngineStage, found: object, rows: object, first: int) -> None:
        left.extend(found.strings(rows).to_pylist())  # type: ignore[attr-defined]
        run(self, found, rows, first)  # type: ignore[arg-type]

    monkeypatch.setattr(EngineStage, "run", watched)
    column = pa.array(["user ann", "user root", "user ruth", "group ann"])

    found = rows(scanner(r"^user (?!root)(?P<name>\w+)").scan(column))

    assert found == [(0, {"name": "ann"}), None, (0, {"name": "ruth"}), None]
    assert left == ["user root", "user ruth"]


def test_a_match_after_the_beginning_is_found_when_the_anchored_automaton_gave_up(own_cache: object) -> None:
    found = scanner(LINE)
    _learner(found.patterns, "beginning").given_up = True

    assert rows(found.scan(pa.array(["a=1", "- b=2", "-"]))) == [
        (0, {"key": "a", "value": "1"}),
        (0, {"key": "b", "value": "2"}),
        None,
    ]


def test_a_pattern_that_runs_out_of_time_is_reported() -> None:
    slow = scanner(r"(?P<x>[ab])(?:a|aa|a?a)+\k<x>+$", "^(?P<y>b+)", timeout=timedelta(milliseconds=20))
    column = pa.array(["a" * 60 + "c", "baab", None, "bbb"])

    found = slow.scan(column)

    assert found.timed_out is not None
    assert found.timed_out.tolist() == [True, False, False, False]
    assert rows(found) == [None, (0, {"x": "b", "y": None}), None, (1, {"x": None, "y": "bbb"})]


def test_automata_have_no_time_outs() -> None:
    assert scanner(LINE).scan(pa.array(["a=1", "b"])).timed_out is None


def test_a_pickled_scanner_has_only_its_patterns() -> None:
    found = scanner(LINE, r"(?P<x>a)\k<x>")
    column = pa.array(["a=1", "aa", "-"])
    before = rows(found.scan(column))

    message = pickle.dumps(found)

    assert len(message) < 4_000
    assert rows(pickle.loads(message).scan(column)) == before


@pytest.mark.parametrize(
    ("pattern", "text"), [(r"^(?<k>(?>(?!ab)|a))b$", "ab"), (r"x(?>(?!foo)|f)(?<k>oo)", "xfoo"), (r"(?>(?!aa)|a)(?<k>a)b", "aab")]
)
def test_a_long_look_ahead_at_the_end_of_an_atomic_group_goes_to_another_engine(pattern: str, text: str) -> None:
    found = Scanner([tree(pattern)]).scan(pa.array([text]))

    result = regex.search(pattern, text, regex.VERSION1)
    assert result is not None
    assert found.captures["k"].to_pylist() == [result["k"]]


def test_a_program_that_is_too_large_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = Learner([tree("(?:abc){2,9}d")], "anywhere")
    monkeypatch.setattr("etl.scanner.program.MAX_INSTRUCTIONS", 10)
    texts = Texts.of(pa.array(["abcabcd"]))
    assert learner.scan(texts).pattern.tolist() == [UNKNOWN]
    monkeypatch.undo()

    assert learner.scan(texts).pattern.tolist() == [UNKNOWN]
    assert learner.given_up


@pytest.mark.parametrize(
    "patterns", [["^(?P<a>b+)", r"^(?P<a>a)|\A(?P<b>c)"], ["^(?P<a>b)"], ["^x(?P<a>a)", "^(?P<a>a)", "^(?P<a>.)"]]
)
@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("abcx\n", max_size=40), min_size=1, max_size=8))
def test_patterns_at_line_starts(patterns: list[str], several: list[str]) -> None:
    found = Scanner([tree(pattern) for pattern in patterns]).scan(pa.array(several))

    assert rows(found) == [filled(expected(patterns, text), tuple(found.captures)) for text in several]
