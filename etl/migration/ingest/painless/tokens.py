"""Tokens of Painless, and a reader that takes them one after the other."""

from __future__ import annotations

import re

from etl.migration.draft import NoCounterpartError

MAX_CHARACTERS = 1 << 16

_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/
    |(?P<number>0[xX][0-9a-fA-F]{1,16}[Ll]?|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?[LlFfDd]?)
    |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<name>[A-Za-z_]\w*)
    |(?P<sign>==~|=~|===|!==|==|!=|<=|>=|&&|\|\||\?\.|\?:|->|::|[-+*/%^&|]=|\+\+|--|[-+*/%^&|~<>=!?:.,;()\[\]{}])""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_PATTERN = re.compile(r"/((?:[^/\\\n]|\\.)+)/([imsxuUlc]*)")
_BEFORE_PATTERN = frozenset(["=~", "==~", "(", "=", ",", "return", "&&", "||", "!", "?", ":", "[", "{", ";", "->"])
"""What a ``/`` that begins a regular expression stands after, and not one that divides."""


class TokenReader:
    """The tokens of a text, as kind and text; raises NoCounterpartError where there are none."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_CHARACTERS:
            raise NoCounterpartError(f"a script of {len(text):,} characters is too long: {MAX_CHARACTERS:,} at most")
        self.text = text
        self.tokens = self._tokens()
        self.at = 0

    def _tokens(self) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        at = 0
        while at < len(self.text):
            if (
                self.text[at] == "/"
                and (not found or found[-1][1] in _BEFORE_PATTERN)
                and (match := _PATTERN.match(self.text, at))
            ):
                flags = "".join(sorted({*match[2]} & {*"imsx"}))
                found.append(("pattern", f"(?{flags}){match[1]}" if flags else match[1]))
            elif (match := _TOKEN.match(self.text, at)) is None:
                raise NoCounterpartError(f"Painless that cannot be read, at {self.text[at : at + 20]!r}")
            elif match.lastgroup:
                found.append((match.lastgroup, match[0]))
            at = match.end()
        return found

    def peek(self, ahead: int = 0) -> tuple[str, str]:
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ("end", "")

    def take(self, *symbols: str) -> str:
        kind, text = self.peek()
        if kind in ("sign", "name") and text in symbols:
            self.at += 1
            return text
        return ""

    def need(self, symbol: str) -> None:
        if not self.take(symbol):
            raise NoCounterpartError(
                f"Painless that cannot be read: {symbol!r} is missing before {self.peek()[1] or 'the end'!r}"
            )

    def end(self) -> None:
        if self.peek()[0] != "end":
            raise NoCounterpartError(f"Painless that cannot be read, at {self.peek()[1]!r}")
