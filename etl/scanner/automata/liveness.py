"""Liveness analysis of a program: live tags, assertions on neighbouring bytes, certain matches."""

from __future__ import annotations

from etl.scanner.program import AHEAD, BEHIND, BYTE, LOOP_END, MATCH, SPLIT, TAG, Program


class Liveness:
    """The analysis for every instruction, and for threads that have matched (see `closure.matched`)."""

    def __init__(self, program: Program) -> None:
        self._program = program
        size = len(program.opcodes)
        self._alive = [self._at_end(n) for n in range(size)]
        self._behind = [does == BEHIND for does in program.opcodes]
        self._ahead = [does == AHEAD for does in program.opcodes]
        self._always = [does == MATCH for does in program.opcodes]
        self._tags: dict[int, tuple[int, ...]] = {}
        self._propagate(size)

    def tags(self, at: int) -> tuple[int, ...]:
        """The live tags at an instruction, ascending."""
        if at not in self._tags:
            alive = self._alive[at] if at >= 0 else _bits(self._program.tags_of(-1 - at))
            self._tags[at] = tuple([tag for tag in range(alive.bit_length()) if alive >> tag & 1])
        return self._tags[at]

    def looks_behind(self, at: int) -> bool:
        """Whether an assertion on the last byte can be reached before the next byte is read."""
        return at >= 0 and self._behind[at]

    def looks_ahead(self, at: int) -> bool:
        """Whether an assertion on the next byte can be reached before it is read."""
        return at >= 0 and self._ahead[at]

    def always_matches(self, at: int) -> bool:
        """Whether a thread at this instruction matches whatever follows, as with ``.*`` at a pattern's end."""
        return at < 0 or self._always[at]

    def _at_end(self, n: int) -> int:
        return _bits(self._program.tags_of(self._program.operands[n])) if self._program.opcodes[n] == MATCH else 0

    def _propagate(self, size: int) -> None:
        """Propagate backwards through the program to a fixed point."""
        program = self._program
        after = [
            (*then, program.operands[n]) if program.opcodes[n] == LOOP_END else then for n, then in enumerate(program.successors)
        ]
        before: list[list[int]] = [[] for _ in range(size)]
        for n, then in enumerate(after):
            for other in then:
                before[other].append(n)
        waiting = set(range(size))
        while waiting:
            n = waiting.pop()
            if self._update(n, after[n]):
                waiting.update(before[n])

    def _update(self, n: int, then: tuple[int, ...]) -> bool:
        does = self._program.opcodes[n]
        alive, behind, ahead = self._alive[n], self._behind[n], self._ahead[n]
        for other in then:
            alive |= self._alive[other]
            if does != BYTE:
                behind, ahead = behind or self._behind[other], ahead or self._ahead[other]
        if does == TAG:
            alive &= ~(1 << self._program.operands[n])
        sure = self._always[n] or (does in (SPLIT, TAG) and any(self._always[other] for other in then))
        changed = (alive, behind, ahead, sure) != (self._alive[n], self._behind[n], self._ahead[n], self._always[n])
        self._alive[n], self._behind[n], self._ahead[n], self._always[n] = alive, behind, ahead, sure
        return changed


def _bits(numbers: list[int]) -> int:
    return sum(1 << number for number in numbers)
