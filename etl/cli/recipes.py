"""``etl recipes``: the pipelines that come with the package."""

from __future__ import annotations

from pathlib import Path

import click

from etl.config.document.parser import parse
from etl.config.nested_values import as_mapping
from etl.resources import recipes, scripts


@click.command()
def command() -> None:
    """List the pipelines that come with the package; ``etl init NAME`` copies one.

    \b
    Example:
      etl recipes
    """
    found = dict(sorted((recipes() | scripts()).items()))
    width = max(map(len, found), default=0)
    for name, path in found.items():
        click.echo(f"{name:<{width}}  {purpose(path)}")
    if not found:
        click.echo("no recipes are installed", err=True)


def purpose(path: Path) -> str:
    """A pipeline's description, else its first comment."""
    text = path.read_text("utf-8")
    if path.suffix == ".sql":
        return next((line.lstrip("- ") for line in text.splitlines() if line.startswith("--")), "")
    description = as_mapping(parse(text).value).get("description")
    comments = (line.lstrip("# ").rstrip() for line in text.splitlines() if line.startswith("#"))
    first = (line for line in comments if line and not line.startswith("yaml-language-server"))
    return str(description) if description else next(first, "")
