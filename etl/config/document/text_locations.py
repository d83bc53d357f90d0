"""A character of a text, or of a scalar in it → line and column in the file."""

from __future__ import annotations

import re

from etl.config.document.yaml_document import Document, EntryLocation, Scalar
from etl.config.model import YamlLocation

_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)


def location_of(text: str, index: int) -> YamlLocation:
    """Character index → line and column."""
    before = text[:index]
    return before.count("\n") + 1, index - (before.rfind("\n") + 1) + 1


def location_at(document: Document, location: EntryLocation, at: int) -> YamlLocation:
    """The location of character ``at`` of the scalar; the scalar's start where the way it is written does not allow that."""
    scalar = location.scalar
    if scalar is None or not 0 <= at <= len(scalar.text):
        return location.value
    source = document.text[scalar.start : scalar.end]
    index = _block_index(document.text, scalar, at) if scalar.style == "|" else _line_index(source, scalar, at)
    return location.value if index is None else location_of(document.text, scalar.start + index)


def _line_index(source: str, scalar: Scalar, at: int) -> int | None:
    """Index inside the source of a plain or quoted scalar on one line."""
    if "\n" in source.strip() or scalar.style == ">":
        return None
    if scalar.style == "'":
        return 1 + at + scalar.text[:at].count("'")
    if scalar.style == '"':
        return _double_quoted_index(source, at)
    return at


def _double_quoted_index(source: str, at: int) -> int:
    index = 1
    for _ in range(at):
        escape = _ESCAPE.match(source, index)
        index = escape.end() if escape else index + 1
    return index


def _block_index(text: str, scalar: Scalar, at: int) -> int | None:
    """Index after the ``|`` of a block scalar, whose lines all begin with the same indent."""
    header = text.find("\n", scalar.start)
    lines = text[header + 1 : scalar.end].split("\n")
    indents = [len(line) - len(line.lstrip(" ")) for line in lines if line.strip()]
    if header < 0 or not indents or any(character.isdigit() for character in text[scalar.start : header]):
        return None
    before = scalar.text[:at]
    row, column = before.count("\n"), at - (before.rfind("\n") + 1)
    return header + 1 - scalar.start + sum(len(line) + 1 for line in lines[:row]) + indents[0] + column
