"""Generating grok patterns from the lines of a sample: for their headers, and for the most frequent messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from etl.inference.column_names import name_columns
from etl.inference.column_patterns import MESSAGE, make_header_pattern
from etl.inference.continuations import find_event_start, join_lines
from etl.inference.grok.template_patterns import message_pattern
from etl.inference.grok.templates import Template, find_templates
from etl.inference.header import Column, Header, find_header
from etl.inference.time_formats import choose_format, is_ambiguous

MAX_LINES = 2_000
"""Lines of a sample that are compared."""
MAX_HEADERS, MAX_MESSAGES = 6, 8
"""Patterns for headers, and for messages under one header."""
MIN_LINES, MIN_SHARE = 2, 0.005
"""Minimum number of lines for a header's pattern, as a number and as a share."""
MIN_MESSAGE_SHARE = 0.03
"""Minimum share of lines for a message's pattern."""
TIME = "timestamp"
HEADER = "HEADER"
_FIELD = re.compile(r"%\{\w+:([\w.@-]+)|\(\?<([\w.@-]+)>")


@dataclass(frozen=True)
class Pattern:
    """A grok pattern, and the number of the sample's events that it was generated from."""

    text: str
    events: int
    example: str
    """The first of them."""


@dataclass(frozen=True)
class Proposal:
    """The patterns, definitions, time formats and notes proposed for a sample."""

    patterns: tuple[Pattern, ...]
    definitions: dict[str, str]
    formats: tuple[str, ...]
    """Formats of the times; empty if lines have no time, or only a time of day."""
    multiline: str | None = None
    """Pattern of the first line of an event, if events have several lines."""
    notes: tuple[str, ...] = ()
    """What the lines do not show and the user must decide."""


def propose_grok(lines: Sequence[str]) -> Proposal | None:
    """Propose patterns for these lines; None if they have nothing in common."""
    start = find_event_start(lines[:MAX_LINES])
    events = [event for event in join_lines(lines[:MAX_LINES], start) if event.strip()]
    found = _Builder(events)
    found.build()
    if not found.patterns:
        return None
    return Proposal(
        tuple(found.patterns), found.definitions, tuple(dict.fromkeys(found.formats)), start, tuple(dict.fromkeys(found.notes))
    )


class _Builder:
    """Collects patterns, those of most events first."""

    def __init__(self, events: Sequence[str]) -> None:
        self.events = events
        self.patterns: list[Pattern] = []
        self.definitions: dict[str, str] = {}
        self.formats: list[str] = []
        self.notes: list[str] = []

    def build(self) -> None:
        left = list(range(len(self.events)))
        min_lines = max(MIN_LINES, int(MIN_SHARE * len(left))) if len(left) > 1 else 1
        for _ in range(MAX_HEADERS):
            header = find_header([self.events[number] for number in left]) if len(left) >= min_lines else None
            if header is None or len(header.lines) < min_lines or not _is_informative(header):
                break
            self._add_header(header, left)
            having = set(header.lines)
            left = [number for at, number in enumerate(left) if at not in having]
        if len(left) >= min_lines:
            self._add_templates([(number, self.events[number]) for number in left], "^", min_lines)

    def _add_header(self, header: Header, left: Sequence[int]) -> None:
        names = name_columns(header.columns, header.after)
        columns = self._set_times(header.columns, names)
        self._note_time_of_day(header.columns, names)
        header = Header(columns, header.lines, header.after, header.ends)
        pattern = make_header_pattern(header)
        messages = [(left[at], self.events[left[at]][end:]) for at, end in zip(header.lines, header.ends, strict=True)]
        if not any(text.strip() for _, text in messages):
            self.patterns.append(Pattern(rf"{pattern}\s*\z", len(messages), self.events[messages[0][0]]))
            return
        min_lines = max(MIN_LINES + 1, int(MIN_MESSAGE_SHARE * len(self.events)))
        chosen = [one for one in find_templates(messages) if len(one.lines) >= min_lines and _is_worth(one)][:MAX_MESSAGES]
        taken = {name for names in _FIELD.findall(pattern) for name in names if name}
        beginning = self._add_name(pattern) if chosen else pattern
        for one in chosen:
            text, _ = message_pattern(one, taken | {MESSAGE})
            self.patterns.append(Pattern(rf"{beginning}(?<{MESSAGE}>{text})\s*\z", len(one.lines), self.events[one.lines[0]]))
        known = {number for one in chosen for number in one.lines}
        rest = [number for number, _ in messages if number not in known]
        example = self.events[rest[0]] if rest else ""
        self.patterns.append(Pattern(f"{beginning}%{{GREEDYDATA:{MESSAGE}}}", len(rest), example))

    def _add_name(self, pattern: str) -> str:
        """The header as a definition, so that patterns of messages stay short."""
        name = HEADER if HEADER not in self.definitions else f"{HEADER}{len(self.definitions) + 1}"
        self.definitions[name] = pattern.removeprefix("^")
        return f"^%{{{name}}}"

    def _set_times(self, columns: Sequence[Column], names: Sequence[str]) -> list[Column]:
        """The columns; the formats of their times go to ``formats``, and a time that none reads is a text."""
        return [self._with_format(column) if name == TIME else column for column, name in zip(columns, names, strict=True)]

    def _note_time_of_day(self, columns: Sequence[Column], names: Sequence[str]) -> None:
        found = next((name for column, name in zip(columns, names, strict=True) if column.form and not column.form.formats), None)
        if found and TIME not in names:
            self.notes.append(
                f"{found!r} is a time of day: the lines do not tell the date, so there is no timestamp; for windows and dates in "
                'paths let the program write the date, too, or give it one: {type: timestamp, formats: "HH:mm:ss", date: latest}'
            )

    def _with_format(self, column: Column) -> Column:
        assert column.form
        chosen = choose_format(column.form, column.values)
        if chosen is None:
            return replace(column, kind="text", form=None)
        self.formats.append(chosen)
        if is_ambiguous(column.form, column.values):
            others = ", ".join(text for text in column.form.formats if text != chosen)
            self.notes.append(f"the times may also be {others}: the lines do not tell")
        return replace(column, form=column.form.with_format(chosen))

    def _add_templates(self, lines: Sequence[tuple[int, str]], beginning: str, min_lines: int) -> None:
        for one in find_templates(lines)[:MAX_MESSAGES]:
            if len(one.lines) >= min_lines and _is_worth(one):
                text, names = message_pattern(one, set())
                if names:
                    self.patterns.append(Pattern(rf"{beginning}{text}\s*\z", len(one.lines), self.events[one.lines[0]]))


def _is_informative(header: Header) -> bool:
    """Whether a header has more than a leading number or mark."""
    kinds = [column.kind for column in header.columns]
    return bool({"time", "level", "component"} & set(kinds)) or sum(1 for kind in kinds if kind != "dash") > 2


def _is_worth(template: Template) -> bool:
    """Whether it has both constant words and values."""
    return template.has_values() and _constants(template) > 0


def _constants(template: Template) -> int:
    words = (key for key in template.keys if key and key[0] != "<")
    return sum(1 for word in words if any(letter.isalpha() for letter in word))


def describe_patterns(patterns: Sequence[Pattern]) -> Iterator[str]:
    """The patterns with their numbers of events, one line each."""
    width = len(f"{max(one.events for one in patterns):,}")
    for one in patterns:
        yield f"{one.events:>{width},}  {one.text}"
