"""Byte classes: bytes that no instruction of a program distinguishes share a class, which is a column of the tables."""

from __future__ import annotations

from collections.abc import Sequence

from etl.scanner.program import AHEAD, BEHIND, BYTE, Program

END = 256
"""The number of the text's edge, after those of the bytes."""


class Alphabet:
    """The classes of a program's bytes; the last class is the text's edge."""

    def __init__(self, program: Program) -> None:
        masks = {does: _masks(program, does) for does in (BYTE, AHEAD, BEHIND)}
        every = sorted(set().union(*masks.values()))
        classes: dict[tuple[int, ...], int] = {}
        self.of_byte = bytes([classes.setdefault(_memberships(byte, every), len(classes)) for byte in range(256)])
        self.size = len(classes)
        self.edge = self.size
        first = [self.of_byte.index(number) for number in range(self.size)] + [END]
        self.members = {mask: sum(1 << n for n, byte in enumerate(first) if mask >> byte & 1) for mask in masks[BYTE]}
        """Mask of bytes → the classes in it, as bits."""

        self.ahead = _numbers(masks[AHEAD])
        self.behind = _numbers(masks[BEHIND])
        self.satisfied_ahead = [_masks_with(masks[AHEAD], byte) for byte in first]
        """For each class, the masks of `ahead` that contain it, as bits of their numbers."""

        self.satisfied_behind = [_masks_with(masks[BEHIND], byte) for byte in first]


def _memberships(byte: int, masks: Sequence[int]) -> tuple[int, ...]:
    """For each mask, whether it contains the byte."""
    return tuple([mask >> byte & 1 for mask in masks])


def _masks(program: Program, does: int) -> list[int]:
    return sorted({program.operands[n] for n, it in enumerate(program.opcodes) if it == does})


def _numbers(masks: Sequence[int]) -> dict[int, int]:
    return {mask: n for n, mask in enumerate(masks)}


def _masks_with(masks: Sequence[int], byte: int) -> int:
    return sum(1 << n for n, mask in enumerate(masks) if mask >> byte & 1)
