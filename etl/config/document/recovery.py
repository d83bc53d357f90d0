"""Replaces the smallest part of a text that has a syntax error, so that the rest can be checked.

The rest keeps its lines and columns. It is checked only if the text without that part is YAML or has its next error further
down; an error without such an end, such as a quote that is never closed, ends the check of the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from etl.config.document.text_locations import location_of
from etl.config.document.yaml_document import YamlProblem
from etl.config.model import OptionPath, YamlLocation

MAX_ERRORS = 5
"""Maximum number of syntax errors that are reported at once."""

_MAX_TRIED = 40
"""Maximum number of parts that are tried for one error: each costs a parse of the text."""
_BLANK = "{}"
_UNIT = re.compile(r"(?P<indent> *)(?P<dash>- +)?(?:(?P<key>[\w.$@/-]+) *:(?=\s|$))?")
_KEY = re.compile(r"\s*[\w.$@/-]+ *:(?=\s|$)")
_PAIR = re.compile(r"(?:(?<=[{,])|^)\s*[\w.$@/-]+\s*:\s+", re.MULTILINE)
"""A key of a mapping in braces, up to its value."""
_QUOTED = re.compile(r"""\"(?:[^"\\]|\\.)*"|'[^']*'""")
_CLOSERS = {"{": "}", "[": "]"}
_DECIDE = (("sources",), ("streams",), ("steps",), ("sinks",), ("tables",))
"""Paths of parts without which nothing is known about the parts beside them."""


@dataclass(frozen=True)
class RecoveredText:
    """A text in which the part with an error is replaced by an empty mapping."""

    text: str
    location: YamlLocation
    """Location of the empty mapping that stands in place of the part."""
    next_flaw: YamlProblem | None
    """The next syntax error, after the part."""
    hides_others: bool
    """Whether lines that belong to other keys are in the part, because they are indented deeper than its one-line text."""


@dataclass(frozen=True)
class _Cut:
    """A part that may be left out: from ``start`` to before ``end``; ``closers`` close the brackets around it."""

    start: int
    end: int
    closers: str = ""


def replace_broken_part(text: str, error: YamlLocation, find_flaw: Callable[[str], YamlProblem | None]) -> RecoveredText | None:
    """Replace the smallest part around ``error`` so that no error is left up to its end; None if there is no such part."""
    for number, cut in enumerate(_cuts(text, error)):
        if number == _MAX_TRIED:
            return None
        first, line_end, others = text[cut.start : cut.end].partition("\n")
        blank = _BLANK if text[cut.start - 1] == " " or cut.start == 0 else f" {_BLANK}"
        filled = blank.ljust(len(first)) + line_end + re.sub(r"[^\n]", " ", others) + cut.closers
        rest = text[: cut.start] + filled + text[cut.end :]
        flaw = find_flaw(rest)
        if flaw is None or flaw.location[0] > location_of(text, cut.end)[0]:
            is_text = bool(re.match(r"\s*[^\s{\[\"'|>&*!]", first)) and not _KEY.match(first)
            location = location_of(rest, rest.index(_BLANK, cut.start))
            return RecoveredText(rest, location, flaw, is_text and bool(others.strip()))
    return None


def leaves_rest_checkable(path: OptionPath) -> bool:
    """Whether the parts elsewhere can be checked without the value at this path."""
    return bool(path) and path not in _DECIDE and not (path[0] == "streams" and (len(path) == 2 or path[2:] == ("steps",)))


def _cuts(text: str, error: YamlLocation) -> Iterator[_Cut]:
    """Parts around an error, the smaller ones first: values in braces, then the item or key that they belong to."""
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    at = min(error[0], len(lines)) - 1
    for first, column, depth in _units(lines, at):
        last = first
        while last + 1 < len(lines) and (not lines[last + 1].strip() or _indent(lines[last + 1]) > depth):
            last += 1
        unit = _Cut(starts[first] + column, starts[last] + len(lines[last]))
        if text.startswith("{", unit.start):
            yield from _braces_cuts(text, unit, starts[at] + error[1] - 1)
        yield unit


def _units(lines: list[str], at: int) -> Iterator[tuple[int, int, int]]:
    """The items and keys around a line, the innermost first: line, column of the value, column of the item or key."""
    limit = _indent(lines[at]) if lines[at].strip() else len(lines[at])
    for number in range(at, -1, -1):
        found = _UNIT.match(lines[number])
        if found is None or not lines[number].strip() or not (number == at or _indent(lines[number]) < limit):
            continue
        if found["key"]:
            value = lines[number].index(":", found.end("key")) + 1
            yield number, min(value + 1, len(lines[number])), found.start("key")
        if found["dash"]:
            yield number, found.end("dash"), len(found["indent"])
        if found["key"] or found["dash"]:
            limit = _indent(lines[number])


def _braces_cuts(text: str, unit: _Cut, error: int) -> Iterator[_Cut]:
    """Values in the braces of ``unit``: first the one with the error, alone and with those after it; then those before it."""
    inside = text[unit.start : unit.end]
    end = unit.start + len(inside.rstrip())
    pairs = [(unit.start + found.start(), unit.start + found.end()) for found in _PAIR.finditer(inside)]
    for number in range(len(pairs) - 1, -1, -1):
        start, value = pairs[number]
        if start > error and number:
            continue
        commas = (text.rfind(",", value, following + 1) for following, _ in pairs[number + 1 :])
        yield from (_Cut(value, comma) for comma in commas if comma >= value + len(_BLANK))
        yield _Cut(value, end, _open_brackets(text[unit.start : value]))


def _open_brackets(text: str) -> str:
    """What closes the brackets that a text opens outside of quotes."""
    waiting: list[str] = []
    for character in _QUOTED.sub("", text):
        if character in _CLOSERS:
            waiting.append(_CLOSERS[character])
        elif waiting and character == waiting[-1]:
            waiting.pop()
    return "".join(reversed(waiting))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
