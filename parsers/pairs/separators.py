"""Compiles separators (texts or a regular expression) to a small automaton, which kernels run from a byte of a text.

It finds the longest separator that begins at that byte. It reads at most `MAX_SEPARATOR_BYTES`, which bounds its time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from etl.scanner.pattern_error import PatternError
from etl.scanner.program import BYTE, MATCH, SPLIT, Program, UnsupportedPatternError, compile_program
from etl.scanner.syntax import parse
from etl.scanner.tree import Node

MAX_SEPARATOR_BYTES = 256
"""Bytes of the longest separator."""

MAX_STATES = 200
"""States of the automaton."""

STEP_ENDS = 1 << 31
"""Flag of a transition: a separator ends after this byte."""

STEP_NONE = (1 << 32) - 1
"""A transition that does not exist: no separator continues with this byte."""


def compile_separators(texts: Sequence[str], pattern: str | None) -> list[list[int]]:
    """Return the automaton of the pattern, or of any of the texts: for each state and byte the next state, with the flag
    `STEP_ENDS` if a separator ends there. State 0 is the start. Raises PatternError.
    """
    source = pattern if pattern is not None else "|".join(map(re.escape, texts))
    try:
        program = compile_program([parse(source, _reject_name)], "beginning")
    except UnsupportedPatternError as error:
        raise PatternError(str(error), 0) from None
    return _build_table(program)


def _reject_name(name: str, at: int) -> Node:
    raise PatternError("a separator has no grok names", at)


def _build_table(program: Program) -> list[list[int]]:
    """Return the transitions of the deterministic automaton, breadth first. Its states are sets of the program's instructions."""
    first = _compute_closure(program, [program.start])
    if any(program.opcodes[at] == MATCH for at in first):
        raise PatternError("a separator cannot be empty", 0)
    numbers, table, queue = {first: 0}, [], [first]
    for state in queue:
        row = [_follow_byte(program, state, byte) for byte in range(256)]
        for target in row:
            if target and target not in numbers:
                numbers[target] = len(numbers)
                queue.append(target)
        if len(numbers) > MAX_STATES:
            raise PatternError(f"a separator cannot have more than {MAX_STATES} states", 0)
        table.append([_encode_step(program, numbers, target) for target in row])
    return table


def _encode_step(program: Program, numbers: dict[frozenset[int], int], target: frozenset[int]) -> int:
    if not target:
        return STEP_NONE
    return numbers[target] | (STEP_ENDS if any(program.opcodes[at] == MATCH for at in target) else 0)


def _follow_byte(program: Program, state: frozenset[int], byte: int) -> frozenset[int]:
    read = [
        then
        for at in state
        if program.opcodes[at] == BYTE and program.operands[at] >> byte & 1
        for then in program.successors[at]
    ]
    return _compute_closure(program, read) if read else frozenset()


def _compute_closure(program: Program, waiting: Iterable[int]) -> frozenset[int]:
    """Return the instructions that read a byte or match, and that these reach without reading a byte."""
    return frozenset(_walk_instructions(program, list(waiting)))


def _walk_instructions(program: Program, waiting: list[int]) -> Iterator[int]:
    visited = set()
    while waiting:
        at = waiting.pop()
        if at in visited:
            continue
        visited.add(at)
        if program.opcodes[at] == SPLIT:
            waiting += program.successors[at]
        elif program.opcodes[at] in (BYTE, MATCH):
            yield at
        else:
            raise PatternError("a separator has no captures, edges, look-around or atomic groups", 0)
