"""Sequential moves have the effect of the parallel ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etl.scanner.automata.registers import HERE, MAX_REGISTERS, SPARE, Move, Registers
from etl.scanner.program import UnsupportedPatternError

register = st.integers(0, 7)
moves = st.dictionaries(register, st.one_of(register, st.just(HERE))).map(lambda found: list(found.items()))


def done(moves: tuple[Move, ...] | list[Move], before: dict[int, object]) -> dict[int, object]:
    after = dict(before)
    for target, source in moves:
        after[target] = "here" if source == HERE else after[source]
    return after


def list_of(moves: list[Move]) -> tuple[Move, ...]:
    registers = Registers()
    number = registers.intern_moves(moves)
    return list(registers.lists)[number]


@pytest.mark.slow
@given(moves)
def test_the_order_does_not_matter(moves: list[Move]) -> None:
    before: dict[int, object] = {n: f"value {n}" for n in range(8)}

    after = done(list_of(moves), before)

    after.pop(SPARE, None)
    assert after == before | {target: "here" if source == HERE else before[source] for target, source in moves}


def test_each_cycle_takes_one_more_move() -> None:
    assert len(list_of([(0, 1), (1, 0)])) == 3
    assert len(list_of([(0, 1), (1, 2), (2, 0), (3, 4), (4, 3), (5, 0), (6, HERE)])) == 9


def test_equal_lists_have_one_number_and_the_empty_one_is_0() -> None:
    registers = Registers()

    assert registers.intern_moves([]) == 0
    assert registers.intern_moves([(0, 1)]) == registers.intern_moves([(0, 1)]) == 1
    assert registers.intern_moves([(1, 0)]) == 2


@pytest.mark.parametrize(
    ("values", "kept"), [([], []), ([HERE], [0]), ([3, HERE, 0], [3, 1, 0]), ([HERE, 0, 1, 2], [3, 0, 1, 2])]
)
def test_values_keep_their_registers(values: list[int], kept: list[int]) -> None:
    assert Registers().allocate(values) == kept


def test_registers_run_out() -> None:
    with pytest.raises(UnsupportedPatternError, match="registers"):
        Registers().allocate([*range(MAX_REGISTERS), HERE])
