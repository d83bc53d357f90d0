"""Which sinks of some pipelines write what sources of others read: streams, topics, files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from etl.api import Source
from etl.config.checks.targets import list_or_nothing, read_target
from etl.config.model import Pipeline


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
