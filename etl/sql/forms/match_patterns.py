"""``PATTERN (…)`` of MATCH_RECOGNIZE → its variables and groups, each with a quantifier."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from etl.sql.statements import ScriptError

_NAME = re.compile(r"\s*([A-Za-z_]\w*)")
_QUANTIFIER = re.compile(r"\s*(?P<many>\{\s*(?:\d+\s*(?:,\s*\d*\s*)?|,\s*\d+\s*)\}|[+*?])(?P<few>\?)?")
_FIXED = re.compile(r"\{(\d+)\}")
_NONE = re.compile(r"\{0+[,}]")

MAX_VARIABLES = 500
"""Of a pattern."""

MAX_DEPTH = 50
"""Of groups in groups."""


@dataclass(frozen=True, kw_only=True)
class Repeated:
    """A part of a pattern with its quantifier."""

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
    def is_optional(self) -> bool:
        """Whether it may take no row."""
        return self.many in ("?", "*") or bool(_NONE.match(self.many))

    @property
    def never_ends(self) -> bool:
        """Whether more rows could always follow, were it the last part."""
        return self.is_open and (not self.few or self.is_optional)

    def _suffix(self, keeps: bool) -> str:
        """The quantifier in the step's notation; ``keeps``: as Flink, it gives no row that it can take to what follows."""
        greedy = "+" if keeps and self.is_open and self.many not in ("?", "{0,1}") else ""
        return f"{self.many}{self.few or greedy}{' consecutive' if self.many else ''}"


@dataclass(frozen=True, kw_only=True)
class PatternVariable(Repeated):
    """A variable of a pattern."""

    name: str

    @property
    def text(self) -> str:
        """The element of the step's pattern."""
        return f"{self.name}{self._suffix(keeps=True)}"

    @property
    def names(self) -> Iterator[str]:
        """Its name."""
        yield self.name

    @property
    def ends(self) -> Iterator[PatternVariable]:
        """Itself, the last one of what it takes."""
        yield self


@dataclass(frozen=True, kw_only=True)
class PatternGroup(Repeated):
    """Alternatives in brackets, or only one that is repeated."""

    alternatives: tuple[tuple[PatternPart, ...], ...]

    @property
    def text(self) -> str:
        """The group of the step's pattern. One of single rows is greedy as a variable is; of others each way is tried."""
        single = all(len(one) == 1 and isinstance(one[0], PatternVariable) and not one[0].many for one in self.alternatives)
        return f"({' | '.join(map(step_text, self.alternatives))}){self._suffix(keeps=single)}"

    @property
    def names(self) -> Iterator[str]:
        """Those of its variables."""
        return (name for one in self.alternatives for part in one for name in part.names)

    @property
    def ends(self) -> Iterator[PatternVariable]:
        """The variables with which it can end."""
        return (end for one in self.alternatives for end in ends_of(one))


PatternPart: TypeAlias = PatternVariable | PatternGroup


def step_text(parts: Sequence[PatternPart]) -> str:
    """The pattern as the step reads it: rows follow each other directly."""
    return " then next ".join(part.text for part in parts)


def ends_of(parts: Sequence[PatternPart]) -> Iterator[PatternVariable]:
    """The variables with which these parts can end."""
    for part in reversed(parts):
        yield from part.ends
        if not part.is_optional:
            return


def open_end(parts: Sequence[PatternPart]) -> PatternPart | None:
    """A part at the end after which more rows could always follow."""
    if parts[-1].never_ends:
        return parts[-1]
    inner = parts[-1].alternatives if isinstance(parts[-1], PatternGroup) else ()
    return next((found for one in inner if (found := open_end(one))), None)


def read_pattern(text: str, at: int) -> tuple[PatternPart, ...]:
    """The parts of a pattern that stands at a character of the script. Raises ScriptError."""
    reader = _PatternReader(text.rstrip(), at)
    found = reader.alternatives(0)
    if not found[0]:
        raise ScriptError("sql-syntax", "PATTERN names no variable", at, "PATTERN (A B+ C)")
    return found[0] if len(found) == 1 else (PatternGroup(at=at, alternatives=found),)


