"""``etl list``: the installed components and patterns."""

from __future__ import annotations

import click

from etl.api import Component, nearest
from etl.catalogue import installed, type_name
from etl.config.schema import summary
from etl.reference import group_components

_WHAT = ("sources", "steps", "parsers", "sinks", "tables", "patterns", "functions")


@click.command()
@click.argument("what", required=False, type=click.Choice(_WHAT))
@click.argument("text", required=False, default="")
def command(what: str | None, text: str) -> None:
    """List sources, steps, parsers, sinks and tables, or only one kind of them; or the patterns that `grok` knows; or the
    functions that expressions have beside Spark's.

    TEXT leaves those whose name contains it; of patterns also those whose file or set does, of functions those whose description
    does.

    \b
    Examples:
      etl list
      etl list sinks
      etl list patterns
      etl list patterns httpd
      etl list functions ip
    """
    special = {"patterns": _patterns, "functions": _functions}
    lines = special[what](text) if what in special else _components(what, text)
    for line in lines:
        click.echo(line)


def _components(what: str | None, text: str) -> list[str]:
    chosen = {name: found for name, found in group_components(installed()).items() if what in (None, name)}
    groups = {name: [c for c in found if text.lower() in type_name(c)] for name, found in chosen.items()}
    names = [type_name(c) for found in groups.values() for c in found]
    if text and not names:
        raise _nothing_found_error(text, [type_name(c) for found in chosen.values() for c in found])
    width = max(map(len, names), default=0)
    if what is not None:
        return [_line(component, width) for component in groups[what]]
    return [line for name, found in groups.items() for line in (click.style(name, bold=True), *_indent(found, width), "")]


def _indent(found: list[type[Component]], width: int) -> list[str]:
    return [f"  {_line(component, width)}" for component in found]


def _line(component: type[Component], width: int) -> str:
    return f"{type_name(component):<{width}}  {summary(component)}"


def _patterns(text: str) -> list[str]:
    """A line a name: file, sets, name."""
    rows: dict[tuple[str, str], list[str]] = {}
    for pattern in installed().patterns:
        rows.setdefault((pattern.name, pattern.file), []).extend(pattern.sets)
    found = {row: sets for row, sets in rows.items() if _has(text, *row, *sets)}
    if text and not found:
        raise _nothing_found_error(text, [name for name, _ in rows])
    names, files = max((len(n) for n, _ in found), default=0), max((len(f) for _, f in found), default=0)
    return [f"{name:<{names}}  {file:<{files}}  {', '.join(sets)}" for (name, file), sets in found.items()]


def _functions(text: str) -> list[str]:
    """A line a function: how it is called, and what it does."""
    from etl.expressions.library.catalogue import all_functions

    found = [function for function in all_functions() if _has(text, function.name, function.about)]
    if text and not found:
        raise _nothing_found_error(text, [function.name for function in all_functions()])
    width = min(max((len(function.call) for function in found), default=0), _LONGEST_CALL)
    return [f"{function.call:<{width}}  {function.about}" for function in found]


_LONGEST_CALL = 50
"""Width of the column of calls; longer ones move the text after them."""


def _has(text: str, *words: str) -> bool:
    return any(text.lower() in word.lower() for word in words)


def _nothing_found_error(text: str, names: list[str]) -> click.UsageError:
    return click.UsageError(
        f"nothing here contains {text!r}; {nearest(text.upper(), names) or nearest(text, names) or 'see: etl list'}"
    )
