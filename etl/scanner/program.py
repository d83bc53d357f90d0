"""Compiles a tree to a program: a nondeterministic automaton (NFA) over bytes with priorities and tags.

If an instruction has several successors, the first is preferred, as Perl, Python and Onigmo try alternatives in order and
another iteration of a greedy loop before its end. Source: Thompson, "Regular expression search algorithm" (1968); tags as in
Laurikari, "NFAs with tagged transitions" (2000).

Assertions on one neighbouring byte (``^ $ \\b``, look-around of one character) are instructions. A longer negative look-ahead
becomes a path that is poisoned if the next byte can begin the forbidden text: a text that takes such a path goes to another
engine. `etl.scanner.tree_analysis.unsupported_construct` names the constructs that have no program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Many
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

from etl.scanner import masks
from etl.scanner.tree import (
    Anchor,
    Atomic,
    Capture,
    Chars,
    Choice,
    Group,
    LookAround,
    Node,
    Repeat,
    Sequence,
    captures,
    rename_captures,
)
from etl.scanner.tree_analysis import ANCHORS, first_bytes, is_always_found, one_byte
from etl.scanner.utf8 import Branches, branches, has_all_wide

BYTE, SPLIT, TAG, AHEAD, BEHIND, ATOMIC_BEGIN, ATOMIC_END, LOOP_BEGIN, LOOP_END, MATCH, POISON = range(11)
"""Opcodes: read a byte of a mask; continue at several successors; set a tag; assert the next or the last byte; begin and end
an atomic group; begin and end an iteration of a loop whose iterations may be empty; accept; poison."""

MAX_INSTRUCTIONS = 60_000
"""Of one program: nested counted repeats multiply, and larger patterns go to other engines."""


class UnsupportedPatternError(Exception):
    """A pattern, or its match of one text, exceeds the limits of automata; the message gives the reason."""


@dataclass
class Program:
    """Instruction n has the opcode ``opcodes[n]``, an operand and successors, the first preferred."""

    opcodes: list[int] = field(default_factory=list)
    operands: list[Any] = field(default_factory=list)
    successors: list[tuple[int, ...]] = field(default_factory=list)
    start: int = 0
    owner: list[int] = field(default_factory=list)
    """For each capture, the number of its pattern; capture n has the tags 2n (begin) and 2n + 1 (end)."""

    names: list[str] = field(default_factory=list)
    """The name of each capture."""

    def add(self, does: int, operand: Any = None, then: tuple[int, ...] = ()) -> int:
        """Append an instruction; returns its number. Raises UnsupportedPatternError."""
        if len(self.opcodes) >= MAX_INSTRUCTIONS:
            raise UnsupportedPatternError(f"it has more than {MAX_INSTRUCTIONS} instructions")
        self.opcodes.append(does)
        self.operands.append(operand)
        self.successors.append(then)
        return len(self.opcodes) - 1

    def tags_of(self, pattern: int) -> list[int]:
        """The tags of a pattern, in order."""
        return [tag for n, owner in enumerate(self.owner) if owner == pattern for tag in (2 * n, 2 * n + 1)]


MatchStart = Literal["beginning", "anywhere"]
"""Where a match may begin: at the text's first byte (anchored), or at every character."""


def compile_program(trees: Many[Node], where: MatchStart) -> Program:
    """Compile patterns, which are tried in order. Raises UnsupportedPatternError."""
    program = Program()
    roots = []
    for number, tree in enumerate(trees):
        first = len(program.names)
        program.names += [capture.field for capture in captures(tree)]
        program.owner += [number] * (len(program.names) - first)
        entry = _Writer(program).write(rename_captures(tree, map(str, count(first))), program.add(MATCH, number))
        roots.append(entry if where == "beginning" else _add_search_loop(program, entry))
    program.start = roots[0] if len(roots) == 1 else program.add(SPLIT, None, tuple(roots))
    return program


def _add_search_loop(program: Program, entry: int) -> int:
    """The unanchored prefix of a pattern: try it here, else read a byte and try again."""
    entry = _at_character_start(program, entry)
    again = program.add(SPLIT)
    program.successors[again] = (entry, program.add(BYTE, masks.BYTES, (again,)))
    return again


def _at_character_start(program: Program, then: int) -> int:
    """``then`` after a loop over single bytes: it must not begin inside a character.

    The assertion is left out if ``then`` cannot match inside a character, or always matches, so that its first position wins.
    """
    if _is_sure(program, then) or not _goes_on_inside(program, then):
        return then
    return program.add(AHEAD, masks.ANY & ~masks.CONTINUATIONS, (then,))


def _is_sure(program: Program, then: int) -> bool:
    """Whether the instruction leads to a match whatever follows."""
    return any(program.opcodes[n] == MATCH for n in _reachable(program, then, lambda n: program.opcodes[n] in (SPLIT, TAG)))


def _goes_on_inside(program: Program, then: int) -> bool:
    """Whether the instruction can proceed inside a character: read a byte, match, or end an atomic group."""
    sides = {AHEAD: masks.CONTINUATIONS, BEHIND: masks.NON_ASCII, BYTE: 0, MATCH: 0}

    def passes(n: int) -> bool:
        side = sides.get(program.opcodes[n])
        return side is None or bool(side and program.operands[n] & side)

    return any(
        program.opcodes[n] in (MATCH, ATOMIC_END)
        or (program.opcodes[n] == BYTE and program.operands[n] & masks.CONTINUATIONS)
        or (program.opcodes[n] in (SPLIT, LOOP_BEGIN) and not program.successors[n])  # a loop around this, not yet written
        for n in _reachable(program, then, passes)
    )


