"""``etl describe``: one component for its user."""

from __future__ import annotations

import textwrap

import click

from etl.api import nearest
from etl.catalogue import installed, type_name
from etl.cli import pattern_page
from etl.reference import Option, Page, page

_WIDTH = 100


@click.command()
@click.argument("name")
def command(name: str) -> None:
    """Explain a component: what it does, its options, an example. Or a pattern that `grok` knows: what it reads.

    \b
    Examples:
      etl describe grok
      etl describe file
      etl describe SYSLOGBASE
    """
    pages = [_text(page(component)) for component in dict.fromkeys(installed().find(name))]
    pages = pages or [pattern_page.text(pattern) for pattern in installed().patterns if pattern.name == name]
    if not pages:
        raise click.UsageError(f"there is no component or pattern {name!r}; {_hint(name)}")
    click.echo("\n\n".join(pages))


def _hint(name: str) -> str:
    components = {type_name(component) for component in installed().components}
    patterns = {pattern.name for pattern in installed().patterns}
    return nearest(name, components | patterns) or "see: etl list, etl list patterns"


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
