"""Hostile texts and patterns: huge, ambiguous, or beyond the limits of automata."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from oracles import expected, rows, tree

from etl.scanner import learning
from etl.scanner.automata.automaton import Automaton
from etl.scanner.learning import Learner
from etl.scanner.program import MAX_INSTRUCTIONS, UnsupportedPatternError, compile_program
from etl.scanner.scanner import Scanner
from etl.scanner.stages import EngineStage

pytestmark = pytest.mark.slow

MILLION = 1_000_000
GIB = 1 << 30


def scanner(*patterns: str) -> Scanner:
    return Scanner([tree(pattern) for pattern in patterns])


@pytest.fixture
def engines_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails the test if a text goes to another engine."""

    def run(*_: object) -> None:
        raise AssertionError("texts are left to other engines")

    monkeypatch.setattr(EngineStage, "run", run)


# ── Sizes ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.string_view()])
@pytest.mark.parametrize("others", [[], ["x status=404 éé end=1"]], ids=["alone", "beside a short one"])
def test_a_line_of_10_mb(own_cache: Path, type_: pa.DataType, others: list[str], request: pytest.FixtureRequest) -> None:
    """Alone it goes to another engine; if a short line has trained the same states, it does not."""
    line = "x" * (5 * MILLION) + " status=404 " + "é" * (2 * MILLION) + " end=1"
    if others:
        request.getfixturevalue("engines_forbidden")

    found = scanner(r"status=(?P<status>\d+) (?P<rest>.*) end=(?P<end>\d+)").scan(pa.array(["", line, *others], type_))

    assert [found.captures[name][1].as_py() for name in ("status", "end")] == ["404", "1"]
    assert found.captures["rest"][1].as_py() == "é" * (2 * MILLION)
    assert found.pattern.tolist() == [-1, 0] + [0] * len(others)


def test_states_needed_only_at_the_end_of_a_long_text_are_not_learned(own_cache: Path) -> None:
    long = "a" * (learning.MAX_BYTES + 5)
    column = pa.array([long + "b12", long + "c", long + "b"])
    patterns = [r"^(?P<a>a+)(?:b(?P<n>\d+))$", r"a(?P<c>c)"]

    found = rows(scanner(*patterns).scan(column))

    assert found == [(0, {"a": long, "n": "12", "c": None}), (1, {"a": None, "n": None, "c": "c"}), None]


