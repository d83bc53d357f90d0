"""Registers of a tagged automaton: each holds a position in the text; transitions move values between them.

Tags that were set at the same position share a register. States that differ only in the assignment of registers are one
state: the moves of a transition bring the values into the registers of the state that was made first.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from etl.scanner.program import UnsupportedPatternError

UNSET, HERE = -1, -2
"""Instead of a register: the tag is not set; it is set at the current position, between the last byte and the next."""

MAX_REGISTERS = 2_000
SPARE = MAX_REGISTERS
"""The extra register that breaks cycles of moves."""

Move = tuple[int, int]
"""To a register, from a register or `HERE`."""


class Registers:
    """Allocates registers and numbers the lists of moves."""

    def __init__(self) -> None:
        self.lists: dict[tuple[Move, ...], int] = {(): 0}
        """Lists of moves, in the order of execution → their numbers."""

    def allocate(self, values: Iterable[int]) -> list[int]:
        """Registers of a new state for these values: a value stays in its register, `HERE` goes to the first free one.

        Raises UnsupportedPatternError.
        """
        values = list(values)
        taken = set(values)
        free = next(register for register in count() if register not in taken)
        if max([free, *values]) >= MAX_REGISTERS:
            raise UnsupportedPatternError(f"more than {MAX_REGISTERS} registers")
        return [free if value == HERE else value for value in values]

    def intern_moves(self, moves: Iterable[Move]) -> int:
        """The number of a list of parallel moves."""
        done = self._sequentialise(list(moves))
        return self.lists.setdefault(done, len(self.lists))

    def _sequentialise(self, moves: list[Move]) -> tuple[Move, ...]:
        """Order parallel moves so that executing them one by one has the same effect; a cycle uses the spare register."""
        noted = [move for move in moves if move[1] == HERE]
        copies = [move for move in moves if move[1] != HERE]
        done: list[Move] = []
        while copies:
            read = {source for _, source in copies}
            free = [move for move in copies if move[0] not in read]
            done += free
            copies = [move for move in copies if move not in free]
            if not free:
                target = copies[0][0]
                done.append((SPARE, target))
                copies = [(to, SPARE if source == target else source) for to, source in copies]
        return tuple(done + noted)
