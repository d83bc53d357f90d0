"""Parses the characters of a Java regular expression: escapes, and classes in brackets."""

from __future__ import annotations

import re

from etl.scanner import char_class
from etl.scanner.char_class import CharClass, between, one_of
from etl.scanner.pattern_error import PatternError

LINE_ENDS = one_of("\n\r\x85\u2028\u2029")
"""Characters that Java's dot does not match."""

_SURROGATES = (0xD800, 0xDFFF)
_HEX = re.compile(r"\\x(?P<two>[0-9A-Fa-f]{2})|\\x\{(?P<any>[0-9A-Fa-f]{1,8})\}|\\u(?P<four>[0-9A-Fa-f]{4})")
_PROPERTY = re.compile(r"\\(?P<sign>[pP])\{(?P<name>\w+)\}")
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_UNKNOWN = frozenset("CEFIJKLMOTUYgijlmoqy")
"""Letters without a meaning after a backslash; those missing here and elsewhere have one that only Java supports."""

_BLANKS = one_of(" \t\xa0\u1680\u180e\u202f\u205f\u3000").union(between("\u2000", "\u200a"))
_UPRIGHT = one_of("\v\f").union(LINE_ENDS)
_SHORTHANDS = {name: char_class.ESCAPES[name] for name in "dDwWsS"} | {
    "h": _BLANKS, "H": _BLANKS.inverted(), "v": _UPRIGHT, "V": _UPRIGHT.inverted(),
}  # fmt: skip
_PROPERTIES = {
    name.capitalize(): CharClass(of.ascii) for name, of in char_class.POSIX.items() if name not in ("ascii", "word", "xdigit")
} | {"ASCII": CharClass(char_class.ASCII), "XDigit": char_class.HEX}
"""POSIX classes, which are ASCII in Java. All other properties are Unicode's, whose version depends on that of Java."""


class NoFormError(ValueError):
    """The pattern is valid in Java, but a construct of it is not supported here; the message names the construct."""


class CharacterReader:
    """Parses one character or class; ``at`` is the position of the next character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.fold = False

    def take(self, literal: str) -> bool:
        """Move past ``literal`` if it is next."""
        if self.text.startswith(literal, self.at):
            self.at += len(literal)
            return True
        return False

    def fold_case(self, of: CharClass) -> CharClass:
        """Add the other case of ASCII letters if ``(?i)`` is set."""
        return of.ignoring_case() if self.fold else of

    def escape(self) -> CharClass | str:
        """Parse an escape: a character, or a class."""
        at = self.at
        if found := _HEX.match(self.text, at):
            self.at = found.end()
            return _character(int(found["two"] or found["any"] or found["four"], 16), at)
        if found := _PROPERTY.match(self.text, at):
            self.at = found.end()
            return self._property(found)
        char = self.text[at + 1 : at + 2]
        self.at += 2
        if char in _SHORTHANDS:
            return _SHORTHANDS[char]
        if not char or char in _UNKNOWN:
            raise PatternError(f"'\\{char}' at {at} is not an escape", at)
        if char.isascii() and char.isalnum() and char not in _CONTROLS:
            raise NoFormError(f"'\\{char}'")
        return _CONTROLS.get(char) or _character(ord(char), at)

    def _property(self, found: re.Match[str]) -> CharClass:
        of = _PROPERTIES.get(found["name"])
        if of is None or (self.fold and found["name"] in ("Lower", "Upper")):
            raise NoFormError(repr(found[0]))
        return of.inverted() if found["sign"] == "P" else of

    def char_class(self) -> CharClass:
        """``[…]`` with ranges and escapes; classes inside a class are left to Java."""
        start = self.at
        self.at += 1
        negated = self.take("^")
        found = self._item(start)
        while not self.take("]"):
            try:
                found = found.union(self._item(start))
            except ValueError as error:
                raise NoFormError(str(error)) from error
        return found.inverted() if negated else found

    def _item(self, start: int) -> CharClass:
        first = self._member(start)
        if not isinstance(first, str):
            return first
        if self.text[self.at : self.at + 1] != "-" or self.text[self.at + 1 : self.at + 2] in ("]", ""):
            return self.fold_case(one_of(first))
        at = self.at
        self.at += 1
        last = self._member(start)
        if not isinstance(last, str):
            raise NoFormError("a range that ends in a class")
        if last < first:
            raise PatternError(f"the range at {at} is backwards", at)
        if ord(first) < _SURROGATES[0] and ord(last) > _SURROGATES[1]:  # where Java matches half of a character
            raise NoFormError("a range over the surrogates")
        return self.fold_case(between(first, last))

    def _member(self, start: int) -> CharClass | str:
        """Parse a character, or the class of an escape."""
        if self.at >= len(self.text):
            raise PatternError(f"the character class at {start} is not closed", start)
        char = self.text[self.at]
        if char == "[" or self.text.startswith("&&", self.at):
            raise NoFormError("a class inside a class")
        if char == "\\":
            return self.escape()
        self.at += 1
        return _character(ord(char), self.at - 1)


def _character(number: int, at: int) -> str:
    if number > 0x10FFFF:
        raise PatternError(f"the character at {at} does not exist", at)
    if _SURROGATES[0] <= number <= _SURROGATES[1]:
        raise NoFormError("half of a character")
    return chr(number)
