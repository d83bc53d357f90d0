"""Parses Java regular expressions to the scanner's trees, with Java's semantics.

Source: java.util.regex.Pattern (Java 17). The dot excludes five line ends, ``$`` also matches before a last line end, ``(?i)``
folds the case of ASCII only, each iteration of a possessive loop is atomic. ``\\b`` is ASCII only, as in Java from version 19
on. The flags ``i`` and ``s`` are supported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from etl.expressions.patterns.java_characters import LINE_ENDS, CharacterReader, NoFormError
from etl.scanner.char_class import ANY, one_of
from etl.scanner.pattern_error import PatternError
from etl.scanner.tree import Anchor, Atomic, Chars, Choice, Group, LookAround, Node, Repeat, sequence
from etl.scanner.tree_analysis import first_bytes

_CR, _LF = Chars(one_of("\r")), Chars(one_of("\n"))
_LAST_LINE_END = Choice(
    (
        sequence([_CR, _LF]),
        sequence([LookAround(_CR, ahead=False, negative=True), _LF]),
        Chars(LINE_ENDS.without(one_of("\n"))),
    )
)
LAST = LookAround(sequence([Repeat(_LAST_LINE_END, 0, 1), Anchor("\\z")]), ahead=True, negative=False)
"""``$``: at the end, or before a line end at the end."""

MAX_DEPTH = 100
"""Nested groups; deeper ones are left to Java, before Python's stack overflows."""

_ANCHORS: Mapping[str, Node] = {"A": Anchor("\\A"), "z": Anchor("\\z"), "b": Anchor("\\b"), "B": Anchor("\\B"), "Z": LAST}
_SIGNS: Mapping[str, Node] = {"^": Anchor("\\A"), "$": LAST}
_LOOK_AROUNDS = {"(?=": (True, False), "(?!": (True, True), "(?<=": (False, False), "(?<!": (False, True)}
_QUOTED = re.compile(r"\\Q(?P<text>.*?)(?:\\E|\Z)|\\.", re.DOTALL)
_NAMED = re.compile(r"\(\?<(?P<name>[a-zA-Z][a-zA-Z0-9]*)>")
_FLAGS = re.compile(r"\(\?(?P<on>[a-zA-Z]*)(?:-(?P<off>[a-zA-Z]*))?(?P<end>[:)])")
_COUNT = re.compile(r"(?P<sign>[*+?])|\{(?P<minimum>\d+)(?P<comma>,(?P<maximum>\d*))?\}")
_COUNTS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_KINDS: Mapping[str, Literal["greedy", "lazy", "possessive"]] = {"?": "lazy", "+": "possessive"}


@dataclass(frozen=True, slots=True)
class Regex:
    """A pattern's tree, whose capturing groups are numbered `Group` nodes, and their number."""

    tree: Node
    groups: int


@lru_cache(maxsize=256)
def parse(pattern: str) -> Regex:
    """Raises PatternError for an invalid pattern, NoFormError for one that only Java supports."""
    reader = _Reader(_QUOTED.sub(_unquote, pattern))
    tree = reader.choice(0)
    if reader.at < len(reader.text):
        raise PatternError(f"the ')' at {reader.at} closes nothing", reader.at)
    return Regex(tree, reader.groups)


def _unquote(found: re.Match[str]) -> str:
    return found[0] if found["text"] is None else re.sub(r"(?a:[^\w\s])", r"\\\g<0>", found["text"])


