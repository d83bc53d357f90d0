"""Where a program's threads get without reading a byte, the preferred way first.

A thread is a place in the program and the atomic groups it is in. When a thread leaves an atomic group, every less
preferred thread that is still inside of that same entry of the group is dead: the group does not match in another way.
A group that was left stays on the thread, marked, for as long as others may be in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from etl.scanner.alphabet import Alphabet
from etl.scanner.program import (
    AGAIN,
    AHEAD,
    BEHIND,
    BYTE,
    ENTER,
    LEAVE,
    LOOP,
    MATCH,
    POISON,
    SPLIT,
    TAG,
    BeyondError,
    Program,
)

MOST_REACHED = 400
"""Places that one state may reach; more means that the pattern is ambiguous beyond use."""

MOST_PASSED = 20_000
"""Places passed on the way there: atomic groups that may be empty can multiply the ways without reaching anything."""

Scopes = tuple[int, ...]
"""Entries of atomic groups, outer first: twice their number, plus one once left."""


class Thread(NamedTuple):
    """``at``: an instruction, or -1 - n when pattern n has matched."""

    at: int
    scopes: Scopes = ()


class Reached(NamedTuple):
    """An instruction that reads a byte (`BYTE`), or a match, and what was met on the way to it."""

    thread: int
    """Which of the threads came here."""

    at: int
    tags: int
    """The tags noted on the way, as bits."""

    scopes: Scopes
    poisoned: bool


class _Path(NamedTuple):
    at: int
    tags: int
    scopes: Scopes
    poisoned: bool
    loops: tuple[int, ...]
    """Loops whose present turn has read nothing."""


def matched(pattern: int) -> int:
    """The place of threads whose pattern has matched."""
    return -1 - pattern


def reach(program: Program, alphabet: Alphabet, threads: Sequence[Thread], behind: int, ahead: int) -> list[Reached]:
    """``behind`` and ``ahead`` are `Alphabet.seen_behind` and `seen_ahead` of the neighbouring bytes. Raises BeyondError."""
    return _Walk(program, alphabet, behind, ahead).over(threads)


_entries = count(1 << 20)
"""Numbers of entries of atomic groups; states number theirs anew, from 0."""


class _Walk:
    def __init__(self, program: Program, alphabet: Alphabet, behind: int, ahead: int) -> None:
        self.program, self.alphabet, self.behind, self.ahead = program, alphabet, behind, ahead
        self.reached: list[Reached] = []
        self.seen: set[tuple[int, Scopes, tuple[int, ...]]] = set()
        self.left: set[int] = set()
        self.thread = 0
        self.waiting: list[_Path] = []

    def over(self, threads: Sequence[Thread]) -> list[Reached]:
        for self.thread, (at, scopes) in enumerate(threads):
            if any(scope >> 1 in self.left for scope in scopes):
                continue
            if at < 0:
                self.reached.append(Reached(self.thread, at, 0, scopes, False))
            else:
                self.follow(_Path(at, 0, scopes, False, ()))
            if self.reached and not self.reached[-1].scopes and self.is_match(self.reached[-1].at):
                break  # nothing less preferred can win any more
        return self.reached

    def is_match(self, at: int) -> bool:
        return at < 0 or self.program.does[at] == MATCH

    def follow(self, path: _Path) -> None:
        """Depth first, the preferred way first."""
        does, waiting, seen = self.program.does, self.waiting, self.seen
        waiting.append(path)
        while waiting:
            path = waiting.pop()
            key = (path.at, path.scopes, path.loops)
            if key in seen or (self.left and any(not scope & 1 and scope >> 1 in self.left for scope in path.scopes)):
                continue
            seen.add(key)
            _FOLLOW[does[path.at]](self, path)
            if len(self.reached) > MOST_REACHED:
                raise BeyondError(f"more than {MOST_REACHED} ways to go on at one place")
            if len(seen) > MOST_PASSED:
                raise BeyondError(f"more than {MOST_PASSED} places on the way to the next byte")
            if self.reached and does[path.at] == MATCH and not path.scopes:
                waiting.clear()

    def go(self, path: _Path) -> None:
        for at in reversed(self.program.then[path.at]):
            self.waiting.append(path._replace(at=at))

    def read(self, path: _Path) -> None:
        self.reached.append(Reached(self.thread, path.at, path.tags, path.scopes, path.poisoned))

    def tag(self, path: _Path) -> None:
        self.go(path._replace(tags=path.tags | 1 << self.program.operand[path.at]))

    def look_ahead(self, path: _Path) -> None:
        if self.ahead >> self.alphabet.ahead[self.program.operand[path.at]] & 1:
            self.go(path)

    def look_behind(self, path: _Path) -> None:
        if self.behind >> self.alphabet.behind[self.program.operand[path.at]] & 1:
            self.go(path)

    def enter(self, path: _Path) -> None:
        self.go(path._replace(scopes=(*path.scopes, next(_entries) * 2)))

    def leave(self, path: _Path) -> None:
        if path.poisoned:  # whether the group is left at all depends on more than the next character
            raise BeyondError("a negative look-ahead of more than one character decides")
        scopes = path.scopes
        innermost = max(n for n, scope in enumerate(scopes) if not scope & 1)
        self.left.add(scopes[innermost] >> 1)
        self.go(path._replace(scopes=(*scopes[:innermost], scopes[innermost] | 1, *scopes[innermost + 1 :])))

    def loop(self, path: _Path) -> None:
        self.go(path._replace(loops=(*path.loops, path.at)))

    def again(self, path: _Path) -> None:
        loop = self.program.operand[path.at]
        if loop in path.loops:  # the turn was empty: the loop ends
            self.go(path._replace(loops=tuple([other for other in path.loops if other != loop])))
        else:
            self.waiting.append(path._replace(at=loop))

    def poison(self, path: _Path) -> None:
        self.go(path._replace(poisoned=True))

    def match(self, path: _Path) -> None:
        if path.poisoned:
            raise BeyondError("a negative look-ahead of more than one character decides")
        self.read(path)


_FOLLOW: Mapping[int, Callable[[_Walk, _Path], None]] = {
    BYTE: _Walk.read,
    SPLIT: _Walk.go,
    TAG: _Walk.tag,
    AHEAD: _Walk.look_ahead,
    BEHIND: _Walk.look_behind,
    ENTER: _Walk.enter,
    LEAVE: _Walk.leave,
    LOOP: _Walk.loop,
    AGAIN: _Walk.again,
    MATCH: _Walk.match,
    POISON: _Walk.poison,
}
