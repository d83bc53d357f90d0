"""``etl import``: configurations of other tools as pipelines."""

from __future__ import annotations

import os
from pathlib import Path

import click

from etl.cli.config_options import PipelineFile, add_force, check_new_file


@click.command()
@click.argument("files", type=PipelineFile(exists=True, dir_okay=False), nargs=-1, required=True)
@click.option(
    "--pipeline", "name", metavar="NAME", help="The pipeline to import, where a file has several; the first by default."
)
@click.option(
    "--sample",
    type=PipelineFile(exists=True, dir_okay=False),
    help="A log that the configuration reads: its JSON lines show the members and their types.",
)
@click.option(
    "--timezone", default="UTC", show_default=True, help="Zone of times without one; TIMEZONE in the environment changes it."
)
@click.option(
    "--output", "-o", type=click.Path(path_type=Path, dir_okay=False), help="The file to write; standard output by default."
)
@add_force
def command(
    files: tuple[Path, ...], name: str | None, sample: Path | None, timezone: str, output: Path | None, force: bool
) -> None:
    """Print the pipeline that does what the configuration of another tool does.

    FILES are of Logstash, Filebeat, Fluent Bit, Vector, rsyslog or Telegraf, or ingest pipelines of Elasticsearch and
    OpenSearch: one each, or as GET _ingest/pipeline gives them; pipelines that others call are found in files of their
    names beside them. What has no counterpart stands as a comment at its place and in the report, on standard error.

    \b
    Examples:
      etl import pipeline.yml > job.yaml
      etl import pipeline.json --sample /var/log/app.json -o job.yaml
      etl import /etc/logstash/conf.d/*.conf -o job.yaml
      etl import /etc/filebeat/filebeat.yml -o job.yaml
    """
    from etl.config.environment import undefined_variables
    from etl.migration.draft import NoCounterpartError
    from etl.migration.origins import ImportRequest, import_configuration
    from etl.migration.sampling import json_members

    if output is not None:
        check_new_file(output, force)
    members = None
    if sample is not None:
        with sample.open(encoding="utf-8", errors="replace") as lines:
            members = json_members(lines)
    try:
        found = import_configuration(ImportRequest(files, name, timezone, sample, members))
    except NoCounterpartError as error:
        click.echo(str(error), err=True)
        raise click.exceptions.Exit(1) from None
    if output is None:
        click.echo(found.text, nl=False)
    else:
        output.write_text(found.text, "utf-8")
    for line in found.report.lines(found.noun):
        click.echo(line, err=True)
    for variable, message in undefined_variables(found.text, os.environ).items():
        about = message or "the pipeline reads it from the environment"
        click.echo(f"  set {variable} before `etl lint` and `etl run`: {about}", err=True)
