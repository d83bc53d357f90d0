"""``etl init``: a new pipeline file."""

from __future__ import annotations

from pathlib import Path

import click

from etl.resources import recipes, schema_file

STARTER_NAME = "pipeline.yaml"
STARTER = """\
# A pipeline: where events come from, what is done to them, where they go.
# Check it:      etl lint pipeline.yaml
# Run it:        etl run pipeline.yaml
# What there is: etl list, etl describe grok
description: Failed SSH logins.

source:
  type: file
  path: ${AUTH_LOG:-/var/log/auth.log}

steps:
  # text → fields; %{NAME:field} takes what the pattern NAME finds
  - type: grok
    patterns:
      - "Failed password for (invalid user )?%{USERNAME:user_name} from %{IP:source.ip}"
    on_error: drop            # other lines are no failed logins

  # keep what a Spark SQL condition is true for
  - type: filter
    where: user_name <> 'backup'

sink:
  type: console
"""


@click.command()
@click.argument("recipe", required=False)
def command(recipe: str | None) -> None:
    """Write a pipeline file into this folder: a copy of RECIPE, or one to fill in.

    \b
    Examples:
      etl init
      etl recipes
      etl init ssh-failed-logins
    """
    target = Path(f"{recipe}.yaml" if recipe else STARTER_NAME)
    text = _recipe(recipe) if recipe else STARTER
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise click.ClickException(f"{target} exists already; remove it or work in another folder") from None
    click.echo(f"wrote {target}; next: etl lint {target}", err=True)


def _recipe(name: str) -> str:
    from difflib import get_close_matches

    found = recipes()
    if name not in found:
        near = get_close_matches(name, found, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"recipes are: {', '.join(found) or 'none'}"
        raise click.UsageError(f"there is no recipe {name!r}; {hint}")
    text = found[name].read_text("utf-8")
    return text.replace("$schema=../schemas/pipeline.schema.json", f"$schema={schema_file().as_uri()}", 1)
