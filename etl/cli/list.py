"""``etl list``: what there is to build pipelines of."""

from __future__ import annotations

import click

from etl.api import Component
from etl.catalogue import installed, type_name
from etl.config.schema import summary
from etl.reference import grouped

_WHAT = ("sources", "steps", "parsers", "sinks")


@click.command()
@click.argument("what", required=False, type=click.Choice(_WHAT))
def command(what: str | None) -> None:
    """List sources, steps, parsers and sinks, or only one kind of them.

    \b
    Examples:
      etl list
      etl list sinks
    """
    groups = {name: found for name, found in grouped(installed()).items() if what in (None, name)}
    width = max((len(type_name(c)) for found in groups.values() for c in found), default=0)
    for name, found in groups.items():
        if what is None:
            click.echo(click.style(name, bold=True))
        for component in found:
            click.echo(_line(component, width, indent="" if what else "  "))
        if what is None:
            click.echo()


def _line(component: type[Component], width: int, indent: str) -> str:
    return f"{indent}{type_name(component):<{width}}  {summary(component)}"
