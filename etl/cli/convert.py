"""``etl convert``: a script as the pipeline file that says the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from etl.catalogue import installed
from etl.cli.config_options import PipelineFile
from etl.config.document.sql_script import read_script
from etl.config.loader import inspect, is_script


@click.command()
@click.argument("file", type=PipelineFile(exists=True, dir_okay=False))
def command(file: Path) -> None:
    """Print the YAML pipeline that an SQL script is equal to.

    \b
    Examples:
      etl convert job.sql
      etl convert job.sql > job.yaml
    """
    if not is_script(file):
        raise click.UsageError(f"{file} is no SQL script: the name of one ends in .sql")
    document = read_script(file.read_bytes(), installed())
    if document.flaws:
        for problem in inspect(file).problems:
            click.echo(str(problem), err=True)
        raise click.exceptions.Exit(1)
    click.echo(yaml_text(document.value), nl=False)


def yaml_text(value: Any) -> str:
    """A pipeline file with this value: mappings that hold no others in one line."""
    import yaml

    return str(yaml.safe_dump(value, sort_keys=False, default_flow_style=None, allow_unicode=True, width=120))
