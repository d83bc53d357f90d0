"""What lies ahead of a thread: tags that a match will ask for, neighbouring bytes that matter, whether a match is sure."""

from __future__ import annotations

from etl.scanner.program import AGAIN, AHEAD, BEHIND, BYTE, MATCH, SPLIT, TAG, Program


class Liveness:
    """Answers for every instruction, and for threads that have matched (see `closure.matched`)."""

    def __init__(self, program: Program) -> None:
        self._program = program
        size = len(program.does)
        self._alive = [self._at_end(n) for n in range(size)]
        self._behind = [does == BEHIND for does in program.does]
        self._ahead = [does == AHEAD for does in program.does]
        self._sure = [does == MATCH for does in program.does]
        self._tags: dict[int, tuple[int, ...]] = {}
        self._settle(size)

    def tags(self, at: int) -> tuple[int, ...]:
        """The tags that matter to a thread here, ascending."""
        if at not in self._tags:
            alive = self._alive[at] if at >= 0 else _bits(self._program.tags_of(-1 - at))
            self._tags[at] = tuple([tag for tag in range(alive.bit_length()) if alive >> tag & 1])
        return self._tags[at]

    def looks_behind(self, at: int) -> bool:
        """Whether the byte before this place matters."""
        return at >= 0 and self._behind[at]

    def looks_ahead(self, at: int) -> bool:
        """Whether the next byte is looked at before it is read."""
        return at >= 0 and self._ahead[at]

    def sure(self, at: int) -> bool:
        """Whether a thread here matches whatever follows, as in ``.*`` at a pattern's end."""
        return at < 0 or self._sure[at]

    def _at_end(self, n: int) -> int:
        return _bits(self._program.tags_of(self._program.operand[n])) if self._program.does[n] == MATCH else 0

    def _settle(self, size: int) -> None:
        """Backwards through the program until nothing changes."""
        program = self._program
        after = [(*then, program.operand[n]) if program.does[n] == AGAIN else then for n, then in enumerate(program.then)]
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
        does = self._program.does[n]
        alive, behind, ahead = self._alive[n], self._behind[n], self._ahead[n]
        for other in then:
            alive |= self._alive[other]
            if does != BYTE:
                behind, ahead = behind or self._behind[other], ahead or self._ahead[other]
        if does == TAG:
            alive &= ~(1 << self._program.operand[n])
        sure = self._sure[n] or (does in (SPLIT, TAG) and any(self._sure[other] for other in then))
        changed = (alive, behind, ahead, sure) != (self._alive[n], self._behind[n], self._ahead[n], self._sure[n])
        self._alive[n], self._behind[n], self._ahead[n], self._sure[n] = alive, behind, ahead, sure
        return changed


def _bits(numbers: list[int]) -> int:
    return sum(1 << number for number in numbers)
