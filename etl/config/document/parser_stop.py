"""Where PyYAML's parser (libyaml) stopped, and the problem that this shows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import yaml

LONGEST_SHOWN = 60
"""Characters of a text that a hint shows."""

KEY = re.compile(r"""\s*(?:- +)*(?P<key>[\w.$/-]+|'[^']*'|"[^"]*")\s*:(?:\s|$)""")


@dataclass(frozen=True)
class SyntaxProblem:
    """Line and column, counted from one; what is there; what to do."""

    line: int
    column: int
    message: str
    hint: str | None = None


@dataclass(frozen=True)
class ParserStop:
    """Where the parser stopped: lines and columns are counted from zero."""

    problem: str
    line: int
    column: int
    opened: tuple[int, int] | None
    """Where the text, list or mapping begins that the parser was reading."""
    lines: list[str]
    text: str

    @staticmethod
    def of(error: yaml.MarkedYAMLError, text: str) -> ParserStop:
        """The stop that an error of PyYAML reports."""
        mark: Any = error.problem_mark or error.context_mark
        opened = (error.context_mark.line, error.context_mark.column) if error.context_mark else None
        return ParserStop(error.problem or "cannot be read", mark.line, mark.column, opened, text.split("\n"), text)

    @property
    def here(self) -> str:
        """The line of the stop."""
        return self.lines[self.line] if self.line < len(self.lines) else ""

    @property
    def rest(self) -> str:
        """The rest of the line, from the stop on."""
        return self.here[self.column :]

    def explain(self, message: str, hint: str | None, at: tuple[int, int] | None = None) -> SyntaxProblem:
        """The problem, at the stop or at another location."""
        line, column = at or (self.line, self.column)
        return SyntaxProblem(line + 1, column + 1, message, hint)


def text_at(line: str, column: int) -> str:
    """What most likely is one text: to a comma or bracket that closes more than is opened in it, or to the line's end."""
    depth, inside = 0, line[:column].count("[") + line[:column].count("{") > line[:column].count("]") + line[:column].count("}")
    for at, character in enumerate(line[column:], column):
        depth += (character in "[{(") - (character in "]})")
        if inside and (depth < 0 or (depth == 0 and character == "," and line[at + 1 : at + 2] in (" ", ""))):
            return line[column:at].rstrip()
    return line[column:].rstrip()
