"""The epsilon closure: the instructions that a program's threads reach without reading a byte, in order of preference.

A thread is an instruction and the atomic groups it is in. When a thread leaves an atomic group, every less preferred thread
still inside the same entry of the group dies, because the group must not match in another way. A group that a thread has left
stays on the thread, marked as left, as long as other threads may be inside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from etl.scanner.automata.alphabet import Alphabet
from etl.scanner.program import (
    AHEAD,
    ATOMIC_BEGIN,
    ATOMIC_END,
    BEHIND,
    BYTE,
    LOOP_BEGIN,
    LOOP_END,
    MATCH,
    POISON,
    SPLIT,
    TAG,
    Program,
    UnsupportedPatternError,
)

MAX_ITEMS = 400
"""Items of one closure; a pattern that needs more is too ambiguous for an automaton."""

MAX_VISITED = 20_000
"""Instructions visited for one closure: atomic groups that may be empty can multiply paths that end nowhere."""

Scopes = tuple[int, ...]
"""Entries of atomic groups, outer first: twice the entry's number, plus one when the group has been left."""


class Thread(NamedTuple):
    """``at``: the instruction, or -1 - n when pattern n has matched."""

    at: int
    scopes: Scopes = ()


class ClosureItem(NamedTuple):
    """An instruction that reads a byte (`BYTE`), or a match, and what the path to it collected."""

    thread: int
    """Index of the thread that reached it."""

    at: int
    tags: int
    """The tags set on the path, as bits."""

    scopes: Scopes
    poisoned: bool


class _Path(NamedTuple):
    at: int
    tags: int
    scopes: Scopes
    poisoned: bool
    loops: tuple[int, ...]
    """Loops whose current iteration has read nothing."""


def matched(pattern: int) -> int:
    """``Thread.at`` of threads whose pattern has matched."""
    return -1 - pattern


def epsilon_closure(
    program: Program, alphabet: Alphabet, threads: Sequence[Thread], behind: int, ahead: int
) -> list[ClosureItem]:
    """Return the items that the threads reach without reading a byte. Raises UnsupportedPatternError.

    ``behind`` and ``ahead`` are `Alphabet.satisfied_behind` and `satisfied_ahead` of the neighbouring bytes.
    """
    return _ClosureWalk(program, alphabet, behind, ahead).over(threads)


_entries = count(1 << 20)
"""Numbers of entries of atomic groups; `scopes.normalise` renumbers those of a state from 0."""


class _ClosureWalk:
    def __init__(self, program: Program, alphabet: Alphabet, behind: int, ahead: int) -> None:
        self.program, self.alphabet, self.behind, self.ahead = program, alphabet, behind, ahead
        self.items: list[ClosureItem] = []
        self.visited: set[tuple[int, Scopes, tuple[int, ...]]] = set()
        self.left: set[int] = set()
        self.thread = 0
        self.waiting: list[_Path] = []

    def over(self, threads: Sequence[Thread]) -> list[ClosureItem]:
        for self.thread, (at, scopes) in enumerate(threads):
            if any(scope >> 1 in self.left for scope in scopes):
                continue
            if at < 0:
                self.items.append(ClosureItem(self.thread, at, 0, scopes, False))
            else:
                self.follow(_Path(at, 0, scopes, False, ()))
            if self.items and not self.items[-1].scopes and self.is_match(self.items[-1].at):
                break  # no less preferred thread can win
        return self.items

    def is_match(self, at: int) -> bool:
        return at < 0 or self.program.opcodes[at] == MATCH

    def follow(self, path: _Path) -> None:
        """Depth-first search, the preferred successor first."""
        does, waiting, visited = self.program.opcodes, self.waiting, self.visited
        waiting.append(path)
        while waiting:
            path = waiting.pop()
            key = (path.at, path.scopes, path.loops)
            if key in visited or (self.left and any(not scope & 1 and scope >> 1 in self.left for scope in path.scopes)):
                continue
            visited.add(key)
            _FOLLOW[does[path.at]](self, path)
            if len(self.items) > MAX_ITEMS:
                raise UnsupportedPatternError(f"more than {MAX_ITEMS} items in a closure")
            if len(visited) > MAX_VISITED:
                raise UnsupportedPatternError(f"more than {MAX_VISITED} instructions visited for a closure")
            if self.items and does[path.at] == MATCH and not path.scopes:
                waiting.clear()

    def go(self, path: _Path) -> None:
        at, tags, scopes, poisoned, loops = path  # `_replace` takes four times as long
        for after in self.program.successors[at][::-1]:
            self.waiting.append(_Path(after, tags, scopes, poisoned, loops))

    def read(self, path: _Path) -> None:
        self.items.append(ClosureItem(self.thread, path.at, path.tags, path.scopes, path.poisoned))

    def tag(self, path: _Path) -> None:
        at, tags, scopes, poisoned, loops = path
        self.go(_Path(at, tags | 1 << self.program.operands[at], scopes, poisoned, loops))

    def look_ahead(self, path: _Path) -> None:
        if self.ahead >> self.alphabet.ahead[self.program.operands[path.at]] & 1:
            self.go(path)

    def look_behind(self, path: _Path) -> None:
        if self.behind >> self.alphabet.behind[self.program.operands[path.at]] & 1:
            self.go(path)

    def enter(self, path: _Path) -> None:
        self.go(path._replace(scopes=(*path.scopes, next(_entries) * 2)))

    def leave(self, path: _Path) -> None:
        if path.poisoned:  # more than the next character decides whether the group ends here
            raise UnsupportedPatternError("a negative look-ahead of more than one character decides")
        scopes = path.scopes
        innermost = max(n for n, scope in enumerate(scopes) if not scope & 1)
        self.left.add(scopes[innermost] >> 1)
        self.go(path._replace(scopes=(*scopes[:innermost], scopes[innermost] | 1, *scopes[innermost + 1 :])))

    def loop(self, path: _Path) -> None:
        self.go(path._replace(loops=(*path.loops, path.at)))

    def again(self, path: _Path) -> None:
        loop = self.program.operands[path.at]
        if loop in path.loops:  # the iteration was empty: the loop ends
            self.go(path._replace(loops=tuple([other for other in path.loops if other != loop])))
        else:
            self.waiting.append(path._replace(at=loop))

    def poison(self, path: _Path) -> None:
        self.go(path._replace(poisoned=True))

    def match(self, path: _Path) -> None:
        if path.poisoned:
            raise UnsupportedPatternError("a negative look-ahead of more than one character decides")
        self.read(path)


_FOLLOW: Mapping[int, Callable[[_ClosureWalk, _Path], None]] = {
    BYTE: _ClosureWalk.read,
    SPLIT: _ClosureWalk.go,
    TAG: _ClosureWalk.tag,
    AHEAD: _ClosureWalk.look_ahead,
    BEHIND: _ClosureWalk.look_behind,
    ATOMIC_BEGIN: _ClosureWalk.enter,
    ATOMIC_END: _ClosureWalk.leave,
    LOOP_BEGIN: _ClosureWalk.loop,
    LOOP_END: _ClosureWalk.again,
    MATCH: _ClosureWalk.match,
    POISON: _ClosureWalk.poison,
}
