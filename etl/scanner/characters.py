"""Parses the characters of a pattern: escapes, and classes in brackets."""

from __future__ import annotations

import re

from etl.scanner import char_class
from etl.scanner.char_class import CharClass, between, one_of
from etl.scanner.pattern_error import PatternError

MAX_DEPTH = 200
"""Nested groups; deeper ones are an error before Python's stack overflows."""

_PROPERTY = re.compile(r"\\[pP]\{(?P<not>\^?)(?P<name>\w+)\}")
_HEX = re.compile(r"\\(?:x\{(?P<long>[0-9A-Fa-f]{1,6})\}|x(?P<short>[0-9A-Fa-f]{1,2})|u(?P<four>[0-9A-Fa-f]{4}))")
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a", "e": "\x1b", "0": "\0"}
_PROPERTIES = {
    "L": char_class.POSIX["alpha"], "Alpha": char_class.POSIX["alpha"], "Alnum": char_class.POSIX["alnum"],
    "Digit": char_class.POSIX["digit"], "Space": char_class.POSIX["space"], "Upper": char_class.POSIX["upper"],
    "Lower": char_class.POSIX["lower"], "Punct": char_class.POSIX["punct"], "Word": char_class.POSIX["word"],
    "Lu": char_class.POSIX["upper"], "Ll": char_class.POSIX["lower"], "Nd": char_class.POSIX["digit"],
}  # fmt: skip


class CharacterReader:
    """Parses one character or class; ``at`` is the position of the next character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.ignore_case = False

    def take(self, literal: str) -> bool:
        """Move past ``literal`` if it is next."""
        if self.text.startswith(literal, self.at):
            self.at += len(literal)
            return True
        return False

    def escaped_class(self) -> CharClass:
        """Parse an escape, inside or outside brackets."""
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
                raise PatternError(f"{found[0]!r} is not a character", at)
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

    def char_class(self, depth: int) -> CharClass:
        """``[…]`` with ranges, escapes, POSIX brackets, nested classes and ``&&``."""
        start = self.at
        if depth > MAX_DEPTH:
            raise PatternError(f"classes are nested more than {MAX_DEPTH} deep", start)
        self.at += 1
        negated = self.take("^")
        found, operands = CharClass(0), []
        first = True
        try:
            while first or not self.take("]"):
                if self.at >= len(self.text):
                    raise PatternError("this '[' is not closed", start)
                if self.take("&&"):
                    operands.append(found)
                    found = CharClass(0)
                else:
                    found = found.union(self._class_item(depth))
                first = False
            for operand in operands:
                found = found.intersection(operand)
        except ValueError as error:
            raise PatternError(str(error), start) from None
        found = found.ignoring_case_everywhere() if self.ignore_case else found
        return found.inverted() if negated else found

    def _class_item(self, depth: int) -> CharClass:
        posix = re.compile(r"\[:(\^?)(\w+):\]").match(self.text, self.at)
        if posix and posix[2] in char_class.POSIX:
            self.at = posix.end()
            of = char_class.POSIX[posix[2]]
            return of.inverted() if posix[1] else of
        if self.text[self.at] == "[":
            return self.char_class(depth + 1)
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
        """Parse a member of a class; returns it as a class, and the character if it is a single one."""
        start = self.at
        if self.text[start] == "\\":
            if self.take("\\b"):
                return one_of("\b"), "\b"
            of = self.escaped_class()
            single = of.ascii and not of.ascii & (of.ascii - 1) and not of.wide and not of.others
            if single:
                return of, chr(of.ascii.bit_length() - 1)
            wide = of.wide[0] if not of.ascii and len(of.wide) == 1 and len(of.wide[0]) == 1 else None
            return of, wide
        self.at += 1
        return one_of(self.text[start]), self.text[start]
