"""Events of several lines: finding the pattern of their first lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from etl.inference.column_patterns import escape_literal
from etl.inference.grok.tokens import tokenize
from etl.inference.times import TimeForm

MIN_MULTILINE_EVENTS = 2
"""Minimum number of events of several lines in a sample."""
MIN_CONTINUATION_SHARE = 0.6
"""Minimum share of the other lines that look like continuations, if they are few."""
MANY = 0.25
"""Share of lines without time from which on they are continuations of lines with one."""

_CONTINUES = re.compile(
    r"\s+\S|\s*$|at \S+\(|Caused by: |Suppressed: |Traceback \(|During handling of|The above exception|\.\.\. \d+ more|[)\]}]"
    r"|[\w.$]+(Error|Exception|Warning|Failure)\b|goroutine \d+|panic: |\S+\(.*\)$|--- End of"
)
_INDENTED = re.compile(r"[ \t]+\S")


def find_event_start(lines: Sequence[str]) -> str | None:
    """The pattern of an event's first line; None if every line is an event."""
    shapes = Counter(shape for line in lines if (shape := _time_shape(line)))
    if shapes:
        form, before = shapes.most_common(1)[0][0]
        pattern = rf"^{escape_literal(before)}{form.pattern}"
        return pattern if _is_start(re.compile(pattern), lines) else None
    return r"^\S" if _is_indented(lines) else None


def _time_shape(line: str) -> tuple[TimeForm, str] | None:
    """The form of the time that a line begins with, and what comes before it."""
    first = next(iter(tokenize(line, 1)), None)
    if first is None or first.form is None or len(first.before) > 2 or first.before.isspace():
        return None
    return (first.form, first.before) if first.form.score > 2 or first.form.formats == () else None


def _is_start(start: re.Pattern[str], lines: Sequence[str]) -> bool:
    others = [line for line in lines if not start.match(line)]
    starts = len(lines) - len(others)
    if starts < MIN_MULTILINE_EVENTS or not others or not any(line.strip() for line in others):
        return False
    if any(_has_time(line) for line in others[:200] if not _CONTINUES.match(line)):
        return False
    likely = sum(1 for line in others if _CONTINUES.match(line))
    return likely >= MIN_CONTINUATION_SHARE * len(others) or len(others) >= MANY * len(lines)


def _has_time(line: str) -> bool:
    """Whether a line has a time of its own near its beginning, and so is an event in another form."""
    return any(token.form is not None and token.form.score > 2 for token in tokenize(line, 4))


def _is_indented(lines: Sequence[str]) -> bool:
    """Whether several lines without indent are followed by lines with indent."""
    indented = [bool(_INDENTED.match(line)) for line in lines]
    steps = sum(1 for one, other in pairwise(indented) if other and not one)
    return not indented[0] and steps >= MIN_MULTILINE_EVENTS and steps >= MANY * (len(lines) - sum(indented))


def join_lines(lines: Sequence[str], start: str | None) -> Iterator[str]:
    """Join lines into events as the option `multiline` does."""
    if start is None:
        yield from lines
        return
    begins = re.compile(start)
    event: list[str] = []
    for line in lines:
        if event and begins.match(line):
            yield "\n".join(event)
            event = []
        event.append(line)
    if event:
        yield "\n".join(event)