def _reachable(program: Program, at: int, passes: Callable[[int], bool]) -> Iterator[int]:
    """The instructions reached without reading a byte; a path ends at an instruction for which ``passes`` is false."""
    visited, waiting = set(), [at]
    while waiting:
        at = waiting.pop()
        if at not in visited:
            visited.add(at)
            yield at
            if passes(at):
                waiting += (
                    program.successors[at] if program.opcodes[at] != LOOP_END else (*program.successors[at], program.operands[at])
                )


class _Writer:
    """Compiles a tree from its end: each method takes the instruction that follows, and returns the first one of its node."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def write(self, node: Node, then: int) -> int:
        return _WRITE[type(node)](self, node, then)

    def chars(self, node: Chars, then: int) -> int:
        ways = [self.program.add(BYTE, node.of.ascii, (then,))] if node.of.ascii else []
        ways += self._wide(branches(node.of), then, {})
        return ways[0] if len(ways) == 1 else self.program.add(SPLIT, None, tuple(ways))

    def _wide(self, several: Branches, then: int, written: dict[Branches, int]) -> list[int]:
        """A character beyond ASCII, branch by branch; equal continuations are shared."""
        ways = []
        for mask, rest in several:
            if rest not in written:
                inner = self._wide(rest, then, written)
                written[rest] = inner[0] if len(inner) == 1 else self.program.add(SPLIT, None, tuple(inner)) if inner else then
            ways.append(self.program.add(BYTE, mask, (written[rest],)))
        return ways

    def sequence(self, node: Sequence, then: int) -> int:
        for part in reversed(node.parts):
            then = self.write(part, then)
        return then

    def choice(self, node: Choice, then: int) -> int:
        return self.program.add(SPLIT, None, tuple([self.write(part, then) for part in node.parts]))

    def capture(self, node: Capture, then: int) -> int:
        number = int(node.field)
        inside = self.write(node.part, self.program.add(TAG, 2 * number + 1, (then,)))
        return self.program.add(TAG, 2 * number, (inside,))

    def group(self, node: Group, then: int) -> int:
        return self.write(node.part, then)

    def atomic(self, node: Atomic, then: int) -> int:
        return self.program.add(ATOMIC_BEGIN, None, (self.write(node.part, self.program.add(ATOMIC_END, None, (then,))),))

    def repeat(self, node: Repeat, then: int) -> int:
        if node.kind == "possessive":
            return self.write(Atomic(Repeat(node.part, node.minimum, node.maximum)), then)
        entry = self._loop(node, then) if node.maximum is None else self._optional(node, then)
        for _ in range(node.minimum):
            entry = self.write(node.part, entry)
        return entry

    def _optional(self, node: Repeat, then: int) -> int:
        entry = then
        for _ in range((node.maximum or 0) - node.minimum):
            entry = self._either(node, self.program.add(SPLIT), self.write(node.part, entry), then)
        return entry

    def _loop(self, node: Repeat, then: int) -> int:
        if isinstance(node.part, Chars) and has_all_wide(node.part.of):
            loop = self.program.add(SPLIT)  # byte by byte
            turn = self.program.add(BYTE, node.part.of.ascii | masks.NON_ASCII, (loop,))
            return self._either(node, loop, turn, _at_character_start(self.program, then))
        if first_bytes(node.part)[1]:
            loop = self.program.add(LOOP_BEGIN)
            return self._either(node, loop, self.write(node.part, self.program.add(LOOP_END, loop, (then,))), then)
        loop = self.program.add(SPLIT)
        return self._either(node, loop, self.write(node.part, loop), then)

    def _either(self, node: Repeat, at: int, turn: int, end: int) -> int:
        self.program.successors[at] = (end, turn) if node.kind == "lazy" else (turn, end)
        return at

    def anchor(self, node: Anchor, then: int) -> int:
        ways = [self._between(behind, ahead, then) for behind, ahead in ANCHORS[node.kind]]
        return ways[0] if len(ways) == 1 else self.program.add(SPLIT, None, tuple(ways))

    def _between(self, behind: int, ahead: int, then: int) -> int:
        if ahead != masks.ANY:
            then = self.program.add(AHEAD, ahead, (then,))
        return then if behind == masks.ANY else self.program.add(BEHIND, behind, (then,))

    def look_around(self, node: LookAround, then: int) -> int:
        if is_always_found(node):
            return self.program.add(SPLIT) if node.negative else then
        bytes_ = one_byte(node.part, ahead=node.ahead)
        if bytes_ is not None:
            return self.program.add(AHEAD if node.ahead else BEHIND, masks.ANY & ~bytes_ if node.negative else bytes_, (then,))
        first, _ = first_bytes(node.part)
        poisoned = self.program.add(AHEAD, first, (self.program.add(POISON, None, (then,)),))
        return self.program.add(SPLIT, None, (self.program.add(AHEAD, masks.ANY & ~first, (then,)), poisoned))


_WRITE: Mapping[type, Callable[[_Writer, Any, int], int]] = {
    Chars: _Writer.chars,
    Sequence: _Writer.sequence,
    Choice: _Writer.choice,
    Capture: _Writer.capture,
    Group: _Writer.group,
    Atomic: _Writer.atomic,
    Repeat: _Writer.repeat,
    Anchor: _Writer.anchor,
    LookAround: _Writer.look_around,
}