class _PatternReader:
    def __init__(self, text: str, at: int) -> None:
        self._text, self._first, self._at, self._variables = text, at, 0, 0

    def alternatives(self, depth: int) -> tuple[tuple[PatternPart, ...], ...]:
        """Those up to the end of the group that is so deep in others, or of the pattern, whose depth is 0."""
        if depth > MAX_DEPTH:
            hint = "leave brackets out"
            raise ScriptError("unsupported-sql", f"more than {MAX_DEPTH} groups are nested", self._first + self._at, hint)
        found: list[list[PatternPart]] = [[]]
        while rest := self._text[self._at :].lstrip():
            at = len(self._text) - len(rest)
            if rest[0] == ")" and depth:
                self._at = at + 1
                return self._checked(found, at)
            if rest[0] == "|":
                self._at = at + 1
                found.append([])
            elif rest[0] == "(":
                self._at = at + 1
                found[-1] += self._group(self.alternatives(depth + 1), self._first + at)
            else:
                found[-1].append(self._variable(at))
        if depth:
            raise ScriptError("sql-syntax", "a group of the pattern has no ')'", self._first + len(self._text), "add ')'")
        return self._checked(found, len(self._text))

    def _checked(self, found: list[list[PatternPart]], end: int) -> tuple[tuple[PatternPart, ...], ...]:
        """Alternatives of which each takes a row."""
        if len(found) > 1 and not all(found):
            raise ScriptError("sql-syntax", "an alternative names no variable", self._first + end, "(A | B C)")
        return tuple(tuple(one) for one in found)

    def _variable(self, at: int) -> PatternVariable:
        name = _NAME.match(self._text, self._at)
        if not name:
            raise self._unsupported(self._text[at], self._first + at)
        if name[1].upper() == "PERMUTE":
            hint = "name the events in an order, or each order as an alternative: (A B | B A)"
            raise ScriptError("unsupported-sql", "PERMUTE is not supported", self._first + at, hint)
        self._variables += 1
        if self._variables > MAX_VARIABLES:
            message = f"a pattern has more than {MAX_VARIABLES} variables"
            raise ScriptError("unsupported-sql", message, self._first + at, "repeat a group")
        self._at = name.end()
        many, few = self._quantifier()
        return PatternVariable(name=name[1], at=self._first + at, many=many, few=few)

    def _group(self, alternatives: tuple[tuple[PatternPart, ...], ...], at: int) -> list[PatternPart]:
        """The parts of a group without a quantifier; that of a single variable is its own."""
        many, few = self._quantifier()
        if len(alternatives) == 1:
            (group,) = alternatives
            if not group or not many:
                return list(group)
            if len(group) == 1 and isinstance(group[0], PatternVariable) and not group[0].many:
                return [replace(group[0], many=many, few=few)]
        if any(all(part.is_optional for part in one) for one in alternatives):
            hint = "make the group optional, with ? after its ')', and not all that is in it"
            raise ScriptError("unsupported-sql", "all variables of a group are optional", at, hint)
        if (fixed := _FIXED.fullmatch(many)) and not fixed[1].strip("0"):
            raise ScriptError("unsupported-sql", "a group is repeated 0 times", at, "leave it out")
        return [PatternGroup(at=at, many=many, few=few, alternatives=alternatives)]

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
    def _unsupported(symbol: str, at: int) -> ScriptError:
        if symbol == ")":
            return ScriptError("sql-syntax", "')' closes no group of the pattern", at, "leave it out")
        reasons = {"{": "exclusions", "^": "anchors", "$": "anchors"}
        what = f"{reasons[symbol]} in a pattern are not supported" if symbol in reasons else f"{symbol!r} does not belong here"
        hint = "a pattern is a list of variables and groups with +, *, ?, {2}, {2,} or {2,5}, as in A (B | C D)+ E"
        return ScriptError("unsupported-sql", what, at, hint)
