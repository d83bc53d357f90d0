"""A tree → a program of small instructions over bytes: a nondeterministic automaton with priorities.

Where an instruction has several successors the first is preferred, as Perl, Python and Onigmo try alternatives in
order and a greedy loop's turn before its end. Source: Thompson, "Regular expression search algorithm" (1968); tags as
in Laurikari, "NFAs with tagged transitions" (2000).

Conditions on one neighbouring byte (``^ $ \\b``, look-around of one character) are instructions of their own. A longer
negative look-ahead becomes a path that is poisoned once the byte after it may begin what must not follow: a text that
takes such a path is left to another engine. `etl.scanner.demands.obstacle` says what no program can do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Many
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

from etl.scanner import masks
from etl.scanner.demands import EDGES, asks_nothing, first_bytes, one_byte
from etl.scanner.tree import (
    Atomic,
    Capture,
    Chars,
    Choice,
    Edge,
    Group,
    Look,
    Node,
    Repeat,
    Sequence,
    captures,
    renamed,
)
from etl.scanner.utf8 import Branches, branches, has_all_wide

BYTE, SPLIT, TAG, AHEAD, BEHIND, ENTER, LEAVE, LOOP, AGAIN, MATCH, POISON = range(11)
"""What an instruction does: read a byte of a mask; go on in several ways; note the place; ask for the next or the last
byte; begin and end an atomic group; begin a turn of a loop whose turns may be empty, and end it; accept; poison."""

MOST_INSTRUCTIONS = 60_000
"""Counted repeats multiply; beyond, a pattern is left to other engines."""


class BeyondError(Exception):
    """The pattern, or this text, is beyond what the scanner does; the message says why."""


@dataclass
class Program:
    """Instruction n does ``does[n]`` with ``operand[n]`` and goes on at one of ``then[n]``, the first preferred."""

    does: list[int] = field(default_factory=list)
    operand: list[Any] = field(default_factory=list)
    then: list[tuple[int, ...]] = field(default_factory=list)
    start: int = 0
    owner: list[int] = field(default_factory=list)
    """Of each capture, the number of its pattern; capture n has the tags 2n (begin) and 2n + 1 (end)."""

    names: list[str] = field(default_factory=list)
    """Of each capture, its name."""

    def add(self, does: int, operand: Any = None, then: tuple[int, ...] = ()) -> int:
        """A new instruction's number. Raises BeyondError."""
        if len(self.does) >= MOST_INSTRUCTIONS:
            raise BeyondError(f"it has more than {MOST_INSTRUCTIONS} instructions")
        self.does.append(does)
        self.operand.append(operand)
        self.then.append(then)
        return len(self.does) - 1

    def tags_of(self, pattern: int) -> list[int]:
        """The tags of a pattern, in order."""
        return [tag for n, owner in enumerate(self.owner) if owner == pattern for tag in (2 * n, 2 * n + 1)]


Where = Literal["beginning", "anywhere"]
"""Where a match may begin: at the text's first byte, or at every character."""


def program(trees: Many[Node], where: Where) -> Program:
    """Patterns tried in order. Raises BeyondError."""
    made = Program()
    roots = []
    for number, tree in enumerate(trees):
        first = len(made.names)
        made.names += [capture.field for capture in captures(tree)]
        made.owner += [number] * (len(made.names) - first)
        entry = _Writer(made).write(renamed(tree, map(str, count(first))), made.add(MATCH, number))
        roots.append(entry if where == "beginning" else _searching(made, entry))
    made.start = roots[0] if len(roots) == 1 else made.add(SPLIT, None, tuple(roots))
    return made


def _searching(made: Program, entry: int) -> int:
    """In front of a pattern: try it here, else read a byte and try again."""
    entry = _behind_bytes(made, entry)
    again = made.add(SPLIT)
    made.then[again] = (entry, made.add(BYTE, masks.BYTES, (again,)))
    return again


def _behind_bytes(made: Program, then: int) -> int:
    """``then`` behind bytes that are read one by one: not inside a character.

    Most parts begin with a byte that no character has inside, or cannot fail, so that no place inside is preferred.
    """
    if _is_sure(made, then) or not _goes_on_inside(made, then):
        return then
    return made.add(AHEAD, masks.ANY & ~masks.TAILS, (then,))


def _is_sure(made: Program, then: int) -> bool:
    """Whether it matches whatever follows."""
    return any(made.does[n] == MATCH for n in _passed(made, then, lambda n: made.does[n] in (SPLIT, TAG)))


def _goes_on_inside(made: Program, then: int) -> bool:
    """Whether anything can come of it inside a character: a byte read, a match, the end of an atomic group."""
    sides = {AHEAD: masks.TAILS, BEHIND: masks.HIGH, BYTE: 0, MATCH: 0}

    def passes(n: int) -> bool:
        side = sides.get(made.does[n])
        return side is None or bool(side and made.operand[n] & side)

    return any(
        made.does[n] in (MATCH, LEAVE)
        or (made.does[n] == BYTE and made.operand[n] & masks.TAILS)
        or (made.does[n] in (SPLIT, LOOP) and not made.then[n])  # a loop around this, not yet written
        for n in _passed(made, then, passes)
    )


