"""Laws of the scanner, on random patterns and texts. ``make fuzz`` checks many more cases than ``make test``.

Where ``re`` is wrong the package ``regex`` is asked instead (see `oracles.compiled`), and no law looks for ``\\B`` in the
empty text, where Python finds it only from 3.14 on (CPython issue 124130).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from byte_patterns import byte_pattern
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from oracles import array_of_bytes, compiled, expected, filled, listed, rows, tree
from random_patterns import flat_patterns, long_texts, patterns, raw_texts, texts, uncaptured, wild_texts

from etl.columns.texts import Texts
from etl.scanner import learning
from etl.scanner.automata.automaton import UNKNOWN
from etl.scanner.automata.transition_tables import TooLargeError, build_tables
from etl.scanner.learning import Learner, MatchArrays
from etl.scanner.pattern_error import PatternError
from etl.scanner.scanner import Scanner
from etl.scanner.stages import _learner

pytestmark = pytest.mark.slow

CASES = int(os.environ.get("SLUICE_FUZZ", "2000"))
"""Of all laws together; a case is a list of patterns and a text."""

LAWS = 9
TEXTS = 5
"""Texts for each list of patterns."""

PATIENT = timedelta(seconds=20)
TYPES = [pa.string(), pa.large_string(), pa.string_view()]
counted: dict[str, int] = {}
"""Cases that each law has compared."""

law = settings(
    max_examples=-(-CASES // (LAWS * TEXTS)),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
several_texts = st.lists(texts, min_size=TEXTS, max_size=TEXTS)
around = st.lists(st.one_of(st.none(), texts), max_size=3)
"""Rows around a slice."""


@pytest.fixture(scope="module", autouse=True)
def _count(request: pytest.FixtureRequest) -> Iterator[None]:
    """Print how many cases were compared: those whose pattern both sides support."""
    yield
    if "SLUICE_FUZZ" in os.environ:
        with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            listed = "".join(f"\n{law}: {cases:,} cases" for law, cases in counted.items())
            print(f"{listed}\nin all: {sum(counted.values()):,} cases", flush=True)


def scanner_of(*several: str) -> Scanner:
    """A scanner of patterns that both sides support."""
    assume(all(compiled(pattern) is not None for pattern in several))
    try:
        return Scanner([tree(pattern) for pattern in several], PATIENT)
    except PatternError:
        raise assume(False) from None


def without_trap(several: list[Any], *patterns: str) -> list[Any]:
    """No empty text for ``\\B``."""
    trap = any("\\B" in pattern for pattern in patterns)
    blank = {"": " ", b"": b" "}
    return [blank.get(text, text) for text in several] if trap else several


def check(name: str, found: list[Any], reference: list[Any], case: object) -> None:
    counted[name] = counted.get(name, 0) + len(reference)
    assert found == reference, case


@law
@given(patterns, several_texts)
def test_a_pattern_finds_what_python_finds(pattern: str, several: list[str]) -> None:
    scanner = scanner_of(pattern)
    several = without_trap(several, pattern)

    found = rows(scanner.scan(pa.array(several, pa.string())))

    check("patterns", found, [expected([pattern], text) for text in several], (pattern, several))


@law
@given(flat_patterns, st.lists(long_texts, min_size=TEXTS, max_size=TEXTS))
def test_long_runs_are_read_as_short_ones(pattern: str, several: list[str]) -> None:
    scanner = scanner_of(pattern)
    several = without_trap(several, pattern)

    found = rows(scanner.scan(pa.array(several, pa.string())))

    check("long runs", found, [expected([pattern], text) for text in several], (pattern, several))


@law
@given(st.lists(patterns, min_size=2, max_size=4), several_texts)
def test_the_first_pattern_that_matches_anywhere_wins(several: list[str], column: list[str]) -> None:
    scanner = scanner_of(*several)
    column = without_trap(column, *several)

    found = rows(scanner.scan(pa.array(column, pa.string())))

    reference = [filled(expected(several, text), scanner.names) for text in column]
    check("lists", found, reference, (several, column))


@law
@given(st.lists(st.tuples(uncaptured, uncaptured, uncaptured), min_size=2, max_size=3), several_texts)
def test_captures_of_one_name_in_different_branches_share_a_column(parts: list[tuple[str, str, str]], several: list[str]) -> None:
    mine = "|".join(f"(?:{before})(?P<x>{inside})(?:{after})" for before, inside, after in parts)
    theirs = "|".join(f"(?:{before})(?P<x{n}>{inside})(?:{after})" for n, (before, inside, after) in enumerate(parts))
    assume(compiled(theirs) is not None)
    scanner = Scanner([tree(mine)], PATIENT)
    several = without_trap(several, mine)

    found = rows(scanner.scan(pa.array(several, pa.string())))

    reference = [expected([theirs], text) for text in several]
    merged = [row and (0, {"x": next(filter(None, row[1].values()), None)}) for row in reference]
    check("one name", found, merged, (mine, several))


@law
@given(patterns, st.lists(st.one_of(st.none(), texts), min_size=TEXTS, max_size=TEXTS), st.sampled_from(TYPES), around, around)
def test_type_slices_and_nulls_change_nothing(
    pattern: str, several: list[str | None], type_: pa.DataType, before: list[str | None], after: list[str | None]
) -> None:
    scanner = scanner_of(pattern)
    several = without_trap(several, pattern)
    column = pa.array([*before, *several, *after], type_).slice(len(before), TEXTS)

    scan = scanner.scan(column)

    for captured in scan.captures.values():
        captured.validate(full=True)
    reference = [expected([pattern], text) for text in several]
    check("types", rows(scan), reference, (pattern, several, before, after))
    answers = [None if text is None else row is not None for text, row in zip(several, reference, strict=True)]
    assert scanner.matches(column).to_pylist() == answers


@law
@given(patterns, st.lists(raw_texts, min_size=TEXTS, max_size=TEXTS), st.sampled_from(TYPES))
def test_invalid_utf8_is_read_byte_by_byte(pattern: str, several: list[bytes], type_: pa.DataType) -> None:
    """Expected are the matches of a pattern over bytes, in which a character is a well-formed UTF-8 sequence."""
    scanner = scanner_of(pattern)
    assume(scanner.engine_choices[0] == ("scanner", None))
    several = without_trap(several, pattern)
    theirs = byte_pattern(tree(pattern))
    assume(theirs is not None)

    scan = scanner.scan(array_of_bytes(several, type_))

    columns = {name: column.cast(pa.binary_view()).to_pylist() for name, column in scan.captures.items()}
    for n, text in enumerate(several):
        mine = {name: column[n] for name, column in columns.items()} if scan.pattern[n] >= 0 else None
        match = theirs.search(text)
        assert mine == (match and {name: value or None for name, value in match.groupdict().items()}), (pattern, text)
    counted["invalid UTF-8"] = counted.get("invalid UTF-8", 0) + len(several)


@settings(law, max_examples=-(-law.max_examples // 2))
@given(patterns, st.lists(wild_texts, min_size=TEXTS, max_size=TEXTS), st.sampled_from(TYPES))
def test_any_bytes_do_no_harm(pattern: str, several: list[bytes], type_: pa.DataType) -> None:
    """Captures are parts of the text, and UTF-8 texts match as in a column of UTF-8 only."""
    scanner = scanner_of(pattern)
    several = without_trap(several, pattern)

    scan = scanner.scan(array_of_bytes(several, type_))

    columns = {name: column.cast(pa.binary_view()).to_pylist() for name, column in scan.captures.items()}
    for n, text in enumerate(several):
        assert all(column[n] is None or column[n] in text for column in columns.values()), (pattern, text)
        with suppress(UnicodeDecodeError):
            reference = expected([pattern], text.decode())
            mine = {name: column[n] and column[n].decode() for name, column in columns.items()}
            check("any bytes", [mine if scan.pattern[n] >= 0 else None], [reference and reference[1]], (pattern, text))


# ── Ways to learn ─────────────────────────────────────────────────────────────────────────────────


def answers(learner: Learner, several: list[str]) -> list[Any]:
    """For each text, the pattern and its captures."""
    column = Texts.of(pa.array(several, pa.string()))
    return listed(learner.scan(column), learner.names, column)


def at_once(learner: Learner, several: list[str]) -> list[Any]:
    return answers(learner, several)


def text_by_text(learner: Learner, several: list[str]) -> list[Any]:
    """From the last to the first, one text at a time."""
    return [answers(learner, [text])[0] for text in several[::-1]][::-1]


def all_states(learner: Learner, several: list[str]) -> list[Any]:
    """All states are made before the first text."""
    automaton = learner._load_automaton()
    assume(automaton.complete(500))
    try:
        learner._tables = build_tables(automaton)
    except TooLargeError:
        assume(False)
    column = Texts.of(pa.array(several, pa.string()))
    found = MatchArrays.allocate(len(learner.names), len(several))
    learner._run(column, found)
    return listed(found, learner.names, column)


@pytest.mark.parametrize("where", ["beginning", "anywhere"])
@settings(law, max_examples=-(-law.max_examples // 2))
@given(st.lists(patterns, min_size=1, max_size=2), several_texts)
def test_the_order_of_learning_changes_nothing(where: Any, several: list[str], column: list[str]) -> None:
    scanner = scanner_of(*several)
    assume(all(way.engine == "scanner" for way in scanner.engine_choices))
    ways: list[Callable[[Learner, list[str]], list[Any]]] = [at_once, text_by_text, all_states]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning, "FIRST_SECONDS", 60.0)  # however busy the machine is
        found, *others = [way(Learner(scanner.patterns, where), column) for way in ways]

    for other in others:
        check(f"learning {where}", other, found, (several, column))
    for text, (pattern, captured) in zip(column, found, strict=True):
        if where == "anywhere" and pattern != UNKNOWN and not (text == "" and any("\\B" in one for one in several)):
            reference = filled(expected(several, text), scanner.names)
            mine = {name: captured[name].decode() if name in captured else None for name in scanner.names}
            assert (reference is None and pattern < 0) or reference == (pattern, mine), (several, text)


@pytest.mark.parametrize("budget", [("MAX_STATES", 2), ("FIRST_SECONDS", -1e9), ("GIVE_UP_AFTER", 0), ("MAX_BYTES", 2)])
@settings(law, max_examples=-(-law.max_examples // 4))
@given(st.lists(patterns, min_size=1, max_size=2), several_texts)
def test_small_budgets_change_nothing(budget: tuple[str, float], several: list[str], column: list[str]) -> None:
    scanner = scanner_of(*several)
    column = without_trap(column, *several)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning, *budget)
        _learner.cache_clear()
        found = rows(scanner.scan(pa.array(column, pa.string())))
    _learner.cache_clear()

    reference = [filled(expected(several, text), scanner.names) for text in column]
    check("budgets", found, reference, (budget, several, column))


@law
@given(patterns, st.lists(raw_texts, min_size=TEXTS, max_size=TEXTS))
def test_a_budget_of_nothing_changes_nothing_of_invalid_utf8(pattern: str, several: list[bytes]) -> None:
    """Which texts go to RE2 or ``regex`` depends on time, so bytes that are not UTF-8 must match alike there."""
    scanner = scanner_of(pattern)
    assume(scanner.engine_choices[0] == ("scanner", None))
    column = array_of_bytes(without_trap(several, pattern), pa.string())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning, "FIRST_SECONDS", 60.0)
        learned = raw_rows(scanner_of(pattern), column)
        patch.setattr(learning, "MAX_STATES", 0)
        _learner.cache_clear()
        found = raw_rows(scanner, column)
    _learner.cache_clear()

    check("engines on invalid UTF-8", found, learned, (pattern, several))


def raw_rows(scanner: Scanner, column: pa.Array) -> list[Any]:
    """For each text, the pattern's number and the captures as bytes."""
    scan = scanner.scan(column)
    captured = [column.cast(pa.binary_view()).to_pylist() for column in scan.captures.values()]
    return [(number, *(one[n] for one in captured)) for n, number in enumerate(scan.pattern.tolist())]


# ── Where the oracle is wrong ─────────────────────────────────────────────────────────────────────


def test_where_re_is_wrong() -> None:
    """The smallest cases of Python's bugs, which are why ``re`` is not the oracle for them."""
    cases = [
        (r"(?P<all>(?:ab?c)*+)\Z".replace(r"\Z", r"\z"), "a", None),  # CPython 106052: matches "a", fixed in 3.11.5
        (r"(?P<all>(?:(?!C).)++)", "ABC", {"all": "AB"}),  # 100061: captures "ABC", fixed in 3.11.6
        (r"(?P<all>(?:(?P<x>x)|y|z)*+)", "xyz", {"all": "xyz", "x": "x"}),  # 101955: SystemError
        (r"\B", "", {}),  # 124130: no match before 3.14
    ]
    for pattern, text, reference in cases:
        found = rows(Scanner([tree(f"\\A(?:{pattern})" if "\\z" in pattern else pattern)]).scan(pa.array([text])))
        assert found == [None if reference is None else (0, reference)], pattern
    assert np.all([re.search(r"\B", " ") is not None])
