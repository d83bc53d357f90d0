"""Where a line stops matching a grok pattern: the longest prefix of the pattern that the line still matches."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import Finding, Parsed, Parser
from etl.catalogue import installed
from etl.columns.texts import materialize_array
from etl.inference.grok.pattern_parts import alternatives, next_part

BEFORE, MATCHED = "before", "matched"
MAX_DEPTH = 8
"""Depth of nested definitions that are searched."""

_NAME = re.compile(r"%\{(\w+)")
_GROUP = re.compile(r"\((?:\?:|\?<\w[^>]*>)?(?!\?)(.*)\)[*+?{}\d,]*", re.DOTALL)
_LINES = pa.schema([("message", pa.string())])


@dataclass(frozen=True)
class MatchStop:
    """The end of a line's match: ``column`` (from one) follows the text that ``prefix`` of the pattern matched."""

    column: int
    prefix: str
    expected: str
    within: tuple[str, ...] = ()
    """The named patterns that contain the stop, the outermost first."""


class Grok:
    """The parser `grok` with one pattern."""

    def __init__(self, pattern: str, options: Mapping[str, Any]) -> None:
        self._options = options
        self.pattern = pattern
        self.parser = self._make_parser(pattern)

    def _make_parser(self, pattern: str) -> Parser:
        options = {**self._options, "patterns": [pattern]}
        found = installed().families["step"]["grok"].model_validate(options)
        assert isinstance(found, Parser)
        return found

    def errors(self) -> list[Finding]:
        """The findings about the pattern."""
        return [finding for finding in self.parser.check(_LINES) if finding.severity == "error"]

    def parse(self, lines: Sequence[str]) -> Parsed:
        """What the pattern captures of lines."""
        parsed = self.parser.compile()(pa.array(lines, pa.string()))
        return parsed._replace(columns={name: materialize_array(column) for name, column in parsed.columns.items()})

    def stops(self, lines: Sequence[str]) -> list[MatchStop]:
        """The stop of each line that does not match; of alternatives, the one that matches furthest."""
        found: dict[int, MatchStop] = {}
        for parts in alternatives(self.pattern):
            self._search(parts, 0, dict(enumerate(lines)), (), found)
        return [found[number] for number in range(len(lines))]

    def _search(
        self, parts: Sequence[str], sure: int, lines: Mapping[int, str], within: tuple[str, ...], found: dict[int, MatchStop]
    ) -> None:
        """Put the stops of numbered lines into ``found`` where they are further than what it has.

        ``sure``: the number of parts that are known to match. By halving: a line that matches a beginning of the pattern matches
        every shorter one. A part that names a definition is then searched in the same way.
        """
        matched = self._bisect(parts, sure, lines)
        for count in sorted({count for count, _ in matched.values()}):
            stopped = {number: column for number, (matched_parts, column) in matched.items() if matched_parts == count}
            stop = "".join(parts[:count]), next_part(parts[count:]), within
            best = {number: found[number].column if number in found else 0 for number in stopped}
            found |= {n: MatchStop(column, *stop) for n, column in stopped.items() if column > best[n]}
            left = {number: lines[number] for number, column in stopped.items() if column >= best[number]}
            inner, name = self._inside(parts[count]) if count < len(parts) else ([], "")
            for choice in inner if left and len(within) < MAX_DEPTH else ():
                self._search([*parts[:count], *choice], count, left, (*within, name) if name else within, found)

    def _bisect(self, parts: Sequence[str], sure: int, lines: Mapping[int, str]) -> dict[int, tuple[int, int]]:
        """Line → the number of parts that it matches, and the column after them."""
        found = dict.fromkeys(lines, (sure, 0))
        todo = [(sure, len(parts), list(lines))]
        while todo:
            low, high, numbers = todo.pop()
            if low >= high or not numbers:
                continue
            middle = (low + high + 1) // 2
            columns = self._columns("".join(parts[:middle]), [lines[number] for number in numbers])
            good = {number: column for number, column in zip(numbers, columns, strict=True) if column is not None}
            found |= {number: (middle, column) for number, column in good.items()}
            todo.append((middle, high, list(good)))
            todo.append((low, middle - 1, [number for number in numbers if number not in good]))
        return {number: (matched_parts, column or 1) for number, (matched_parts, column) in found.items()}

    def _inside(self, part: str) -> tuple[list[list[str]], str]:
        """The alternatives of a definition or group that is put together of others, and the definition's name."""
        name, group = _NAME.match(part), _GROUP.match(part)
        text = self._definitions.get(name[1], "") if name else group[1] if group else ""
        return (alternatives(text) if "%{" in text else []), part if name else ""

    @cached_property
    def _definitions(self) -> Mapping[str, str]:
        """Name → expression: the library's, and over it the user's."""
        chosen = self._options.get("pattern_set", "ecs-v1")
        library = {pattern.name: pattern.definition for pattern in installed().patterns if chosen in pattern.sets}
        return library | self._options.get("pattern_definitions", {})

    def _columns(self, beginning: str, lines: Sequence[str]) -> list[int | None]:
        """The column after the match of a prefix of the pattern; None without a match."""
        parser = self._make_parser(rf"\A(?<{BEFORE}>.*?)(?<{MATCHED}>{beginning})")
        if any(finding.severity == "error" for finding in parser.check(_LINES)):
            return [None] * len(lines)  # not a valid pattern, for example without the group of a back-reference
        read: Callable[[pa.Array], Parsed] = parser.compile()
        parsed = read(pa.array(lines, pa.string()))
        failed = [False] * len(lines) if parsed.failed is None else parsed.failed.to_pylist()
        lengths = [
            pc.fill_null(pc.utf8_length(materialize_array(parsed.columns[name])), 0).to_pylist() for name in (BEFORE, MATCHED)
        ]
        return [None if bad else 1 + a + b for bad, a, b in zip(failed, *lengths, strict=True)]
