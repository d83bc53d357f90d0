"""Parses patterns: Ruby's regular expressions (Onigmo) with grok's references ``%{NAME:field:type}``.

Source: the Onigmo manual "RE" (syntax) and Logstash's documentation of grok. The parser resolves the flags ``i`` and ``x``;
``^`` and ``$`` are the beginning and end of every line. Whether the dot matches a line end is the caller's choice, as it is of
the programs that use such patterns (Logstash: it does; Elasticsearch: it does not); the flag ``m`` changes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal

from etl.scanner.char_class import ANY, between, one_of
from etl.scanner.characters import MAX_DEPTH, CharacterReader
from etl.scanner.pattern_error import PatternError
from etl.scanner.tree import (
    EMPTY,
    Anchor,
    Atomic,
    Backreference,
    Capture,
    Chars,
    Choice,
    Group,
    LookAround,
    Node,
    Repeat,
    sequence,
)

MAX_REPEATS = 1000
"""RE2's bound for ``{n,m}``."""

REFERENCE = re.compile(r"%\{(?P<name>\w+)(?::(?P<field>(?:\[[^\[\]{}]+\])+|[\w@.\-]+)(?::(?P<cast>\w+))?)?[^{}]*\}")
"""A grok reference: the name of a pattern, and the field and type of the match; anything else in it is ignored."""

_COUNT = re.compile(r"\{(?P<minimum>\d*)(?P<comma>,?)(?P<maximum>\d*)\}")
_NAMED = re.compile(r"\(\?(?:P?<(?P<angle>[^<>=!][^<>]*)>|'(?P<quote>[^']+)')")
_FLAGS = re.compile(r"\(\?(?P<on>[a-zA-Z]*)(?:-(?P<off>[a-zA-Z]*))?(?P<end>[:)])")
_FIELD = re.compile(r"[A-Za-z_@][\w@\-]*(?:\.[A-Za-z_@][\w@\-]*)*")
_ANCHORS: Mapping[str, Anchor] = {name: Anchor(f"\\{name}") for name in "Azb"} | {"B": Anchor("\\B")}  # type: ignore[arg-type]
_LOOK_AROUNDS = {"(?=": (True, False), "(?!": (True, True), "(?<=": (False, False), "(?<!": (False, True)}
_NO_NEWLINE = one_of("\n").inverted()
_COUNTS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
Resolve = Callable[[str, int], Node]
"""The name of a pattern and the position of the reference → the tree of the pattern's definition. Raises PatternError."""


def parse(text: str, resolve: Resolve, dot_matches_newline: bool = True) -> Node:
    """Parse a whole pattern. Raises PatternError."""
    reader = _Reader(text, resolve, dot_matches_newline)
    node = reader.choice(0)
    if reader.at < len(text):
        raise PatternError("this ')' closes nothing", reader.at)
    return node


def field_name(written: str, at: int) -> str:
    """``[a][b]`` and ``a.b`` → ``a.b``. Raises PatternError for an invalid name of a field."""
    name = written[1:-1].replace("][", ".") if written.startswith("[") else written
    if not _FIELD.fullmatch(name):
        raise PatternError(f"{written!r} cannot be a field: names have letters, digits, '_', '@' and '-', joined by dots", at)
    return name


