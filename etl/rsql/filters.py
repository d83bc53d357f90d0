"""Filter expressions, ``(field,function,value)&((…)|!(…))`` → conditions in Spark SQL.

A field that is missing or null makes a part false, also that of a negative function (``!=``, ``notLike``), as in Spark SQL, where
only a condition that is true counts; after ``!`` the part is made false by name, so that ``!`` makes it true. A part whose
function does not exist is false, as in the old engine, with a warning.
"""

from __future__ import annotations

from dataclasses import dataclass

from etl.rsql.filter_functions import condition
from etl.rsql.problems import SourceError

MAX_DEPTH = 100
"""Brackets inside each other: more stop with an error."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A piece between commas: its text without quotes, and its first character."""

    text: str
    at: int
    is_quoted: bool


class FilterReader:
    """Reads one expression of a text, from a character on; ``at`` is the character after it."""

    def __init__(self, text: str, at: int = 0) -> None:
        self._text = text
        self.at = at
        self.warnings: list[SourceError] = []

    def read(self) -> str:
        """The condition in Spark SQL. Raises SourceError."""
        return self._either(0)

    def _either(self, depth: int) -> str:
        parts = [self._both(depth)]
        while self._take("|"):
            parts.append(self._both(depth))
        return parts[0] if len(parts) == 1 else "(" + " or ".join(parts) + ")"

    def _both(self, depth: int) -> str:
        parts = [self._one(depth)]
        while self._take("&"):
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else " and ".join(parts)

    def _one(self, depth: int) -> str:
        self._skip_blanks()
        at = self.at
        if depth > MAX_DEPTH:
            raise SourceError("rule-syntax", f"more than {MAX_DEPTH} brackets are inside each other", at)
        if self._text.startswith("!", at):
            self.at += 1
            return f"not coalesce({self._one(depth + 1)}, false)"
        if not self._text.startswith("(", at):
            found = repr(self._text[at : at + 10].split("\n")[0]) if at < len(self._text) else "the end"
            raise SourceError("rule-syntax", f"'(' is expected, not {found}", at, "a part is (field,function,value)")
        self.at += 1
        self._skip_blanks()
        if self._text[self.at : self.at + 1] not in ("(", "!"):
            return self._part(at)
        inside = self._either(depth + 1)
        self._skip_blanks()
        if not self._take(")"):
            raise SourceError("rule-syntax", "this '(' is not closed", at, "add ')', or '&' or '|' between two parts")
        return inside if inside.startswith("(") and inside.endswith(")") and " and " not in inside else f"({inside})"

    def _take(self, symbol: str) -> bool:
        self._skip_blanks()
        if not self._text.startswith(symbol, self.at):
            return False
        self.at += 2 if symbol != ")" and self._text.startswith(symbol * 2, self.at) else 1
        return True

    def _skip_blanks(self) -> None:
        while self.at < len(self._text) and self._text[self.at].isspace():
            self.at += 1

    def _part(self, at: int) -> str:
        """The condition of a part; ``false`` and a warning for a function that does not exist."""
        pieces = self._pieces(at)
        try:
            return self._condition(pieces)
        except SourceError as error:
            if error.code != "unknown-function":
                raise
            never = SourceError(error.code, f"{error}: the part is never true", error.at, error.hint)
            never.is_warning = True
            self.warnings.append(never)
            return "false"

    def _condition(self, pieces: list[_Piece]) -> str:
        texts = [piece.text for piece in pieces]
        if len(pieces) == 1:
            return condition(texts[0], None, [], pieces[0].at, pieces[0].at)
        function = pieces[1]
        if function.text != function.text.strip():
            raise SourceError(
                "unknown-function",
                f"there is no function {function.text!r}, since the blanks are part of the name",
                function.at,
                f"write {function.text.strip()!r} without blanks",
            )
        return condition(texts[0], function.text, texts[2:], pieces[0].at, function.at, is_list=not pieces[-1].is_quoted)

    def _pieces(self, begin: int) -> list[_Piece]:
        """What stands between the commas up to the bracket that closes the part; quotes and inner brackets hold commas."""
        text, pieces, depth = self._text, list[_Piece](), 0
        start = at = self.at
        is_blank = True  # since the last comma
        while at < len(text):
            character = text[at]
            if character == "'" and is_blank:
                end = text.find("'", at + 1)
                if end < 0:
                    raise SourceError("rule-syntax", "this quote is not closed", at, "add the second '")
                at = end
            elif character == "(":
                depth += 1
            elif character == ")" and depth:
                depth -= 1
            elif character == ")" or (character == "," and not depth):
                pieces.append(_piece(text[start:at], start))
                start = at + 1
                is_blank = True
                if character == ")":
                    self.at = at + 1
                    return pieces
            elif character == "\n" and not pieces:
                break
            is_blank = start == at + 1 or (is_blank and character.isspace())
            at += 1
        raise SourceError("rule-syntax", "this '(' is not closed", begin, "a part is (field,function,value)")


def _piece(text: str, at: int) -> _Piece:
    stripped = text.strip()
    if len(stripped) > 1 and stripped[0] == stripped[-1] == "'":
        return _Piece(stripped[1:-1], at, True)
    return _Piece(text, at, False)
