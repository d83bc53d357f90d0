"""The text of a pattern → its tree: Ruby's regular expressions (Onigmo) and grok's ``%{NAME:field:type}``.

Source: the Onigmo manual "RE" (syntax) and Logstash's documentation of grok. Flags ``i`` and ``x`` are resolved
here; the dot matches every character, ``^`` and ``$`` every line's edge, as Logstash sets them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from parsers import char_class
from parsers.char_class import ANY, CharClass, between, one_of
from parsers.regex_tree import (
    EMPTY,
    Atomic,
    Backreference,
    Capture,
    Chars,
    Choice,
    Edge,
    Group,
    Look,
    Node,
    Repeat,
    sequence,
)

MOST_REPEATS = 1000
"""RE2's bound for ``{n,m}``."""

MOST_DEPTH = 200
"""Nested groups; deeper ones are refused before Python's stack is."""

_REFERENCE = re.compile(r"%\{(?P<name>\w+)(?::(?P<field>(?:\[[^\[\]{}]+\])+|[\w@.\-]+)(?::(?P<cast>\w+))?)?[^{}]*\}")
_COUNT = re.compile(r"\{(?P<least>\d*)(?P<comma>,?)(?P<most>\d*)\}")
_NAMED = re.compile(r"\(\?(?:P?<(?P<angle>[^<>=!][^<>]*)>|'(?P<quote>[^']+)')")
_FLAGS = re.compile(r"\(\?(?P<on>[a-zA-Z]*)(?:-(?P<off>[a-zA-Z]*))?(?P<end>[:)])")
_PROPERTY = re.compile(r"\\[pP]\{(?P<not>\^?)(?P<name>\w+)\}")
_HEX = re.compile(r"\\(?:x\{(?P<long>[0-9A-Fa-f]{1,6})\}|x(?P<short>[0-9A-Fa-f]{1,2})|u(?P<four>[0-9A-Fa-f]{4}))")
_FIELD = re.compile(r"[A-Za-z_@][\w@\-]*(?:\.[A-Za-z_@][\w@\-]*)*")
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a", "e": "\x1b", "0": "\0"}
_EDGES: Mapping[str, Edge] = {name: Edge(f"\\{name}") for name in "Azb"} | {"B": Edge("\\B")}  # type: ignore[arg-type]
_LOOKS = {"(?=": (True, False), "(?!": (True, True), "(?<=": (False, False), "(?<!": (False, True)}
_COUNTS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_PROPERTIES = {
    "L": char_class.POSIX["alpha"], "Alpha": char_class.POSIX["alpha"], "Alnum": char_class.POSIX["alnum"],
    "Digit": char_class.POSIX["digit"], "Space": char_class.POSIX["space"], "Upper": char_class.POSIX["upper"],
    "Lower": char_class.POSIX["lower"], "Punct": char_class.POSIX["punct"], "Word": char_class.POSIX["word"],
    "Lu": char_class.POSIX["upper"], "Ll": char_class.POSIX["lower"], "Nd": char_class.POSIX["digit"],
}  # fmt: skip

Resolve = Callable[[str, int], Node]
"""A pattern's name and where it was read → the tree of its definition. Raises PatternError."""