class _Reader(CharacterReader):
    """A recursive-descent parser; ``at`` is the position of the next character."""

    def __init__(self, text: str, resolve: Resolve, dot_matches_newline: bool) -> None:
        super().__init__(text)
        self.resolve = resolve
        self.dot_matches_newline = dot_matches_newline
        self.groups = 0
        self.extended = False

    def choice(self, depth: int) -> Node:
        """Parse alternatives, up to the ``)`` of the group or the end of the pattern."""
        if depth > MAX_DEPTH:
            raise PatternError(f"groups are nested more than {MAX_DEPTH} deep", self.at)
        flags = self._flags()
        branches = [self._branch(depth)]
        while self.take("|"):
            branches.append(self._branch(depth))
        self.ignore_case, self.extended, self.dot_matches_newline = flags
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def _branch(self, depth: int) -> Node:
        parts: list[Node] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            if self.extended and self._skip_space():
                continue
            start = self.at
            node = self._atom(depth)
            parts.append(self._parse_repeat(node, start))
        return sequence(parts)

    def _skip_space(self) -> bool:
        """Skip white space and a comment, with the flag ``x``; returns whether there was any."""
        found = re.compile(r"\s+|#[^\n]*").match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found is not None

    def _atom(self, depth: int) -> Node:
        char = self.text[self.at]
        if char == "%" and (found := REFERENCE.match(self.text, self.at)):
            return self._reference(found)
        if char == "(":
            return self._group(depth)
        if char == "[":
            return Chars(self.char_class(depth))
        if char == "\\":
            return self._escape()
        if char in _COUNTS:
            raise PatternError(f"there is nothing before this {char!r} to repeat", self.at)
        self.at += 1
        if char == ".":
            return Chars(ANY if self.dot_matches_newline else _NO_NEWLINE)
        return Anchor("^" if char == "^" else "$") if char in "^$" else self._literal(char)

    def _literal(self, char: str) -> Node:
        found = one_of(char)
        return Chars(found.ignoring_case_everywhere() if self.ignore_case else found)

    def _reference(self, found: re.Match[str]) -> Node:
        at, self.at = self.at, found.end()
        node = self.resolve(found["name"], at)
        if not found["field"]:
            return node
        cast = found["cast"] or ""
        if cast not in ("", "int", "float", "string"):
            raise PatternError(f"{cast!r} is not a type of a capture; types are int, float and string", found.start("cast"))
        return Capture(node, field_name(found["field"], found.start("field")), "" if cast == "string" else cast)

    # ── Groups ────────────────────────────────────────────────────────────────────────────────────

    def _group(self, depth: int) -> Node:
        start = self.at
        for opening, (ahead, negative) in _LOOK_AROUNDS.items():
            if self.take(opening):
                return LookAround(self._inside(start, depth), ahead, negative)
        if self.take("(?>"):
            return Atomic(self._inside(start, depth))
        if self.take("(?#"):
            return self._comment(start)
        if found := _NAMED.match(self.text, self.at):
            self.at = found.end()
            field = field_name(found["angle"] or found["quote"], start)
            return Capture(self._inside(start, depth), field)
        if found := _FLAGS.match(self.text, self.at):
            return self._parse_flagged(found, depth)
        if self.text.startswith("(?", start):
            raise PatternError(f"{self.text[start : start + 4]!r} is not a group this engine knows", start)
        self.at += 1
        self.groups += 1
        number = self.groups
        return Group(self._inside(start, depth), number)

    def _comment(self, start: int) -> Node:
        end = self.text.find(")", self.at)
        if end < 0:
            raise PatternError("this comment is not closed", start)
        self.at = end + 1
        return EMPTY

    def _parse_flagged(self, found: re.Match[str], depth: int) -> Node:
        start, self.at = self.at, found.end()
        flags = self._flags()
        on, off = found["on"], found["off"] or ""
        if unknown := set(on + off) - set("imsxuad"):
            raise PatternError(f"{''.join(sorted(unknown))!r} is not a flag; flags are i, m, s, u and x", start)
        self.ignore_case = ("i" in on or self.ignore_case) and "i" not in off
        self.extended = ("x" in on or self.extended) and "x" not in off
        self.dot_matches_newline = (bool({"m", "s"} & {*on}) or self.dot_matches_newline) and not {"m", "s"} & {*off}
        is_isolated = found["end"] == ")"  # flags without a part apply to the rest of the group, with its branches: a(?i:b|c)
        node = self.choice(depth + 1) if is_isolated else self._inside(start, depth)
        self.ignore_case, self.extended, self.dot_matches_newline = flags
        return node

    def _flags(self) -> tuple[bool, bool, bool]:
        return self.ignore_case, self.extended, self.dot_matches_newline

    def _inside(self, start: int, depth: int) -> Node:
        node = self.choice(depth + 1)
        if not self.take(")"):
            raise PatternError("this group is not closed", start)
        return node

    # ── Repeats ───────────────────────────────────────────────────────────────────────────────────

    def _parse_repeat(self, node: Node, start: int) -> Node:
        while (bounds := self._bounds()) is not None:
            minimum, maximum, braces = bounds
            repeated = Repeat(node, minimum, maximum, self._kind(braces=braces))
            once = EMPTY if minimum == 0 else node
            node = once if isinstance(node, Anchor | LookAround) else repeated
        return node

    def _kind(self, *, braces: bool) -> Literal["greedy", "lazy", "possessive"]:
        """The modifier after a quantifier; a plus after braces is a quantifier of its own."""
        if self.take("?"):
            return "lazy"
        return "possessive" if not braces and self.take("+") else "greedy"

    def _bounds(self) -> tuple[int, int | None, bool] | None:
        """Parse a quantifier: the smallest and largest number of repeats, and whether it has braces; None if there is none."""
        if self.at >= len(self.text):
            return None
        char = self.text[self.at]
        if char in _COUNTS:
            self.at += 1
            return (*_COUNTS[char], False)
        found = _COUNT.match(self.text, self.at)
        if not found or not (found["minimum"] or found["maximum"]):
            return None
        minimum = int(found["minimum"] or 0)
        maximum = int(found["maximum"]) if found["maximum"] else (None if found["comma"] else minimum)
        if max(minimum, maximum or 0) > MAX_REPEATS or (maximum is not None and maximum < minimum):
            raise PatternError(
                f"{found[0]!r} is not a valid count: the second number is not less than the first, and at most {MAX_REPEATS}",
                self.at,
            )
        self.at = found.end()
        return minimum, maximum, True

    # ── Characters ────────────────────────────────────────────────────────────────────────────────

    def _escape(self) -> Node:
        text, at = self.text, self.at
        if at + 1 >= len(text):
            raise PatternError("the pattern ends in a backslash", at)
        char = text[at + 1]
        if found := re.compile(r"\\k<([^<>]+)>|\\([1-9]\d?)").match(text, at):
            self.at = found.end()
            return Backreference(int(found[2]) if found[2] else field_name(found[1], at))
        if char in _ANCHORS:
            self.at += 2
            return _ANCHORS[char]
        if char == "Z":
            self.at += 2
            end = sequence([Repeat(Chars(one_of("\n")), 0, 1), Anchor("\\z")])
            return LookAround(end, ahead=True, negative=False)
        if char == "R":
            self.at += 2
            return Choice((sequence([Chars(one_of("\r")), Chars(one_of("\n"))]), Chars(between("\n", "\r"))))
        return Chars(self.escaped_class())
