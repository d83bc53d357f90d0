"""The option ``multiline``: which lines form an event."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from typing import NoReturn

from pydantic import BaseModel, ConfigDict, Field

from connectors.shared.lines.charset import charset, is_wide
from connectors.shared.lines.line_grouping import LineGrouping, transition_table
from connectors.shared.lines.multiline_presets import PRESETS, Name, Preset
from etl.api import Duration, Finding, Size
from etl.scanner.engine_choice import choose_engine
from etl.scanner.engines import check_compiles
from etl.scanner.pattern_error import PatternError
from etl.scanner.scanner import Scanner
from etl.scanner.syntax import parse
from etl.scanner.tree import Node

RULES = ("start", "continue", "end", "preset")
"""Options of which exactly one defines how lines are grouped."""

PATTERN_TIMEOUT = timedelta(seconds=1)
"""Time limit of a pattern that needs backtracking, for one line; after it the line does not match."""

_CONTINUES = {
    "start": transition_table(1, lambda before, this: this != 0),
    "continue": transition_table(1, lambda before, this: this == 0),
    "end": transition_table(1, lambda before, this: before != 0),
}


class Multiline(BaseModel):
    """Which lines form an event, by exactly one of `start`, `continue`, `end` and `preset`.

    Patterns are those of the `regex` parser and are searched anywhere in the line; begin them with ``^``. The lines of an
    event are joined by a newline; a return before it is dropped.
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
        default=500, ge=1, le=1_000_000, description="Maximum number of lines of an event; further lines form another event."
    )
    max_bytes: Size = Field(
        default=1 << 20,
        ge=1,
        le=64 << 20,
        description="Maximum bytes of an event in the file; further lines form another event.",
    )
    timeout: Duration = Field(
        default=timedelta(seconds=5),
        description="How long the last event waits for more lines while nothing is written; later lines form another event.",
    )

    @property
    def patterns(self) -> dict[str, str]:
        """The options among start, continue and end that are set."""
        given = {"start": self.start, "continue": self.continued, "end": self.end}
        return {name: pattern for name, pattern in given.items() if pattern is not None}

    def check(self, codec: str) -> Iterator[Finding]:
        """Yield findings about a source's option ``multiline``; ``codec`` is its character set."""
        for finding in self._findings():
            yield replace(finding, path=("multiline", *finding.path))
        if is_wide(codec):
            hint = "remove multiline, or convert the text to utf-8"
            yield Finding("unknown-charset", f"lines in charset {codec!r} cannot be grouped into events", ("charset",), hint)

    def _findings(self) -> Iterator[Finding]:
        """Yield findings unless exactly one rule is set, and for invalid and slow patterns."""
        given = [*self.patterns, *(["preset"] if self.preset else [])]
        if len(given) != 1:
            found = "none is given" if not given else f"{' and '.join(given)} are given"
            yield Finding("one-of", f"exactly one of {', '.join(RULES)} is needed, but {found}")
        for name, pattern in self.patterns.items():
            yield from _findings(name, pattern)

    def grouping(self) -> LineGrouping:
        """Return the grouping of lines. Raises PatternError."""
        return _grouping(self)


def check_lines(codec: str, multiline: Multiline | None) -> Iterator[Finding]:
    """Yield findings about a source's options ``charset`` and ``multiline``."""
    try:
        charset(codec)
    except ValueError as error:
        yield Finding("unknown-charset", str(error), ("charset",))
    if multiline:
        yield from multiline.check(codec)


@lru_cache(maxsize=64)
def _grouping(options: Multiline) -> LineGrouping:
    preset = PRESETS[options.preset] if options.preset else _preset_of(options)
    scanner = Scanner([_parse_pattern(pattern) for pattern in preset.patterns], PATTERN_TIMEOUT)
    return LineGrouping(scanner, preset.continues, options.max_lines, options.max_bytes, preset.spliced)


def _preset_of(options: Multiline) -> Preset:
    ((name, pattern),) = options.patterns.items()
    return Preset((pattern,), _CONTINUES[name])


def _parse_pattern(pattern: str) -> Node:
    """Parse a pattern. Raises PatternError."""

    def unknown(name: str, at: int) -> NoReturn:
        raise PatternError(f"%{{{name}}} is grok's, and this is a regular expression", at, hint="write the expression itself")

    try:
        return parse(pattern, unknown)
    except RecursionError:
        raise PatternError("the pattern is nested too deeply", 0) from None


def _findings(name: str, pattern: str) -> Iterator[Finding]:
    try:
        tree = _parse_pattern(pattern)
    except PatternError as error:
        yield Finding(error.code, error.message, (name,), error.hint, at=error.at)
        return
    engine, reason = choose_engine(tree)
    if reason is not None:
        try:
            check_compiles(tree)
        except ValueError as error:
            yield Finding("bad-pattern", f"the pattern does not compile: {error}", (name,))
        slow = "it runs on RE2 and" if engine == "RE2" else "some lines or all run one by one and"
        hint = "write it without, if its meaning allows"
        yield Finding("slow-pattern", f"the pattern needs {reason}, so {slow} many times slower", (name,), hint, "warning")
