"""``etl describe``: one component for its user."""

from __future__ import annotations

import textwrap

import click

from etl.api import nearest
from etl.catalogue import installed, type_name
from etl.reference import Option, Page, page

_WIDTH = 100


@click.command()
@click.argument("type_name", metavar="TYPE")
def command(type_name: str) -> None:
    """Explain a component: what it does, its options, an example.

    \b
    Examples:
      etl describe grok
      etl describe file
    """
    found = list(dict.fromkeys(installed().find(type_name)))
    if not found:
        raise click.UsageError(f"there is no component {type_name!r}; {_hint(type_name)}")
    click.echo("\n\n".join(_text(page(component)) for component in found))


def _hint(name: str) -> str:
    return nearest(name, {type_name(component) for component in installed().components}) or "see: etl list"


def _text(about: Page) -> str:
    parts = [click.style(f"{about.name} ({about.kind})", bold=True), "", about.text, ""]
    if about.guarantee:
        parts += [f"Delivery: {about.guarantee}.", ""]
    parts += [click.style("Options", bold=True), *(line for option in about.options for line in _option(option))]
    if about.example:
        parts += ["", click.style("Example", bold=True), textwrap.indent(about.example.rstrip(), "  ")]
    return "\n".join(parts)


def _option(option: Option) -> list[str]:
    default = "required" if option.default is None else f"default {option.default}"
    head = f"  {click.style(option.name, fg='cyan')}  {option.type}; {default}"
    return [head, *textwrap.wrap(option.description, _WIDTH, initial_indent="      ", subsequent_indent="      ")]
