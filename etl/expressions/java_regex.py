"""Java regular expressions → RE2 patterns of the same meaning, for the subset where there is one.

Sources: java.util.regex.Pattern (Java 17) and RE2's syntax page. Java's ``.`` stops at five line ends, its ``\\s`` has
the vertical tab, its ``$`` stands in front of a last line end, its ``(?i)`` folds ASCII only: RE2 is told so. ``\\b``
has the ASCII meaning that Java gives it from version 19 on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache


class NoRe2FormError(ValueError):
    """The pattern is right for Java, and RE2 cannot say it."""


@dataclass(frozen=True, slots=True)
class Re2:
    """A pattern with every group unnamed."""

    body: str
    tail: str
    """What `$` at the end became: outside the body, for it takes the last line end."""
    groups: int
    nullable: bool
    """Whether it may match the empty text."""
    repeats_group: bool
    """Whether a capturing group is repeated: what it holds in the end may differ."""

    @property
    def pattern(self) -> str:
        return f"(?:{self.body}){self.tail}" if self.tail else self.body


_LINE_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"
_DOLLAR = rf"(?:\r\n|[{_LINE_ENDS}])?\z"
_CLASSES = {"d": "0-9", "w": "a-zA-Z0-9_", "s": r" \t\n\x0B\f\r"}
_CONTROLS = {"t": r"\t", "n": r"\n", "r": r"\r", "f": r"\f", "a": r"\x07", "e": r"\x1B"}
_QUANTIFIER = re.compile(r"(?:[*+?]|\{(\d+)(,(\d*))?\})(\??)(\+?)")
_MOST_REPEATS = 1000
_JAVA_ONLY = (r"\p", r"\P", r"\Q", "&&", "[[", r"\h", r"\R", r"\G", r"\X", r"\k", "(?", "++", "*+", "?+", "}+")
"""What Java reads and Python's `re` may not: a pattern with these is left to Java."""


@lru_cache(maxsize=256)
def translate(pattern: str) -> Re2:
    """Raises NoRe2FormError with the construct that stands in the way, ValueError where the pattern is wrong."""
    _must_compile(pattern)
    return _Translation(pattern).result()


def _must_compile(pattern: str) -> None:
    """Wrong patterns are found by Python's `re`, whose grammar is Java's where it matters here."""
    try:
        re.compile(_pythonic(pattern))
    except (re.error, RecursionError, OverflowError) as error:
        if any(mark in pattern for mark in _JAVA_ONLY):
            return
        raise ValueError(str(error)) from error


def _pythonic(pattern: str) -> str:
    return re.sub(r"\\z", r"\\Z", re.sub(r"\(\?<(?![=!])", "(?P<", pattern))


