"""``PATTERN (…)`` of MATCH_RECOGNIZE → its variables in their order, each with a quantifier; groups become their variables."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from etl.sql.statements import ScriptError

_NAME = re.compile(r"\s*([A-Za-z_]\w*)")
_QUANTIFIER = re.compile(r"\s*(?P<many>\{\s*(?:\d+\s*(?:,\s*\d*\s*)?|,\s*\d+\s*)\}|[+*?])(?P<few>\?)?")
_FIXED = re.compile(r"\{(\d+)\}")

MAX_VARIABLES = 500
"""Of a pattern whose groups are written out."""

MAX_DEPTH = 50
"""Of groups in groups."""


@dataclass(frozen=True)
class PatternVariable:
    """A variable of a pattern."""

    name: str
    at: int
    many: str = ""
    """The quantifier, without spaces."""
    few: str = ""
    """``?`` if it is reluctant."""

    @property
    def is_open(self) -> bool:
        """Whether the number of rows is not fixed."""
        return bool(self.many) and not _FIXED.fullmatch(self.many)

    @property
    def text(self) -> str:
        """The element of the step's pattern."""
        return f"{self.name}{self.many}{self.few}{' consecutive' if self.many else ''}"


def read_pattern(text: str, at: int) -> list[PatternVariable]:
    """The variables of a pattern that stands at a character of the script. Raises ScriptError."""
    reader = _PatternReader(text.rstrip(), at)
    found = reader.variables(0)
    if not found:
        raise ScriptError("sql-syntax", "PATTERN names no variable", at, "PATTERN (A B+ C)")
    return found


class _PatternReader:
    def __init__(self, text: str, at: int) -> None:
        self._text, self._first, self._at = text, at, 0

    def variables(self, depth: int) -> list[PatternVariable]:
        """Those up to the end of the group that is so deep in others, or of the pattern, whose depth is 0."""
        if depth > MAX_DEPTH:
            hint = "leave brackets out"
            raise ScriptError("unsupported-sql", f"more than {MAX_DEPTH} groups are nested", self._first + self._at, hint)
        found: list[PatternVariable] = []
        while rest := self._text[self._at :].lstrip():
            at = len(self._text) - len(rest)
            if rest[0] == ")" and depth:
                self._at = at + 1
                return found
            if rest[0] == "(":
                self._at = at + 1
                found += self._repeated(self.variables(depth + 1), self._first + at)
            elif name := _NAME.match(self._text, self._at):
                if name[1].upper() == "PERMUTE":
                    hint = "name the events in an order; Flink has none, either"
                    raise ScriptError("unsupported-sql", "PERMUTE is not supported", self._first + at, hint)
                self._at = name.end()
                found.append(PatternVariable(name[1], self._first + at, *self._quantifier()))
            else:
                raise self._unsupported(rest[0], self._first + at)
            if len(found) > MAX_VARIABLES:
                message = f"a pattern has more than {MAX_VARIABLES} variables, those of repeated groups included"
                raise ScriptError("unsupported-sql", message, self._first + at, "repeat groups less often")
        if depth:
            raise ScriptError("sql-syntax", "a group of the pattern has no ')'", self._first + len(self._text), "add ')'")
        return found

    def _repeated(self, group: list[PatternVariable], at: int) -> list[PatternVariable]:
        """The variables of a group that is repeated a fixed number of times; of a single one the quantifier is its own."""
        many, few = self._quantifier()
        fixed = _FIXED.fullmatch(many)
        if not group or not many:
            return group
        if len(group) == 1 and not group[0].many:
            return [replace(group[0], many=many, few=few)]
        if fixed and 0 < int(fixed[1]) <= MAX_VARIABLES:
            return group * int(fixed[1])
        hint = "repeat it a number of times, as in (A B){2}, or write a query for each number; Flink has no groups at all"
        raise ScriptError("unsupported-sql", f"a group of several variables is not repeated by {many}", at, hint)

    def _quantifier(self) -> tuple[str, str]:
        found = _QUANTIFIER.match(self._text, self._at)
        if found is None:
            return "", ""
        self._at = found.end()
        if another := _QUANTIFIER.match(self._text, self._at):
            message = f"{another[0].strip()!r} follows another quantifier"
            raise ScriptError("sql-syntax", message, self._first + another.start("many"), "put brackets around a group: (A B){2}")
        return "".join(found["many"].split()).replace("{,", "{0,"), found["few"] or ""

    @staticmethod
    def _unsupported(sign: str, at: int) -> ScriptError:
        if sign == ")":
            return ScriptError("sql-syntax", "')' closes no group of the pattern", at, "leave it out")
        reasons = {"|": "alternatives", "{": "exclusions", "^": "anchors", "$": "anchors"}
        what = f"{reasons[sign]} in a pattern are not supported" if sign in reasons else f"{sign!r} does not belong here"
        hint = "a pattern is a list of variables with +, *, ?, {2}, {2,} or {2,5}, and groups of them as (A B){2}"
        hint += "; write a query for each alternative. Flink has none, either" if sign == "|" else ""
        return ScriptError("unsupported-sql", what, at, hint)
