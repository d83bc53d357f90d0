"""Tables give the results of the automaton, after minimisation and reordering of states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from oracles import listed, tree
from random_patterns import flat_patterns, long_texts, patterns, texts

from etl.columns.texts import Texts
from etl.scanner.automata import transition_tables as module
from etl.scanner.automata.automaton import UNKNOWN, Automaton
from etl.scanner.automata.registers import HERE, UNSET
from etl.scanner.automata.transition_tables import TooLargeError, TransitionTables, build_tables
from etl.scanner.learning import Learner, MatchArrays
from etl.scanner.pattern_error import PatternError
from etl.scanner.program import compile_program
from etl.scanner.tree_analysis import unsupported_construct

Answer = tuple[int, dict[str, bytes]]
"""The pattern, and the captures that took part."""


def interpreted(automaton: Automaton, text: bytes) -> Answer:
    """By the states of the automaton, byte by byte."""
    at, here, remembered = automaton.start, 0, {}
    lists = list(automaton.registers.lists)
    for here, byte in enumerate(text):
        state = automaton.states[at]
        if state.edges is None:
            return UNKNOWN, {}
        if state.accepts:
            break
        at, moves = state.edges[automaton.alphabet.of_byte[byte]]
        if at < 0 or automaton.states[at].edges is None:
            return (-1 if at == -1 else UNKNOWN), {}
        for target, source in lists[moves]:
            remembered[target] = here if source == HERE else remembered[source]
    else:
        here = len(text)
    return _answer(automaton, automaton.states[at].final, {**remembered, HERE: here, UNSET: -1}, text)


def _answer(automaton: Automaton, final: int, places: dict[int, int], text: bytes) -> Answer:
    if final < 0:
        return (-1 if final == -1 else UNKNOWN), {}
    pattern, registers = list(automaton.finals)[final]
    place = dict(registers)
    found: dict[str, bytes] = {}
    for tag in sorted(tag for tag in place if tag % 2 == 0):
        begin, end = places[place[tag]], places[place[tag + 1]]
        if begin >= 0 and end >= 0:
            found.setdefault(automaton.program.names[tag // 2], text[begin:end])
    return pattern, {name: value for name, value in found.items() if value}


def run(frozen: TransitionTables, column: pa.Array) -> list[Answer]:
    """By the kernel."""
    learner, texts = Learner((), "beginning"), Texts.of(column)
    learner.names, learner._tables = frozen.names, frozen
    found = MatchArrays.allocate(len(frozen.names), len(column))
    learner._run(texts, found)
    return listed(found, learner.names, texts)


def automaton_of(several: list[str], where: Any) -> Automaton:
    try:
        trees = [tree(pattern) for pattern in several]
    except PatternError:
        raise assume(False) from None
    assume(not any(map(unsupported_construct, trees)))
    return Automaton(compile_program(trees, where))


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.one_of(patterns, flat_patterns), min_size=1, max_size=3),
    st.sampled_from(["beginning", "anywhere"]),
    st.lists(st.one_of(texts, long_texts), max_size=4),
    st.lists(texts, min_size=1, max_size=6),
    st.sampled_from([0.0, module.LONG_RUN, 1e9]),
)
def test_tables_equal_the_states(several: list[str], where: Any, learned: list[str], other: list[str], long: float) -> None:
    """For known and unknown states, with and without loops for runs."""
    automaton = automaton_of(several, where)
    for text in ["", *learned]:
        automaton.train(text.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LONG_RUN", long)
        try:
            frozen = build_tables(automaton)
        except TooLargeError:
            raise assume(False) from None
    column = [text.encode() for text in [*learned, *other]]

    found = run(frozen, pa.array(column, pa.binary()).view(pa.string()))

    assert found == [interpreted(automaton, text) for text in column]


def test_equivalent_states_are_merged() -> None:
    automaton = Automaton(compile_program([tree("(?:ab|cb|db)x")], "beginning"))
    assert automaton.complete(100)

    frozen = build_tables(automaton)

    assert len(automaton.states) > 4
    assert len(frozen.finals) == 7  # dead, unknown, start, after the letter, after b, at the match, matched
    assert len(set(frozen.classes.tolist())) == 4


def test_long_runs_have_loops_of_their_own() -> None:
    automaton = Automaton(compile_program([tree(r'"(?P<a>[^"]*)" (?P<b>\w+) .*')], "beginning"))
    automaton.train(b'"' + b"x" * 50 + b'" ' + b"w" * 50 + b" " + b"z" * 50)

    frozen = build_tables(automaton)

    running, finding, skipping, decided = (frozen.kinds >> frozen.shift).tolist()
    assert [running - 1, finding - running, skipping - finding] == [1, 1, 1]
    assert decided < len(frozen.finals)
    assert sorted({*frozen.found[0].tolist()}) == [ord('"')]


def test_the_kernel_does_not_read_beyond_the_texts(at_the_end_of_memory: Any) -> None:
    """Neither in its loops over 16 bytes nor after them."""
    automaton = Automaton(compile_program([tree(r'"(?P<a>[^"]*)"(?P<b>.*)')], "beginning"))
    for size in (0, 1, 15, 16, 17, 31, 32, 33, 100):
        text = b'"' + b"x" * size + b'"' + b"y" * size
        for part in (text, text[: size + 1]):
            automaton.train(part)
            buffer = at_the_end_of_memory(part)
            offsets = pa.py_buffer(np.array([0, len(part)], np.int32))
            found = run(build_tables(automaton), pa.Array.from_buffers(pa.string(), 1, [None, offsets, buffer]))
            captured = {"a": b"x" * size, "b": b"y" * size} if size else {}
            assert found == [(0, captured) if part == text else (-1, {})]
