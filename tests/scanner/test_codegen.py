"""Machine code gives the results of its tables, reads no byte beyond the texts, and is compiled in the background."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
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
from test_transition_tables import automaton_of

from etl.columns.disk_cache import load, save
from etl.columns.texts import Texts
from etl.scanner import learning
from etl.scanner.automata.automaton import UNKNOWN, Automaton
from etl.scanner.automata.transition_tables import TransitionTables, build_tables
from etl.scanner.codegen import background_compiler, compiler_process
from etl.scanner.codegen.object_code import LoadedCode, ObjectCode
from etl.scanner.codegen.vector_code import _split_loads
from etl.scanner.learning import Learner, MatchArrays
from etl.scanner.program import compile_program

pytestmark = pytest.mark.slow

CASES = int(os.environ.get("SLUICE_FUZZ", "2000"))
law = settings(
    max_examples=-(-CASES // 40),  # compiling takes 20 to 100 ms
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


def by_tables(frozen: TransitionTables, column: pa.Array) -> tuple[MatchArrays, Texts]:
    learner, several = Learner((), "beginning"), Texts.of(column)
    learner.names, learner._tables = frozen.names, frozen
    found = MatchArrays.allocate(len(frozen.names), len(column))
    learner._run_tables(several, found)
    return found, several


def by_code(frozen: TransitionTables, column: pa.Array, code: LoadedCode | None = None) -> tuple[MatchArrays, Texts]:
    several = Texts.of(column)
    found = MatchArrays.allocate(len(frozen.names), len(column))
    (code or LoadedCode(ObjectCode.of(frozen))).scan(several, found)
    return found, several


def learned(automaton: Automaton, seen: list[str]) -> TransitionTables:
    """Tables of an automaton trained on these texts."""
    for text in seen:
        automaton.train(text.encode())
    return build_tables(automaton)


def begun(pattern: str) -> Automaton:
    return Automaton(compile_program([tree(pattern)], "beginning"))


def compared(frozen: TransitionTables, column: pa.Array, code: LoadedCode | None = None) -> None:
    (expected, several), (found, _) = by_tables(frozen, column), by_code(frozen, column, code)
    assert found.pattern.tolist() == expected.pattern.tolist()
    assert found.valid.tolist() == expected.valid.tolist()
    assert listed(found, frozen.names, several) == listed(expected, frozen.names, several)


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
def test_code_equals_tables(where: Any, several: list[str], seen: list[str], column: list[str | None], type_: Any) -> None:
    compared(learned(automaton_of(several, where), seen), pa.array(column, type_))


LINE = "Dec 10 06:55:46 LabSZ sshd[24200]: Failed password for invalid user webmaster from 173.234.31.186 port 38926 ssh2"
PATTERN = (
    r"^(?P<time>\w{3} [ \d]\d \d\d:\d\d:\d\d) (?P<host>\S+) sshd\[(?P<pid>\d+)\]: "
    r"Failed password for (?:invalid user )?(?P<user>[^ ]*) from (?P<address>[0-9a-fA-F:.]+) port (?P<port>\d+)(?P<rest>.*)$"
)


def test_every_prefix_and_suffix_of_a_line() -> None:
    lines = [LINE, LINE.replace("invalid user ", ""), LINE[:-5], LINE[:40], LINE + "é" * 40, "", LINE.replace("4", "x")]
    column = pa.array([None, *lines, *(LINE[:n] for n in range(len(LINE))), *(LINE[n:] for n in range(9))])
    frozen = learned(begun(PATTERN), [LINE, lines[1], lines[4]])

    compared(frozen, column)
    compared(frozen, column.slice(3, 40))
    found, several = by_code(frozen, column.slice(1, 1))
    pattern, captures = listed(found, frozen.names, several)[0]
    assert (pattern, captures["user"], captures["port"]) == (0, b"webmaster", b"38926")


def test_code_does_not_read_beyond_the_texts(at_the_end_of_memory: Callable[[bytes], pa.Buffer]) -> None:
    frozen = learned(begun(PATTERN), [LINE])
    code = LoadedCode(ObjectCode.of(frozen))
    for size in range(len(LINE) + 1):
        for text in (LINE[:size].encode(), LINE[len(LINE) - size :].encode()):
            offsets = pa.py_buffer(np.array([0, size], np.int32))
            compared(frozen, pa.Array.from_buffers(pa.string(), 1, [None, offsets, at_the_end_of_memory(text)]), code)


@pytest.mark.parametrize("length", range(1, 17))
def test_loads_cover_a_literal_exactly(length: int) -> None:
    covered = [place for at, size in _split_loads(length) for place in range(at, at + size)]

    assert set(covered) == set(range(length))


# ── Made beside ───────────────────────────────────────────────────────────────────────────────────


def learner() -> Learner:
    return Learner((tree(PATTERN),), "beginning")


def answers(of: Learner, lines: list[str]) -> list[Any]:
    column = Texts.of(pa.array(lines))
    return listed(of.scan(column), of.names, column)


@pytest.fixture
def at_once(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Automata are stored and compiled after any scan, by processes that end with the test; gives the folder of the files."""
    children: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(background_compiler, "_children", children)
    monkeypatch.setattr(learning, "SAVE_AFTER", 0)
    monkeypatch.setattr(learning, "STABLE_SECONDS", 0.0)
    yield own_cache
    for child in children:  # else one would fail, as the folder is removed
        child.wait(timeout=60)


def wait() -> None:
    """Wait for the compiler processes."""
    assert background_compiler._children
    assert [child.wait(timeout=60) for child in background_compiler._children] == [0] * len(background_compiler._children)


def test_code_is_compiled_in_the_background_and_loaded(at_once: Path) -> None:
    one = learner()
    first = answers(one, [LINE])
    assert one._compiler.code is None

    wait()

    assert answers(one, [LINE]) == first
    assert one._compiler.code is not None
    assert learner()._compiler.code is not None  # the next run has it from the beginning


def test_states_that_the_code_lacks_are_learned_and_compiled(at_once: Path) -> None:
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


def test_compilation_is_requested_only_after_stable_tables(at_once: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "STABLE_SECONDS", 1e9)
    started = len(background_compiler._children)

    answers(learner(), [LINE] * 100)

    assert len(background_compiler._children) <= started


def _of_another_cpu(file: Path) -> None:
    code = load(file, ObjectCode)
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


def test_texts_beyond_the_learned_states_are_unknown() -> None:
    found, _ = by_code(learned(begun("(?P<c0>a+)(b|cd)"), ["aab"]), pa.array(["aab", "acd", "x"]))

    assert found.pattern.tolist() == [0, UNKNOWN, -1]


def test_large_tables_stay_tables(at_once: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = learned(begun(PATTERN), [LINE])
    many = replace(frozen, finals=np.zeros(compiler_process.MAX_STATES + 1, np.int32))
    save(at_once / "large.tables", many)

    monkeypatch.setattr(sys, "argv", ["compiler_process", str(at_once / "large")])
    monkeypatch.setattr(compiler_process.os, "nice", lambda by: 0)
    monkeypatch.setattr(compiler_process.resource, "setrlimit", lambda what, limits: None)
    monkeypatch.setattr(compiler_process.llvm, "set_option", lambda name, option: None)
    compiler_process.main()

    assert not (at_once / "large.code").exists()
    save(at_once / "large.tables", frozen)
    compiler_process.main()
    assert (at_once / "large.code").exists()
