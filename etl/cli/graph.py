"""``etl graph``: pipelines as trees or as a chart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from etl.api import Source
from etl.cli.config_options import PipelineFile, add_config_options, load_environment
from etl.config import Pipeline, load
from etl.config.checks.targets import list_or_nothing, read_target


@click.command()
@click.argument("files", type=PipelineFile(exists=True), nargs=-1, required=True)
@add_config_options
@click.option("--format", "style", type=click.Choice(["text", "mermaid"]), default="text", help="What to draw.")
def command(files: tuple[Path, ...], style: str, overrides: tuple[str, ...], env_file: str | None) -> None:
    """Draw pipelines: sources, streams with their steps, sinks. FILES are files and folders; of several pipelines the graph shows
    which of them read what others write.

    \b
    Examples:
      etl graph ssh.yaml
      etl graph jobs/security
      etl graph ssh.yaml alerts.yaml --format mermaid
    """
    env = load_environment(env_file)
    if len(files) == 1 and not files[0].is_dir():
        pipeline = load(files[0], env, overrides)
        click.echo("\n".join(tree(pipeline) if style == "text" else mermaid(pipeline)))
        return
    from etl.cli.run.pipeline_files import choose_files, load_pipelines

    pipelines = load_pipelines(choose_files(files), env, overrides)
    click.echo("\n".join(trees(pipelines) if style == "text" else mermaid_of_several(pipelines)))


class LineageEdge(NamedTuple):
    """A sink that writes what a source of another pipeline reads."""

    publisher: str
    sink: str
    subscriber: str
    source: str


def lineage_edges(pipelines: Sequence[Pipeline]) -> Iterator[LineageEdge]:
    """All such pairs, in the order of the pipelines and of their sinks."""
    for publisher in pipelines:
        for output in publisher.sinks.values():
            targets = list_or_nothing(output.sink.writes)
            for subscriber in pipelines:
                for name, source in subscriber.sources.items():
                    if subscriber is not publisher and isinstance(source, Source) and read_target(source, targets):
                        yield LineageEdge(publisher.name, output.name, subscriber.name, name)


def trees(pipelines: Sequence[Pipeline]) -> Iterator[str]:
    """Lines of a tree for each pipeline, below its name, with the pipelines that it reads from and writes to."""
    links = list(lineage_edges(pipelines))
    for number, pipeline in enumerate(pipelines):
        yield from [""] if number else []
        yield pipeline.name
        yield from (f"  {line}" for line in tree(pipeline, links))


def tree(pipeline: Pipeline, links: Sequence[LineageEdge] = ()) -> Iterator[str]:
    """Lines of a tree; a union stands below its first input and is named below the others."""
    shown: set[str] = set()
    for name, source in pipeline.sources.items():
        writers = [f"{one.publisher}.{one.sink}" for one in links if (one.subscriber, one.source) == (pipeline.name, name)]
        yield f"{name} ({source.type})" + (f" ← {', '.join(writers)}" if writers else "")
        yield from _below(pipeline, name, "", shown, links)


def mermaid(pipeline: Pipeline) -> Iterator[str]:
    """Lines of a Mermaid flow chart."""
    yield "flowchart LR"
    yield from _chart(pipeline, "")


def mermaid_of_several(pipelines: Sequence[Pipeline]) -> Iterator[str]:
    """Lines of a Mermaid flow chart with a box for each pipeline."""
    yield "flowchart LR"
    prefixes = {pipeline.name: f"p{number}_" for number, pipeline in enumerate(pipelines)}
    for pipeline in pipelines:
        yield f'  subgraph {prefixes[pipeline.name]}["{pipeline.name}"]'
        yield from (f"  {line}" for line in _chart(pipeline, prefixes[pipeline.name]))
        yield "  end"
    for one in lineage_edges(pipelines):
        yield f"  {prefixes[one.publisher]}sink_{one.sink} ==> {prefixes[one.subscriber]}source_{one.source}"


def _chart(pipeline: Pipeline, prefix: str) -> Iterator[str]:
    """Nodes and edges of a pipeline; ``prefix`` begins the names of its nodes."""
    for name, source in pipeline.sources.items():
        yield f'  {prefix}source_{name}[("{name}<br/>{source.type}")]'
    for name, stream in pipeline.streams.items():
        steps = " → ".join(step.type for step in stream.steps)
        yield f'  {prefix}stream_{name}["{name}{f"<br/>{steps}" if steps else ""}"]'
    for name, output in pipeline.sinks.items():
        yield f'  {prefix}sink_{name}[/"{name}<br/>{output.sink.type}"/]'
    for name, stream in pipeline.streams.items():
        yield from (f"  {prefix}{_id(pipeline, feed)} --> {prefix}stream_{name}" for feed in stream.inputs)
    for name, output in pipeline.sinks.items():
        yield from (f"  {prefix}{_id(pipeline, feed)} --> {prefix}sink_{name}" for feed in output.inputs)


def _id(pipeline: Pipeline, name: str) -> str:
    return f"source_{name}" if name in pipeline.sources else f"stream_{name}"


def _below(pipeline: Pipeline, name: str, indent: str, shown: set[str], links: Sequence[LineageEdge]) -> Iterator[str]:
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
            yield from _below(pipeline, stream.name, indent + ("   " if index == last else "│  "), shown, links)
    for index, output in enumerate(sinks, len(streams)):
        readers = [f"{one.subscriber}.{one.source}" for one in links if (one.publisher, one.sink) == (pipeline.name, output.name)]
        label = f"[{output.name}] {output.sink.type}" + (f" → {', '.join(readers)}" if readers else "")
        yield f"{indent}{'└─' if index == last else '├─'} {label}"
