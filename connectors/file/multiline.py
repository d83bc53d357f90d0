"""The option ``multiline``: which lines make an event."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from typing import NoReturn

from pydantic import BaseModel, ConfigDict, Field

from connectors.file.charset import wide
from connectors.file.grouping import Grouping, table
from connectors.file.presets import PRESETS, Name, Preset
from etl.api import Duration, Finding, Size
from etl.scanner.engines import prove
from etl.scanner.pattern_error import PatternError
from etl.scanner.scanner import Scanner
from etl.scanner.syntax import parse
from etl.scanner.tree import Node
from etl.scanner.ways import way

WAYS = ("start", "continue", "end", "preset")
"""The options of which one says how lines are gathered."""

PATIENCE = timedelta(seconds=1)
"""Longest time that a pattern which needs backtracking may take for one line; a line that takes longer does not match."""

_CONTINUES = {
    "start": table(1, lambda before, this: this != 0),
    "continue": table(1, lambda before, this: this == 0),
    "end": table(1, lambda before, this: before != 0),
}


class Multiline(BaseModel):
    """Which lines make an event: one of `start`, `continue`, `end` and `preset` says it.

    Patterns are those of the `regex` parser and are searched anywhere in the line; begin them with ``^``. The lines of
    an event are joined by a newline; a return in front of it is dropped.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    start: str | None = Field(
        default=None, min_length=1, description="A line that matches begins an event.", examples=["^\\d{4}-\\d\\d-\\d\\d "]
    )
    continued: str | None = Field(
        default=None,
        alias="continue",
        min_length=1,
        description="A line that matches belongs to the event before it; any other begins one.",
        examples=["^\\s"],
    )
    end: str | None = Field(
        default=None, min_length=1, description="A line that matches ends its event.", examples=["^</record>"]
    )
    preset: Name | None = Field(
        default=None,
        description="Patterns for stack traces of a language, or for the parts of container log lines; other lines are events.",
    )
    max_lines: int = Field(
        default=500, ge=1, le=1_000_000, description="Most lines of an event; what follows is an event of its own."
    )
    max_bytes: Size = Field(
        default=1 << 20,
        ge=1,
        le=64 << 20,
        description="Most bytes of an event as they stand in the file; what follows is an event of its own.",
    )
    timeout: Duration = Field(
        default=timedelta(seconds=5),
        description="How long the last event may wait for more lines while nothing is written; later ones make another event.",
    )

    @property
    def patterns(self) -> dict[str, str]:
        """The options among start, continue and end that are given."""
        given = {"start": self.start, "continue": self.continued, "end": self.end}
        return {name: pattern for name, pattern in given.items() if pattern is not None}

    def findings(self, codec: str) -> Iterator[Finding]:
        """About a source's option ``multiline``, whose character set is ``codec``."""
        for finding in self._findings():
            yield replace(finding, path=("multiline", *finding.path))
        if wide(codec):
            hint = "leave multiline out, or convert the text to utf-8"
            yield Finding("unknown-charset", f"lines in charset {codec!r} cannot be gathered into events", ("charset",), hint)

    def _findings(self) -> Iterator[Finding]:
        """No way or several of telling events apart; bad and slow patterns."""
        given = [*self.patterns, *(["preset"] if self.preset else [])]
        if len(given) != 1:
            found = "none is given" if not given else f"{' and '.join(given)} are given"
            yield Finding("one-of", f"one of {', '.join(WAYS)} says which lines make an event, and {found}")
        for name, pattern in self.patterns.items():
            yield from _findings(name, pattern)

    def grouping(self) -> Grouping:
        """As a function of lines. Raises PatternError."""
        return _grouping(self)


@lru_cache(maxsize=64)
def _grouping(options: Multiline) -> Grouping:
    preset = PRESETS[options.preset] if options.preset else _given(options)
    scanner = Scanner([_tree(pattern) for pattern in preset.patterns], PATIENCE)
    return Grouping(scanner, preset.continues, options.max_lines, options.max_bytes, preset.spliced)


def _given(options: Multiline) -> Preset:
    ((name, pattern),) = options.patterns.items()
    return Preset((pattern,), _CONTINUES[name])


def _tree(pattern: str) -> Node:
    """Raises PatternError."""

    def unknown(name: str, at: int) -> NoReturn:
        raise PatternError(f"%{{{name}}} is grok's, and this is a regular expression", at, hint="write the expression itself")

    try:
        return parse(pattern, unknown)
    except RecursionError:
        raise PatternError("the pattern is nested too deeply", 0) from None


def _findings(name: str, pattern: str) -> Iterator[Finding]:
    try:
        tree = _tree(pattern)
    except PatternError as error:
        yield Finding(error.code, error.message, (name,), error.hint, at=error.at)
        return
    engine, reason = way(tree)
    if reason is not None:
        try:
            prove(tree)
        except ValueError as error:
            yield Finding("bad-pattern", f"the pattern does not compile: {error}", (name,))
        slow = "it runs on RE2 and" if engine == "RE2" else "some lines or all run one by one and"
        hint = "write it without, if its meaning allows"
        yield Finding("slow-pattern", f"the pattern needs {reason}, so {slow} many times slower", (name,), hint, "warning")
