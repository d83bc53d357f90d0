"""Machine code says what the tables say that it was made of, reads no byte that it may not, and is made when it pays."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from oracles import listed, tree
from random_patterns import flat_patterns, long_texts, patterns, texts
from test_tables import automaton_of

from etl.columns.cache_files import load, save
from etl.columns.texts import Texts
from etl.scanner import learning
from etl.scanner.automaton import UNKNOWN, Automaton
from etl.scanner.learning import Captured, Learner
from etl.scanner.machine import compiler, make
from etl.scanner.machine.code import Code, Loaded
from etl.scanner.machine.passing import _pieces
from etl.scanner.program import program
from etl.scanner.tables import Tables, tables

CASES = int(os.environ.get("SLUICE_FUZZ", "2000"))
law = settings(
    max_examples=-(-CASES // 40),  # compiling takes 20 to 100 ms
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


def by_tables(frozen: Tables, column: pa.Array) -> tuple[Captured, Texts]:
    learner, several = Learner((), "beginning"), Texts.of(column)
    learner.names, learner._tables = frozen.names, frozen
    found = Captured.room(len(frozen.names), len(column))
    learner._run_tables(several, found)
    return found, several


def by_code(frozen: Tables, column: pa.Array, code: Loaded | None = None) -> tuple[Captured, Texts]:
    several = Texts.of(column)
    found = Captured.room(len(frozen.names), len(column))
    (code or Loaded(Code.of(frozen))).scan(several, found)
    return found, several


def learned(automaton: Automaton, seen: list[str]) -> Tables:
    """Tables of what these texts teach."""
    for text in seen:
        automaton.train(text.encode())
    return tables(automaton)


def begun(pattern: str) -> Automaton:
    return Automaton(program([tree(pattern)], "beginning"))


def compared(frozen: Tables, column: pa.Array, code: Loaded | None = None) -> None:
    (wanted, several), (found, _) = by_tables(frozen, column), by_code(frozen, column, code)
    assert found.pattern.tolist() == wanted.pattern.tolist()
    assert found.valid.tolist() == wanted.valid.tolist()
    assert listed(found, frozen.names, several) == listed(wanted, frozen.names, several)


@pytest.mark.parametrize("where", ["beginning", "anywhere"])
@law
@given(
    st.lists(st.one_of(patterns, flat_patterns), min_size=1, max_size=2),
    st.lists(st.one_of(texts, long_texts), min_size=1, max_size=4),
    st.lists(st.one_of(st.none(), texts, long_texts), min_size=1, max_size=8),
    st.sampled_from([pa.string(), pa.large_string(), pa.string_view()]),
)
@example(
    ["(?P<c0>a)bbbbbbbbbbbbbbbbbbc"], ["abbbbbbbbbbbbbbbbbbc"], ["abbbbbbbbbbbbbbbbbb", "abbbbbbbbbbbbbbbbbbd", None], pa.string()
)
@example(["^(?P<c0>[aceéx]*) (?P<c1>.*)$"], ["ace axé ", " "], ["aceéx" * 9 + " rest", "", " "], pa.string())
def test_code_says_what_tables_say(where: Any, several: list[str], seen: list[str], column: list[str | None], type_: Any) -> None:
    compared(learned(automaton_of(several, where), seen), pa.array(column, type_))


LINE = "Dec 10 06:55:46 LabSZ sshd[24200]: Failed password for invalid user webmaster from 173.234.31.186 port 38926 ssh2"
PATTERN = (
    r"^(?P<time>\w{3} [ \d]\d \d\d:\d\d:\d\d) (?P<host>\S+) sshd\[(?P<pid>\d+)\]: "
    r"Failed password for (?:invalid user )?(?P<user>[^ ]*) from (?P<address>[0-9a-fA-F:.]+) port (?P<port>\d+)(?P<rest>.*)$"
)


def test_all_that_a_line_is_made_of() -> None:
    lines = [LINE, LINE.replace("invalid user ", ""), LINE[:-5], LINE[:40], LINE + "é" * 40, "", LINE.replace("4", "x")]
    column = pa.array([None, *lines, *(LINE[:n] for n in range(len(LINE))), *(LINE[n:] for n in range(9))])
    frozen = learned(begun(PATTERN), [LINE, lines[1], lines[4]])

    compared(frozen, column)
    compared(frozen, column.slice(3, 40))
    found, several = by_code(frozen, column.slice(1, 1))
    pattern, captures = listed(found, frozen.names, several)[0]
    assert (pattern, captures["user"], captures["port"]) == (0, b"webmaster", b"38926")


def test_no_byte_behind_the_end_of_memory_is_read(at_the_end_of_memory: Callable[[bytes], pa.Buffer]) -> None:
    frozen = learned(begun(PATTERN), [LINE])
    code = Loaded(Code.of(frozen))
    for size in range(len(LINE) + 1):
        for text in (LINE[:size].encode(), LINE[len(LINE) - size :].encode()):
            offsets = pa.py_buffer(np.array([0, size], np.int32))
            compared(frozen, pa.Array.from_buffers(pa.string(), 1, [None, offsets, at_the_end_of_memory(text)]), code)


@pytest.mark.parametrize("length", range(1, 17))
def test_pieces_of_a_word_cover_it_and_no_more(length: int) -> None:
    covered = [place for at, size in _pieces(length) for place in range(at, at + size)]

    assert set(covered) == set(range(length))


# ── Made beside ───────────────────────────────────────────────────────────────────────────────────


def learner() -> Learner:
    return Learner((tree(PATTERN),), "beginning")


def answers(of: Learner, lines: list[str]) -> list[Any]:
    column = Texts.of(pa.array(lines))
    return listed(of.scan(column), of.names, column)


@pytest.fixture
def at_once(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is learned is kept, and compiled, after any scan; the folder of the files."""
    monkeypatch.setattr(learning, "KEEP_AFTER", 0)
    monkeypatch.setattr(learning, "SETTLED_SECONDS", 0.0)
    return own_cache


