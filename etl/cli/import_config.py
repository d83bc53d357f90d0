"""``etl import``: configurations of other tools as pipelines."""

from __future__ import annotations

import re
from pathlib import Path

import click

from etl.cli.config_options import PipelineFile


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
def command(files: tuple[Path, ...], name: str | None, sample: Path | None, timezone: str, output: Path | None) -> None:
    """Print the pipeline that does what an ingest pipeline of Elasticsearch or OpenSearch does.

    FILES are YAML or JSON: a pipeline each, or all as GET _ingest/pipeline gives them. Pipelines that others call are found in
    files of their names beside them. What has no counterpart stands as a comment at its place and in the report, on standard
    error.

    \b
    Examples:
      etl import pipeline.yml > job.yaml
      etl import pipeline.json --sample /var/log/app.json -o job.yaml
    """
    from etl.migration.draft import NotCarriedError
    from etl.migration.ingest.documents import IngestFiles

    read = IngestFiles()
    try:
        for file in files:
            read.add(file)
        read.add_called()
    except NotCarriedError as error:
        click.echo(str(error), err=True)
        raise click.exceptions.Exit(1) from None
    main = name or read.main
    if main not in read.pipelines:
        raise click.UsageError(f"there is no pipeline {main!r}; the files have {', '.join(read.pipelines)}")
    text, lines = _imported(read, main, files[0], sample, timezone)
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, "utf-8")
    for line in lines:
        click.echo(line, err=True)


def _imported(read: object, main: str, file: Path, sample: Path | None, timezone: str) -> tuple[str, list[str]]:
    """The text of the pipeline, and the report."""
    from etl.migration.ingest.documents import IngestFiles
    from etl.migration.ingest.pipeline import IngestImport
    from etl.migration.rendering import render
    from etl.migration.sampling import json_members

    assert isinstance(read, IngestFiles)
    samples = {}
    if sample is not None:
        with sample.open(encoding="utf-8", errors="replace") as lines:
            samples["message"] = json_members(lines)
    ingest = IngestImport(read.pipelines, read.locate, f"${{TIMEZONE:-{timezone}}}", samples)
    draft = ingest.run(main)
    ingest.report.remarks += draft.remarks
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", main if main != "pipeline" else file.resolve().parent.name).strip("-") or "imported"
    description = str(read.pipelines[main].get("description", "")).strip()
    source = {"type": "file", "path": f"${{LOG:-{sample or f'/var/log/{name}.log'}}}"}
    text = render(name, description, source, draft, {"type": "file", "path": f"${{OUT:-{name}.jsonl}}"})
    return text, list(ingest.report.lines("processors"))