class _Reader(CharacterReader):
    """A recursive-descent parser; ``at`` is the position of the next character."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.dot_all = False
        self.groups = 0
        self.names: set[str] = set()

    def choice(self, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise NoFormError(f"more than {MAX_DEPTH} nested groups")
        flags = self.fold, self.dot_all
        branches = [self._branch(depth)]
        while self.take("|"):
            branches.append(self._branch(depth))
        self.fold, self.dot_all = flags
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def _branch(self, depth: int) -> Node:
        parts: list[Node] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            if not self._flags():
                parts.append(self._parse_repeat(self._atom(depth)))
        return sequence(parts)

    def _atom(self, depth: int) -> Node:
        char = self.text[self.at]
        if char == "(":
            return self._group(depth)
        if char == "[":
            return Chars(self.char_class())
        if char == "\\":
            return self._escape()
        if char in "*+?":
            raise PatternError(f"the {char!r} at {self.at} has nothing to repeat", self.at)
        if char == "{":
            raise self._count_of_nothing()
        self.at += 1
        if char == ".":
            return Chars(ANY if self.dot_all else LINE_ENDS.inverted())
        return _SIGNS.get(char) or self._literal(char)

    def _count_of_nothing(self) -> Exception:
        if _COUNT.match(self.text, self.at):
            return NoFormError("a count of nothing")
        return PatternError(f"the '{{' at {self.at} begins no count", self.at)

    def _literal(self, char: str) -> Node:
        return Chars(self.fold_case(one_of(char)))

    def _escape(self) -> Node:
        char = self.text[self.at + 1 : self.at + 2]
        if char in _ANCHORS and self.text[self.at + 2 : self.at + 3] != "{":
            self.at += 2
            return _ANCHORS[char]
        if char.isdigit() or char == "k":
            raise NoFormError("a back-reference or an octal number")
        found = self.escape()
        return self._literal(found) if isinstance(found, str) else Chars(found)

    # ── Groups ────────────────────────────────────────────────────────────────────────────────────

    def _flags(self) -> bool:
        """Parse flags that apply up to the end of the group."""
        found = _FLAGS.match(self.text, self.at)
        if found is None or found["end"] == ":":
            return False
        self._set(found)
        return True

    def _set(self, found: re.Match[str]) -> None:
        on, off = found["on"], found["off"] or ""
        if set(on + off) - set("is"):
            raise NoFormError(f"the flags {found[0]!r}")
        self.at = found.end()
        self.fold = ("i" in on or self.fold) and "i" not in off
        self.dot_all = ("s" in on or self.dot_all) and "s" not in off

    def _group(self, depth: int) -> Node:
        start = self.at
        for opening, (ahead, negative) in _LOOK_AROUNDS.items():
            if self.take(opening):
                return LookAround(self._inside(start, depth), ahead, negative)
        if self.take("(?>"):
            return Atomic(self._inside(start, depth))
        if found := _FLAGS.match(self.text, start):
            return self._parse_flagged(found, depth)
        if found := _NAMED.match(self.text, start):
            self._name(found)
        elif self.text.startswith("(?", start):
            raise NoFormError(f"the group {self.text[start : start + 4]!r}")
        else:
            self.at += 1
        self.groups += 1
        number = self.groups
        return Group(self._inside(start, depth), number)

    def _parse_flagged(self, found: re.Match[str], depth: int) -> Node:
        flags = self.fold, self.dot_all
        self._set(found)
        inside = self._inside(found.start(), depth)
        self.fold, self.dot_all = flags
        return inside

    def _name(self, found: re.Match[str]) -> None:
        if found["name"] in self.names:
            raise PatternError(f"the name {found['name']!r} is given twice", found.start())
        self.names.add(found["name"])
        self.at = found.end()

    def _inside(self, start: int, depth: int) -> Node:
        node = self.choice(depth + 1)
        if not self.take(")"):
            raise PatternError(f"the group at {start} is not closed", start)
        return node

    # ── Repeats ───────────────────────────────────────────────────────────────────────────────────

    def _parse_repeat(self, node: Node) -> Node:
        found = _COUNT.match(self.text, self.at)
        if found is None:
            return node
        minimum, maximum = self._counts(found)
        self.at = found.end()
        kind = _KINDS.get(self.text[self.at : self.at + 1], "greedy")
        self.at += kind != "greedy"
        if self.text.startswith("{", self.at):
            raise NoFormError("a count of a count")
        _must_repeat(node, minimum, maximum)
        atom = Atomic(node) if kind == "possessive" and not isinstance(node, Chars) else node
        return Repeat(atom, minimum, maximum, kind)

    def _counts(self, found: re.Match[str]) -> tuple[int, int | None]:
        if found["sign"]:
            return _COUNTS[found["sign"]]
        minimum = int(found["minimum"])
        maximum = minimum if not found["comma"] else int(found["maximum"]) if found["maximum"] else None
        if maximum is not None and maximum < minimum:
            raise PatternError(f"the count at {self.at} falls", self.at)
        return minimum, maximum


def _must_repeat(node: Node, minimum: int, maximum: int | None) -> None:
    if isinstance(node, Anchor | LookAround):
        raise NoFormError("a repeated boundary or look-around")
    if first_bytes(node)[1] and (
        minimum > 1 or maximum not in (1, None)
    ):  # Java ends a loop at an empty iteration, whatever the count
        raise NoFormError("a count of what may be empty")
