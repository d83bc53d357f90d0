"""Sources with their sinks for a kill test, and the pipeline that contains them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kill_pairs import Pair
from kill_table import Input, Output, SourceRow, Workspace

from etl.api import Guarantee
from etl.config.loader import load

LOOK_MILLISECONDS = 30
"""Milliseconds from a look for new events to the next one, for each query of the pipeline."""


class KillSetup:
    """Pairs of one or more sources: the events of each source are delivered to all its sinks."""

    def __init__(self, workspace: Workspace, pairs: Sequence[Pair]) -> None:
        self.workspace, self.pairs = workspace, pairs
        self.sources: list[SourceRow] = list(dict.fromkeys(pair.source for pair in pairs))
        self.inputs: list[Input] = [source.input(workspace) for source in self.sources]
        workspaces = [replace(workspace, label=f"{workspace.label}-{number}") for number in range(len(pairs))]
        self.outputs: list[Output] = [pair.sink.output(own) for pair, own in zip(pairs, workspaces, strict=True)]

    @property
    def whole(self) -> bool:
        """Whether the sources are read once and end."""
        return any(source.whole for source in self.sources)

    @property
    def receives(self) -> bool:
        """Whether a source receives events only during a run."""
        return any(source.receives for source in self.sources)

    def begin(self) -> None:
        for one in self.inputs:
            one.begin()

    def write_events(self, first: int, last: int) -> None:
        """Write the same events to each source."""
        for one in self.inputs:
            one.write_events(first, last)

    def steps(self) -> Sequence[str]:
        """Return the steps after those that read the input; a filter makes it a segment with a step."""
        return ["{type: filter, where: n >= 0}"]

    def pipeline(self, name: str) -> str:
        """Return the YAML of a pipeline with all pairs."""
        sources = "".join(f"  source-{number}: {one.options}\n" for number, one in enumerate(self.inputs))
        steps = [", ".join([*one.steps, *self.steps()]) for one in self.inputs]
        streams = "".join(f"  events-{n}: {{from: source-{n}, steps: [{own}]}}\n" for n, own in enumerate(steps))
        numbers = [self.sources.index(pair.source) for pair in self.pairs]
        sinks = "".join(
            f"  {_sink(number)}: {{from: events-{source}, {output.options}}}\n"
            for number, (source, output) in enumerate(zip(numbers, self.outputs, strict=True))
        )
        run = f"run: {{trigger: {trigger(len(self.sources))}}}\n"
        return f"name: {name}\nsources:\n{sources}streams:\n{streams}sinks:\n{sinks}{run}"

    def claims(self, pipeline: Path) -> list[Guarantee]:
        """Return the guarantee that each pair claims with the options in a pipeline's file."""
        sinks = load(pipeline).sinks
        return [pair.claim(sinks[_sink(number)].sink.guaranteed()) for number, pair in enumerate(self.pairs)]


def trigger(queries: int) -> str:
    """Return how often so many queries look for new events: each look takes 4 ms of CPU time, so that fifteen queries with
    100 ms would keep half a core busy with nothing."""
    return f"{max(100, LOOK_MILLISECONDS * queries)}ms"


def _sink(number: int) -> str:
    return f"sink-{number}"
