"""Registers: where an automaton remembers the places that tags noted, and the moves between states that keep them.

A register holds a place; tags that were noted at the same place share it. States that differ only in which registers
hold what are the same state: moves carry the values into the registers of the state that was first.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from etl.scanner.program import BeyondError

UNSET, HERE = -1, -2
"""Instead of a register: the tag was not noted; it is noted at the place between the last byte and the next."""

MOST_REGISTERS = 2_000
SPARE = MOST_REGISTERS
"""What breaks circles of moves."""

Move = tuple[int, int]
"""To a register, from a register or `HERE`."""


class Registers:
    """Hands out registers and numbers the lists of moves."""

    def __init__(self) -> None:
        self.lists: dict[tuple[Move, ...], int] = {(): 0}
        """Lists of moves in the order in which they are to be done → their numbers."""

    def for_values(self, values: Iterable[int]) -> list[int]:
        """Where a new state keeps these values: each register where it is, `HERE` in the first that is free.

        Raises BeyondError.
        """
        values = list(values)
        taken = set(values)
        free = next(register for register in count() if register not in taken)
        if max([free, *values]) >= MOST_REGISTERS:
            raise BeyondError(f"more than {MOST_REGISTERS} places to remember")
        return [free if value == HERE else value for value in values]

    def list_of(self, moves: Iterable[Move]) -> int:
        """The number of these moves, which happen all at once."""
        done = self._in_order(list(moves))
        return self.lists.setdefault(done, len(self.lists))

    def _in_order(self, moves: list[Move]) -> tuple[Move, ...]:
        """One after the other with the same effect; a circle is broken with a spare register."""
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
