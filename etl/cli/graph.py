"""``etl graph``: a pipeline as a tree or chart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from etl.cli.config_options import PipelineFile, add_config_options, load_environment
from etl.config import Pipeline, load


@click.command()
@click.argument("file", type=PipelineFile(exists=True, dir_okay=False))
@add_config_options
@click.option("--format", "style", type=click.Choice(["text", "mermaid"]), default="text", help="What to draw.")
def command(file: Path, style: str, overrides: tuple[str, ...], env_file: str | None) -> None:
    """Draw a pipeline: sources, streams with their steps, sinks.

    \b
    Examples:
      etl graph ssh.yaml
      etl graph ssh.yaml --format mermaid
    """
    pipeline = load(file, load_environment(env_file), overrides)
    click.echo("\n".join(tree(pipeline) if style == "text" else mermaid(pipeline)))


def tree(pipeline: Pipeline) -> Iterator[str]:
    """Lines of a tree; a union stands below its first input and is named below the others."""
    shown: set[str] = set()
    for name, source in pipeline.sources.items():
        yield f"{name} ({source.type})"
        yield from _below(pipeline, name, "", shown)


def mermaid(pipeline: Pipeline) -> Iterator[str]:
    """Lines of a Mermaid flow chart."""
    yield "flowchart LR"
    for name, source in pipeline.sources.items():
        yield f'  source_{name}[("{name}<br/>{source.type}")]'
    for name, stream in pipeline.streams.items():
        steps = " → ".join(step.type for step in stream.steps)
        yield f'  stream_{name}["{name}{f"<br/>{steps}" if steps else ""}"]'
    for name, output in pipeline.sinks.items():
        yield f'  sink_{name}[/"{name}<br/>{output.sink.type}"/]'
    for name, stream in pipeline.streams.items():
        yield from (f"  {_id(pipeline, feed)} --> stream_{name}" for feed in stream.inputs)
    for name, output in pipeline.sinks.items():
        yield from (f"  {_id(pipeline, feed)} --> sink_{name}" for feed in output.inputs)


def _id(pipeline: Pipeline, name: str) -> str:
    return f"source_{name}" if name in pipeline.sources else f"stream_{name}"


def _below(pipeline: Pipeline, name: str, indent: str, shown: set[str]) -> Iterator[str]:
    streams = [stream for stream in pipeline.streams.values() if name in stream.inputs]
    sinks = [output for output in pipeline.sinks.values() if name in output.inputs]
    last = len(streams) + len(sinks) - 1
    for index, stream in enumerate(streams):
        steps = " → ".join(step.type for step in stream.steps)
        again = stream.name in shown
        label = f"{stream.name} (see above)" if again else f"{stream.name}: {steps}" if steps else stream.name
        yield f"{indent}{'└─' if index == last else '├─'} {label}"
        shown.add(stream.name)
        if not again:
            yield from _below(pipeline, stream.name, indent + ("   " if index == last else "│  "), shown)
    for index, output in enumerate(sinks, len(streams)):
        yield f"{indent}{'└─' if index == last else '├─'} [{output.name}] {output.sink.type}"