class PatternError(Exception):
    """A pattern that cannot be read: what is wrong, and at which character."""

    def __init__(self, message: str, at: int, code: str = "bad-pattern", hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.at, self.code, self.hint = message, at, code, hint


def parse(text: str, resolve: Resolve) -> Node:
    """The tree of a whole pattern. Raises PatternError."""
    reader = _Reader(text, resolve)
    node = reader.choice(0)
    if reader.at < len(text):
        raise PatternError("this ')' closes nothing", reader.at)
    return node


def field_name(written: str, at: int) -> str:
    """``[a][b]`` and ``a.b`` → ``a.b``. Raises PatternError for what no field can be called."""
    name = written[1:-1].replace("][", ".") if written.startswith("[") else written
    if not _FIELD.fullmatch(name):
        raise PatternError(f"{written!r} cannot be a field: names have letters, digits, '_', '@' and '-', joined by dots", at)
    return name


class _Reader:
    """A recursive-descent parser: ``at`` moves over the text."""

    def __init__(self, text: str, resolve: Resolve) -> None:
        self.text, self.resolve = text, resolve
        self.at = 0
        self.groups = 0
        self.ignore_case = False
        self.extended = False

    def choice(self, depth: int) -> Node:
        if depth > MOST_DEPTH:
            raise PatternError(f"groups are nested more than {MOST_DEPTH} deep", self.at)
        case, extended = self.ignore_case, self.extended
        branches = [self._branch(depth)]
        while self._take("|"):
            branches.append(self._branch(depth))
        self.ignore_case, self.extended = case, extended
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def _branch(self, depth: int) -> Node:
        parts: list[Node] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            if self.extended and self._skip_space():
                continue
            start = self.at
            node = self._atom(depth)
            parts.append(self._repeated(node, start))
        return sequence(parts)

    def _skip_space(self) -> bool:
        found = re.compile(r"\s+|#[^\n]*").match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found is not None

    def _take(self, literal: str) -> bool:
        if self.text.startswith(literal, self.at):
            self.at += len(literal)
            return True
        return False

    def _atom(self, depth: int) -> Node:
        char = self.text[self.at]
        if char == "%" and (found := _REFERENCE.match(self.text, self.at)):
            return self._reference(found)
        if char == "(":
            return self._group(depth)
        if char == "[":
            return Chars(self._class(depth))
        if char == "\\":
            return self._escape()
        if char in _COUNTS:
            raise PatternError(f"there is nothing before this {char!r} to repeat", self.at)
        self.at += 1
        if char == ".":
            return Chars(ANY)
        return Edge("^" if char == "^" else "$") if char in "^$" else self._literal(char)

    def _literal(self, char: str) -> Node:
        found = one_of(char)
        if self.ignore_case:
            found = found.union(one_of(char.lower())).union(one_of(char.upper())) if ord(char) > 127 else found.ignoring_case()
        return Chars(found)

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
        for opening, (ahead, negative) in _LOOKS.items():
            if self._take(opening):
                return Look(self._inside(start, depth), ahead, negative)
        if self._take("(?>"):
            return Atomic(self._inside(start, depth))
        if self._take("(?#"):
            return self._comment(start)
        if found := _NAMED.match(self.text, self.at):
            self.at = found.end()
            field = field_name(found["angle"] or found["quote"], start)
            return Capture(self._inside(start, depth), field)
        if found := _FLAGS.match(self.text, self.at):
            return self._flagged(found, depth)
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

    def _flagged(self, found: re.Match[str], depth: int) -> Node:
        start, self.at = self.at, found.end()
        case, extended = self.ignore_case, self.extended
        on, off = found["on"], found["off"] or ""
        if unknown := set(on + off) - set("imsxuad"):
            raise PatternError(f"{''.join(sorted(unknown))!r} is not a flag; flags are i, m, s, u and x", start)
        self.ignore_case = ("i" in on or self.ignore_case) and "i" not in off
        self.extended = ("x" in on or self.extended) and "x" not in off
        if found["end"] == ")":
            return EMPTY
        node = self._inside(start, depth)
        self.ignore_case, self.extended = case, extended
        return node

    def _inside(self, start: int, depth: int) -> Node:
        node = self.choice(depth + 1)
        if not self._take(")"):
            raise PatternError("this group is not closed", start)
        return node

    # ── Repeats ───────────────────────────────────────────────────────────────────────────────────

    def _repeated(self, node: Node, start: int) -> Node:
        while (bounds := self._bounds()) is not None:
            least, most, braces = bounds
            if isinstance(node, Edge | Look):
                node = EMPTY if least == 0 else node
            elif self._take("?"):
                node = Repeat(node, least, most, "lazy")
            elif not braces and self._take("+"):
                node = Repeat(node, least, most, "possessive")
            else:
                node = Repeat(node, least, most)
        return node

    def _bounds(self) -> tuple[int, int | None, bool] | None:
        if self.at >= len(self.text):
            return None
        char = self.text[self.at]
        if char in _COUNTS:
            self.at += 1
            return (*_COUNTS[char], False)
        found = _COUNT.match(self.text, self.at)
        if not found or not (found["least"] or found["most"]):
            return None
        least = int(found["least"] or 0)
        most = int(found["most"]) if found["most"] else (None if found["comma"] else least)
        if max(least, most or 0) > MOST_REPEATS or (most is not None and most < least):
            raise PatternError(f"{found[0]!r} is not a count; counts rise and reach {MOST_REPEATS}", self.at)
        self.at = found.end()
        return least, most, True

    # ── Characters ────────────────────────────────────────────────────────────────────────────────

    def _escape(self) -> Node:
        text, at = self.text, self.at
        if at + 1 >= len(text):
            raise PatternError("the pattern ends in a backslash", at)
        char = text[at + 1]
        if found := re.compile(r"\\k<([^<>]+)>|\\([1-9]\d?)").match(text, at):
            self.at = found.end()
            return Backreference(int(found[2]) if found[2] else field_name(found[1], at))
        if char in _EDGES:
            self.at += 2
            return _EDGES[char]
        if char == "Z":
            self.at += 2
            end = sequence([Repeat(Chars(one_of("\n")), 0, 1), Edge("\\z")])
            return Look(end, ahead=True, negative=False)
        if char == "R":
            self.at += 2
            return Choice((sequence([Chars(one_of("\r")), Chars(one_of("\n"))]), Chars(between("\n", "\r"))))
        return Chars(self._escaped_class())

    def _escaped_class(self) -> CharClass:
        """The class of the escape at hand, inside brackets or out of them."""
        text, at = self.text, self.at
        if at + 1 >= len(text):
            raise PatternError("the pattern ends in a backslash", at)
        char = text[at + 1]
        if found := _PROPERTY.match(text, at):
            return self._property(found)
        if found := _HEX.match(text, at):
            self.at = found.end()
            number = int(found["long"] or found["short"] or found["four"], 16)
            if number > 0x10FFFF or 0xD800 <= number < 0xE000:
                raise PatternError(f"{found[0]!r} is no character", at)
            return one_of(chr(number))
        self.at += 2
        if char in char_class.ESCAPES:
            return char_class.ESCAPES[char]
        if char in _CONTROLS:
            return one_of(_CONTROLS[char])
        if char.isascii() and char.isalpha():
            raise PatternError(f"'\\{char}' is not an escape this engine knows", at)
        return one_of(char)

    def _property(self, found: re.Match[str]) -> CharClass:
        at, self.at = self.at, found.end()
        name = found["name"]
        of = _PROPERTIES.get(name) or _PROPERTIES.get(name.capitalize())
        if of is None:
            raise PatternError(f"{found[0]!r} is not supported; properties are {', '.join(_PROPERTIES)}", at)
        return of.inverted() if (found["not"] == "^") != found[0].startswith("\\P") else of

    def _class(self, depth: int) -> CharClass:
        """``[…]`` with ranges, escapes, POSIX brackets, nested classes and ``&&``."""
        start = self.at
        if depth > MOST_DEPTH:
            raise PatternError(f"classes are nested more than {MOST_DEPTH} deep", start)
        self.at += 1
        negated = self._take("^")
        found, operands = CharClass(0), []
        first = True
        try:
            while first or not self._take("]"):
                if self.at >= len(self.text):
                    raise PatternError("this '[' is not closed", start)
                if self._take("&&"):
                    operands.append(found)
                    found = CharClass(0)
                else:
                    found = found.union(self._class_item(depth))
                first = False
            for operand in operands:
                found = found.intersection(operand)
        except ValueError as error:
            raise PatternError(str(error), start) from None
        found = found.ignoring_case() if self.ignore_case else found
        return found.inverted() if negated else found

    def _class_item(self, depth: int) -> CharClass:
        posix = re.compile(r"\[:(\^?)(\w+):\]").match(self.text, self.at)
        if posix and posix[2] in char_class.POSIX:
            self.at = posix.end()
            of = char_class.POSIX[posix[2]]
            return of.inverted() if posix[1] else of
        if self.text[self.at] == "[":
            return self._class(depth + 1)
        low, low_char = self._class_char()
        if low_char is None or not re.compile(r"-[^\]\[]").match(self.text, self.at):
            return low
        here = self.at
        self.at += 1
        _, high_char = self._class_char()
        if high_char is None:
            self.at = here
            return low
        return between(low_char, high_char)

    def _class_char(self) -> tuple[CharClass, str | None]:
        """A member of a class, and the character it is if it is only one."""
        start = self.at
        if self.text[start] == "\\":
            if self._take("\\b"):
                return one_of("\b"), "\b"
            of = self._escaped_class()
            single = of.ascii and not of.ascii & (of.ascii - 1) and not of.wide and not of.others
            if single:
                return of, chr(of.ascii.bit_length() - 1)
            wide = of.wide[0] if not of.ascii and len(of.wide) == 1 and len(of.wide[0]) == 1 else None
            return of, wide
        self.at += 1
        return one_of(self.text[start]), self.text[start]