def wait() -> None:
    """For what compiles beside."""
    assert compiler._children
    assert [child.wait(timeout=60) for child in compiler._children] == [0] * len(compiler._children)


def test_code_is_made_beside_and_taken_when_it_is_there(at_once: Path) -> None:
    one = learner()
    first = answers(one, [LINE])
    assert one._compiler.code is None

    wait()

    assert answers(one, [LINE]) == first
    assert one._compiler.code is not None
    assert learner()._compiler.code is not None  # the next run has it from the beginning


def test_what_code_does_not_know_is_learned_and_compiled_anew(at_once: Path) -> None:
    longer = LINE.replace("invalid user ", "")
    answers(learner(), [LINE])
    wait()
    one = learner()
    old = one._compiler.code
    assert old is not None

    pattern, captures = answers(one, [longer])[0]

    assert (pattern, captures["user"]) == (0, b"webmaster")
    wait()
    answers(one, [longer])
    assert one._compiler.code not in (None, old)


def test_a_stretch_without_growth_asks_once(at_once: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "SETTLED_SECONDS", 1e9)
    started = len(compiler._children)

    answers(learner(), [LINE] * 100)

    assert len(compiler._children) <= started


def _of_another_cpu(file: Path) -> None:
    code = load(file, Code)
    assert code is not None
    save(file, replace(code, cpu=("another", "")))


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


@pytest.mark.parametrize("spoil", [_of_another_cpu, _cut, lambda file: file.write_bytes(b"no code")])
def test_code_that_cannot_run_here_is_not_loaded(at_once: Path, spoil: Callable[[Path], None]) -> None:
    first = answers(learner(), [LINE])
    wait()
    spoil(next(at_once.glob("*.code")))

    one = learner()

    assert one._compiler.code is None
    assert answers(one, [LINE]) == first


def test_what_was_not_learned_is_unknown() -> None:
    found, _ = by_code(learned(begun("(?P<c0>a+)(b|cd)"), ["aab"]), pa.array(["aab", "acd", "x"]))

    assert found.pattern.tolist() == [0, UNKNOWN, -1]


def test_large_tables_stay_tables(at_once: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = learned(begun(PATTERN), [LINE])
    many = replace(frozen, finals=np.zeros(make.MOST_STATES + 1, np.int32))
    save(at_once / "large.tables", many)

    monkeypatch.setattr(sys, "argv", ["make", str(at_once / "large")])
    monkeypatch.setattr(make.os, "nice", lambda by: 0)
    monkeypatch.setattr(make.resource, "setrlimit", lambda what, limits: None)
    monkeypatch.setattr(make.llvm, "set_option", lambda name, option: None)
    make.main()

    assert not (at_once / "large.code").exists()
    save(at_once / "large.tables", frozen)
    make.main()
    assert (at_once / "large.code").exists()
