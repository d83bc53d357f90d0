"""Bytes that a program cannot tell apart share a class: an automaton's tables have a column a class, not a byte."""

from __future__ import annotations

from collections.abc import Sequence

from etl.scanner.program import AHEAD, BEHIND, BYTE, Program

END = 256
"""What stands behind the last byte, where bytes are numbered."""


class Alphabet:
    """The classes of a program's bytes; one more class, the last, is the text's edge."""

    def __init__(self, program: Program) -> None:
        asked = {does: _masks(program, does) for does in (BYTE, AHEAD, BEHIND)}
        every = sorted(set().union(*asked.values()))
        signs: dict[tuple[int, ...], int] = {}
        self.of_byte = bytes([signs.setdefault(_signs(byte, every), len(signs)) for byte in range(256)])
        self.size = len(signs)
        self.edge = self.size
        first = [self.of_byte.index(number) for number in range(self.size)] + [END]
        self.members = {mask: sum(1 << n for n, byte in enumerate(first) if mask >> byte & 1) for mask in asked[BYTE]}
        """Mask of bytes → the classes in it, as bits."""

        self.ahead = _numbers(asked[AHEAD])
        self.behind = _numbers(asked[BEHIND])
        self.seen_ahead = [_answers(asked[AHEAD], byte) for byte in first]
        """Of each class, which of the masks in `ahead` it fulfils, as bits of their numbers."""

        self.seen_behind = [_answers(asked[BEHIND], byte) for byte in first]


def _signs(byte: int, masks: Sequence[int]) -> tuple[int, ...]:
    """In which of the masks the byte is."""
    return tuple([mask >> byte & 1 for mask in masks])


def _masks(program: Program, does: int) -> list[int]:
    return sorted({program.operand[n] for n, it in enumerate(program.does) if it == does})


def _numbers(asked: Sequence[int]) -> dict[int, int]:
    return {mask: n for n, mask in enumerate(asked)}


def _answers(asked: Sequence[int], byte: int) -> int:
    return sum(1 << n for n, mask in enumerate(asked) if mask >> byte & 1)
