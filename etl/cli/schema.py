"""``etl schema``: the JSON Schema of pipeline files."""

from __future__ import annotations

import json

import click

from etl.catalogue import installed
from etl.config.schema import pipeline_schema


@click.command()
def command() -> None:
    """Print the JSON Schema of pipeline files, for editors.

    \b
    Examples:
      etl schema > pipeline.schema.json
      # first line of a pipeline, for editors with the YAML language server:
      # yaml-language-server: $schema=pipeline.schema.json
    """
    click.echo(text())


def text() -> str:
    """The schema as it is committed, without the last newline."""
    return json.dumps(pipeline_schema(installed()), indent=2, ensure_ascii=False)