class _Translation:
    """One pass over the pattern, from left to right."""

    def __init__(self, pattern: str) -> None:
        self.text = pattern
        self.at = 0
        self.groups = 0
        self.repeats_group = False
        self.fold = self.dot_all = False
        self.tail = ""

    def result(self) -> Re2:
        self._flags()
        body, least = self._alternatives()
        if self.at < len(self.text):
            raise ValueError(f"unmatched ')' at {self.at}")
        return Re2(body, self.tail, self.groups, least == 0, self.repeats_group)

    def _flags(self) -> None:
        while found := re.match(r"\(\?([a-zA-Z]+)\)", self.text[self.at :]):
            if set(found[1]) - set("is"):
                raise NoRe2FormError(f"the flags {found[0]}")
            self.fold |= "i" in found[1]
            self.dot_all |= "s" in found[1]
            self.at += found.end()

    def _alternatives(self) -> tuple[str, int]:
        branches = [self._sequence()]
        while self.text[self.at : self.at + 1] == "|":
            self.at += 1
            branches.append(self._sequence())
        if len(branches) > 1 and self.tail:
            raise NoRe2FormError("'$' in one alternative")
        return "|".join(part for part, _ in branches), min(least for _, least in branches)

    def _sequence(self) -> tuple[str, int]:
        parts: list[str] = []
        least = 0
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            piece, width, capturing = self._atom()
            quantifier, times = self._quantifier()
            if quantifier and capturing and quantifier[0] != "?":
                self.repeats_group = True
            if quantifier and width == 0 and piece.startswith((r"\b", r"\B", r"\A", "^")):
                raise NoRe2FormError("a repeated boundary")
            parts.append(piece + quantifier)
            least += width * times
        return "".join(parts), least

    def _quantifier(self) -> tuple[str, int]:
        found = _QUANTIFIER.match(self.text, self.at)
        if not found:
            return "", 1
        self.at = found.end()
        if found[5] or _QUANTIFIER.match(self.text, self.at):
            raise NoRe2FormError("a possessive quantifier")
        if max(int(found[1] or 0), int(found[3] or 0)) > _MOST_REPEATS:
            raise NoRe2FormError(f"a repetition of more than {_MOST_REPEATS}")
        times = int(found[1]) if found[1] else (1 if found[0][0] == "+" else 0)
        return found[0], times

    def _atom(self) -> tuple[str, int, bool]:
        char = self.text[self.at]
        self.at += 1
        if char == "(":
            return self._group()
        if char == "[":
            return self._class(), 1, False
        if char == "\\":
            return self._escape()
        if char == ".":
            return (r"(?s:.)" if self.dot_all else f"[^{_LINE_ENDS}]"), 1, False
        if char == "^":
            return r"\A", 0, False
        if char == "$":
            return self._dollar(_DOLLAR)
        if char in "*+?{":
            raise ValueError(f"nothing to repeat at {self.at - 1}")
        return self._literal(char), 1, False

    def _dollar(self, tail: str) -> tuple[str, int, bool]:
        if self.at < len(self.text):
            raise NoRe2FormError("'$' before the end")
        self.tail = tail
        return "", 0, False

    def _group(self) -> tuple[str, int, bool]:
        rest = self.text[self.at :]
        capturing = not rest.startswith("?")
        if not capturing:
            named = re.match(r"\?<([a-zA-Z][a-zA-Z0-9]*)>", rest)
            if named:
                self.at += named.end()
                capturing = True
            elif rest.startswith("?:"):
                self.at += 2
            else:
                raise NoRe2FormError("look-around, an atomic group or inline flags")
        if capturing:
            self.groups += 1
        number = self.groups
        inner, least = self._alternatives()
        if self.text[self.at : self.at + 1] != ")":
            raise ValueError("a group is not closed")
        self.at += 1
        return (f"(?P<g{number}>{inner})" if capturing else f"(?:{inner})"), least, capturing or "(?P<" in inner

    def _escape(self) -> tuple[str, int, bool]:
        char = self.text[self.at : self.at + 1]
        self.at += 1
        if char.lower() in _CLASSES and char:
            return f"[{'^' if char.isupper() else ''}{_CLASSES[char.lower()]}]", 1, False
        if char in ("b", "B", "A"):
            return f"\\{char}", 0, False
        if char == "z":
            return self._dollar(r"\z")
        return self._literal(self._escaped_char(char)), 1, False

    def _escaped_char(self, char: str) -> str:
        """The character an escape stands for."""
        if char in _CONTROLS:
            return {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}[char]
        for letter, digits in (("x", 2), ("u", 4)):
            code = self.text[self.at : self.at + digits]
            if char == letter and len(code) == digits and re.fullmatch("[0-9a-fA-F]+", code):
                self.at += digits
                return chr(int(code, 16))
        if not char or (char.isalnum() and char.isascii()):
            raise NoRe2FormError(f"\\{char}")
        return char

    def _literal(self, char: str) -> str:
        if self.fold and char.isascii() and char.isalpha():
            return f"[{char.lower()}{char.upper()}]"
        return _quoted(char)

    def _class(self) -> str:
        negated = self.text[self.at : self.at + 1] == "^"
        self.at += negated
        parts: list[str] = []
        while True:
            if self.at >= len(self.text):
                raise ValueError("a character class is not closed")
            if self.text[self.at] == "]" and parts:
                break
            parts.append(self._class_part())
        self.at += 1
        return f"[{'^' if negated else ''}{''.join(parts)}]"

    def _class_part(self) -> str:
        first = self._class_char()
        if len(first) > 1:
            return first
        if self.text[self.at : self.at + 1] != "-" or self.text[self.at + 1 : self.at + 2] in ("]", ""):
            return self._folded(first, first)
        self.at += 1
        last = self._class_char()
        if len(last) > 1 or last < first:
            raise NoRe2FormError("an unusual range in a character class")
        return self._folded(first, last)

    def _class_char(self) -> str:
        """One character, or the inside of a class such as ``\\d``."""
        char = self.text[self.at]
        self.at += 1
        if char in "[]&" or (char == "^"):
            raise NoRe2FormError(f"{char!r} inside a character class")
        if char != "\\":
            return char
        char = self.text[self.at : self.at + 1]
        self.at += 1
        if char in _CLASSES:
            return _CLASSES[char]
        return self._escaped_char(char)

    def _folded(self, first: str, last: str) -> str:
        text = _range(first, last)
        if self.fold:
            for low, high, shift in (("a", "z", -32), ("A", "Z", 32)):
                inner = max(first, low), min(last, high)
                if inner[0] <= inner[1]:
                    text += _range(chr(ord(inner[0]) + shift), chr(ord(inner[1]) + shift))
        return text


def _range(first: str, last: str) -> str:
    return _quoted(first) if first == last else f"{_quoted(first)}-{_quoted(last)}"


def _quoted(char: str) -> str:
    if char.isascii() and not char.isalnum() and char not in "_ ":
        return f"\\x{{{ord(char):x}}}" if ord(char) < 0x20 or ord(char) == 0x7F else f"\\{char}"
    return char


def replacement(text: str, groups: int) -> str:
    """Java's replacement text → RE2's. Raises ValueError for groups that are not there."""
    out: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == "\\":
            if at == len(text):
                raise ValueError("the replacement ends in a backslash")
            out.append(text[at].replace("\\", r"\\"))
            at += 1
        elif char == "$":
            if not re.match(r"[0-9]", text[at : at + 1]):
                raise NoRe2FormError("a named group in the replacement" if text[at : at + 1] == "{" else "'$' in the replacement")
            number = int(text[at])
            at += 1
            if number > groups:
                raise ValueError(f"the pattern has no group {number}")
            if at < len(text) and text[at].isdigit() and number * 10 + int(text[at]) <= groups:
                raise NoRe2FormError("a group past 9 in the replacement")
            out.append(f"\\{number}")
        else:
            out.append(char)
    return "".join(out)
