"""Separators, as texts or as a regular expression → a small automaton that kernels run at a byte of a text.

It finds the longest separator that begins there and reads at most `MAX_BYTES`, so that no text makes it slow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from etl.scanner.pattern_error import PatternError
from etl.scanner.program import BYTE, MATCH, SPLIT, Program, UnsupportedPatternError, compile_program
from etl.scanner.syntax import parse
from etl.scanner.tree import Node

MAX_BYTES = 256
"""Bytes of the longest separator."""

MAX_STATES = 200
"""States of the automaton."""

STEP_ENDS = 1 << 31
"""Flag of a step: a separator ends here."""

STEP_NONE = (1 << 32) - 1
"""A step that leads nowhere."""


def compile_separators(texts: Sequence[str], pattern: str | None) -> list[list[int]]:
    """The automaton of any of the texts, or of the pattern: for each state and byte the next state, with the flag `STEP_ENDS`
    where a separator ends. State 0 is the start. Raises PatternError.
    """
    written = pattern if pattern is not None else "|".join(map(re.escape, texts))
    try:
        made = compile_program([parse(written, _no_name)], "beginning")
    except UnsupportedPatternError as error:
        raise PatternError(str(error), 0) from None
    return _table(made)


def _no_name(name: str, at: int) -> Node:
    raise PatternError("a separator has no grok names", at)


def _table(made: Program) -> list[list[int]]:
    """The program's states (sets of instructions) and their steps, breadth first."""
    first = _closure(made, [made.start])
    if any(made.opcodes[at] == MATCH for at in first):
        raise PatternError("a separator cannot be empty", 0)
    numbers, rows, waiting = {first: 0}, [], [first]
    for state in waiting:
        row = [_step(made, state, byte) for byte in range(256)]
        for then in row:
            if then and then not in numbers:
                numbers[then] = len(numbers)
                waiting.append(then)
        if len(numbers) > MAX_STATES:
            raise PatternError(f"a separator cannot have more than {MAX_STATES} states", 0)
        rows.append([_written(made, numbers, then) for then in row])
    return rows


def _written(made: Program, numbers: dict[frozenset[int], int], then: frozenset[int]) -> int:
    if not then:
        return STEP_NONE
    return numbers[then] | (STEP_ENDS if any(made.opcodes[at] == MATCH for at in then) else 0)


def _step(made: Program, state: frozenset[int], byte: int) -> frozenset[int]:
    read = [then for at in state if made.opcodes[at] == BYTE and made.operands[at] >> byte & 1 for then in made.successors[at]]
    return _closure(made, read) if read else frozenset()


def _closure(made: Program, waiting: Iterable[int]) -> frozenset[int]:
    """The instructions that read a byte or match, from these without reading one."""
    return frozenset(_instructions(made, list(waiting)))


def _instructions(made: Program, waiting: list[int]) -> Iterator[int]:
    seen = set()
    while waiting:
        at = waiting.pop()
        if at in seen:
            continue
        seen.add(at)
        if made.opcodes[at] == SPLIT:
            waiting += made.successors[at]
        elif made.opcodes[at] in (BYTE, MATCH):
            yield at
        else:
            raise PatternError("a separator has no captures, edges, look-around or atomic groups", 0)