@pytest.mark.slow
def test_more_than_2_gib_of_texts(own_cache: Path, engines_forbidden: None) -> None:
    """Offsets beyond 32 bits; takes 2.5 GB of memory."""
    of = scanner(r" key=(?P<key>\d+)")
    of.scan(pa.array(["x" * 50 + " key=12\n", "x key=12"]))
    size, many = 1 << 20, 2200
    data = np.full(size * many, ord("x"), np.uint8)
    for n in range(many):
        tail = f" key={n}\n".encode()
        data[(n + 1) * size - len(tail) : (n + 1) * size] = np.frombuffer(tail, np.uint8)
    offsets = np.arange(many + 1, dtype=np.int64) * size
    column = pa.Array.from_buffers(pa.large_string(), many, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    assert data.nbytes > 2 * GIB

    found = of.scan(column)

    assert found.captures["key"].to_pylist() == [str(n) for n in range(many)]
    assert (found.pattern == 0).all()


# ── Patterns ──────────────────────────────────────────────────────────────────────────────────────


def seconds(of: Scanner, column: pa.Array) -> float:
    """Of CPU time, the best of three."""
    times = []
    for _ in range(3):
        began = time.process_time()
        of.scan(column)
        times.append(time.process_time() - began)
    return min(times)


EXPLOSIVE = [
    ("(x+x+)+y", "x"),
    ("(?:x*)*y", "x"),
    ("(?P<a>x|xx)+$y", "x"),
    ("(?:x?){40}x{40}y", "x"),
    ("(.*)(.*)(.*)(.*)[0-9]y", "x1"),
    (r"(?>x+|(?:xx)+)*y", "x"),
    ("(a|b)*a(a|b){14}", "ab"),
    ("(?:a|b)*a(?:a|b){14}c", "ab"),
]


@pytest.mark.parametrize(("pattern", "letters"), EXPLOSIVE)
def test_time_is_linear(own_cache: Path, pattern: str, letters: str) -> None:
    """Four times the text takes four times as long; less than 16 times allows for a busy machine, and quadratic time needs 16."""
    text = "".join(Random(1).choices(letters, k=20_000)) if len(letters) > 1 else letters * 20_000
    small, large = pa.array([text] * 4), pa.array([text * 8] * 4)
    of = scanner(pattern)
    of.scan(small)  # learns, or learns that it cannot
    of.scan(large)

    assert seconds(of, large) < 8 * 10 * max(seconds(of, small), 0.0005)


@pytest.mark.parametrize(("pattern", "letters"), EXPLOSIVE)
def test_explosive_patterns_find_what_python_finds(own_cache: Path, pattern: str, letters: str) -> None:
    chance = Random(2)
    texts = ["".join(chance.choices(letters + "yc", k=n)) for n in range(2, 20)]

    found = rows(scanner(pattern).scan(pa.array(texts)))

    assert found == [expected([pattern], text) for text in texts]


@pytest.mark.parametrize(
    "pattern",
    [
        "(?:[a-z]{1,100}[0-9]{1,100}){1,90}",
        "(?:[à-ÿ]{1,50}[0-9]{1,100}){1,40}",
        "(?:(?P<x>a)|b)" * 500,
        "(?P<x>.*)" * 60,
    ],
)
def test_large_patterns(own_cache: Path, pattern: str) -> None:
    texts = ["", "ab12" * 30, "ba" * 250, "é1" * 9, "-"]

    found = scanner(pattern).scan(pa.array(texts))

    results = {"(?:[a": [-1, 0, -1, -1, -1], "(?:[à": [-1, -1, -1, 0, -1], "(?:(?": [-1, -1, 0, -1, -1], "(?P<x": [0] * 5}
    assert found.pattern.tolist() == results[pattern[:5]]


def test_programs_are_bounded() -> None:
    with pytest.raises(UnsupportedPatternError, match="more than"):
        compile_program([tree("(?:[a-z]{1,1000}){1,1000}")], "anywhere")
    assert len(compile_program([tree("[a-z]{1,1000}" * 20)], "anywhere").opcodes) < MAX_INSTRUCTIONS


def test_more_positions_than_registers(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = "".join(f"(?P<c{n}>[ab])" for n in range(12)) + "$"
    texts = ["ab" * n for n in range(12)] + ["-"]
    results = [expected([pattern], text) for text in texts]
    monkeypatch.setattr("etl.scanner.automata.registers.MAX_REGISTERS", 5)

    assert rows(scanner(pattern).scan(pa.array(texts))) == results


def test_more_threads_than_a_state_may_have(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = "(?P<x>(?:a|b)*a(?:a|b){6}c)"
    texts = ["abbabab" * n + "c" * (n % 2) for n in range(9)]
    monkeypatch.setattr("etl.scanner.automata.automaton.MAX_THREADS", 4)

    assert rows(scanner(pattern).scan(pa.array(texts))) == [expected([pattern], text) for text in texts]


def test_more_items_than_a_closure_may_have(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = "(?P<x>(?:a|ab|abc|abca){1,3})$"
    texts = ["abcabcab", "abcaab", "a", "c"]
    monkeypatch.setattr("etl.scanner.automata.closure.MAX_ITEMS", 3)

    assert rows(scanner(pattern).scan(pa.array(texts))) == [expected([pattern], text) for text in texts]


def test_paths_that_end_nowhere_are_bounded() -> None:
    """Each of these groups doubles the paths, because entries of atomic groups distinguish them."""
    automaton = Automaton(compile_program([tree("(?:(?>^)|)" * 40 + "(?<=q)z")], "beginning"))

    automaton.train(b"abc")

    assert automaton.complete(3)


def test_texts_go_to_another_engine_if_tables_are_too_large(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etl.scanner.automata.transition_tables.MAX_MOVES", 1)
    of = scanner(r"(?P<x>a+)(?P<y>b+)")

    assert rows(of.scan(pa.array(["aab", "b"]))) == [(0, {"x": "aa", "y": "b"}), None]
    assert Learner(of.patterns, "anywhere")._tables is None
