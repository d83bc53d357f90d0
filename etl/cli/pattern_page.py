"""A named pattern for its user: definition, what it stands for, fields, an example."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from etl.catalogue import NamedPattern

MOST_SHOWN = 300
"""Characters of an expanded expression that are shown: whole ones have thousands."""


def text(pattern: NamedPattern) -> str:
    """The page."""
    return "\n".join(_lines(pattern))


def _lines(pattern: NamedPattern) -> Iterator[str]:
    sets = f"set{'s' if len(pattern.sets) > 1 else ''} {' and '.join(pattern.sets)}"
    yield click.style(f"{pattern.name} (pattern, {sets}, file {pattern.file})", bold=True)
    yield from _section("Definition", [f"  {pattern.definition}"])
    if pattern.expanded != pattern.definition:
        yield from _section("Expanded", [f"  {_short(pattern.expanded)}"])
    example = pattern.example
    if pattern.fields:
        yield from _section("Fields", _fields(pattern.fields, example.fields if example else {}))
    if example:
        yield from _section("Example", [f"  {line}" for line in example.line.split("\n")])


def _section(title: str, lines: list[str]) -> Iterator[str]:
    yield ""
    yield click.style(title, bold=True)
    yield from lines


def _short(expression: str) -> str:
    if len(expression) <= MOST_SHOWN:
        return expression
    return f"{expression[:MOST_SHOWN]}… ({len(expression):,} characters)"


def _fields(types: Mapping[str, str], found: Mapping[str, Any]) -> list[str]:
    """Name, type, and what the example gives."""
    names, kinds = max(map(len, types)), max(map(len, types.values()))
    values = {name: repr(value) for name, value in found.items()}
    return [f"  {name:<{names}}  {kind:<{kinds}}  {values.get(name, '')}".rstrip() for name, kind in types.items()]