def _passed(made: Program, at: int, passes: Callable[[int], bool]) -> Iterator[int]:
    """The instructions that are met without reading a byte; those that do not pass are the last on their way."""
    seen, waiting = set(), [at]
    while waiting:
        at = waiting.pop()
        if at not in seen:
            seen.add(at)
            yield at
            if passes(at):
                waiting += made.then[at] if made.does[at] != AGAIN else (*made.then[at], made.operand[at])


class _Writer:
    """Writes a tree backwards: each part is given the instruction that follows it, and answers its own first one."""

    def __init__(self, made: Program) -> None:
        self.made = made

    def write(self, node: Node, then: int) -> int:
        return _WRITE[type(node)](self, node, then)

    def chars(self, node: Chars, then: int) -> int:
        ways = [self.made.add(BYTE, node.of.ascii, (then,))] if node.of.ascii else []
        ways += self._wide(branches(node.of), then, {})
        return ways[0] if len(ways) == 1 else self.made.add(SPLIT, None, tuple(ways))

    def _wide(self, several: Branches, then: int, written: dict[Branches, int]) -> list[int]:
        """A character beyond ASCII, branch by branch; continuations that are alike are written once."""
        ways = []
        for mask, rest in several:
            if rest not in written:
                inner = self._wide(rest, then, written)
                written[rest] = inner[0] if len(inner) == 1 else self.made.add(SPLIT, None, tuple(inner)) if inner else then
            ways.append(self.made.add(BYTE, mask, (written[rest],)))
        return ways

    def sequence(self, node: Sequence, then: int) -> int:
        for part in reversed(node.parts):
            then = self.write(part, then)
        return then

    def choice(self, node: Choice, then: int) -> int:
        return self.made.add(SPLIT, None, tuple([self.write(part, then) for part in node.parts]))

    def capture(self, node: Capture, then: int) -> int:
        number = int(node.field)
        inside = self.write(node.part, self.made.add(TAG, 2 * number + 1, (then,)))
        return self.made.add(TAG, 2 * number, (inside,))

    def group(self, node: Group, then: int) -> int:
        return self.write(node.part, then)

    def atomic(self, node: Atomic, then: int) -> int:
        return self.made.add(ENTER, None, (self.write(node.part, self.made.add(LEAVE, None, (then,))),))

    def repeat(self, node: Repeat, then: int) -> int:
        if node.kind == "possessive":
            return self.write(Atomic(Repeat(node.part, node.least, node.most)), then)
        entry = self._loop(node, then) if node.most is None else self._optional(node, then)
        for _ in range(node.least):
            entry = self.write(node.part, entry)
        return entry

    def _optional(self, node: Repeat, then: int) -> int:
        entry = then
        for _ in range((node.most or 0) - node.least):
            entry = self._either(node, self.made.add(SPLIT), self.write(node.part, entry), then)
        return entry

    def _loop(self, node: Repeat, then: int) -> int:
        if isinstance(node.part, Chars) and has_all_wide(node.part.of):
            loop = self.made.add(SPLIT)  # byte by byte
            turn = self.made.add(BYTE, node.part.of.ascii | masks.HIGH, (loop,))
            return self._either(node, loop, turn, _behind_bytes(self.made, then))
        if first_bytes(node.part)[1]:
            loop = self.made.add(LOOP)
            return self._either(node, loop, self.write(node.part, self.made.add(AGAIN, loop, (then,))), then)
        loop = self.made.add(SPLIT)
        return self._either(node, loop, self.write(node.part, loop), then)

    def _either(self, node: Repeat, at: int, turn: int, end: int) -> int:
        self.made.then[at] = (end, turn) if node.kind == "lazy" else (turn, end)
        return at

    def edge(self, node: Edge, then: int) -> int:
        ways = [self._between(behind, ahead, then) for behind, ahead in EDGES[node.kind]]
        return ways[0] if len(ways) == 1 else self.made.add(SPLIT, None, tuple(ways))

    def _between(self, behind: int, ahead: int, then: int) -> int:
        if ahead != masks.ANY:
            then = self.made.add(AHEAD, ahead, (then,))
        return then if behind == masks.ANY else self.made.add(BEHIND, behind, (then,))

    def look(self, node: Look, then: int) -> int:
        if asks_nothing(node):
            return self.made.add(SPLIT) if node.negative else then
        wanted = one_byte(node.part, ahead=node.ahead)
        if wanted is not None:
            return self.made.add(AHEAD if node.ahead else BEHIND, masks.ANY & ~wanted if node.negative else wanted, (then,))
        first, _ = first_bytes(node.part)
        poisoned = self.made.add(AHEAD, first, (self.made.add(POISON, None, (then,)),))
        return self.made.add(SPLIT, None, (self.made.add(AHEAD, masks.ANY & ~first, (then,)), poisoned))


_WRITE: Mapping[type, Callable[[_Writer, Any, int], int]] = {
    Chars: _Writer.chars,
    Sequence: _Writer.sequence,
    Choice: _Writer.choice,
    Capture: _Writer.capture,
    Group: _Writer.group,
    Atomic: _Writer.atomic,
    Repeat: _Writer.repeat,
    Edge: _Writer.edge,
    Look: _Writer.look,
}
