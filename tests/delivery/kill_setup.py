"""A source with its sinks for a kill test, and the pipeline that contains them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kill_pairs import Pair
from kill_table import Output, Workspace

from etl.api import Guarantee
from etl.config.loader import load


class KillSetup:
    """The pairs of one source: its events are delivered to all sinks."""

    def __init__(self, workspace: Workspace, pairs: Sequence[Pair]) -> None:
        self.workspace, self.pairs, self.source = workspace, pairs, pairs[0].source
        self.input = self.source.input(workspace)
        workspaces = [replace(workspace, label=f"{workspace.label}-{number}") for number in range(len(pairs))]
        self.outputs: list[Output] = [pair.sink.output(own) for pair, own in zip(pairs, workspaces, strict=True)]

    def steps(self) -> Sequence[str]:
        """Return the steps after those that read the input; a filter makes it a segment with a step."""
        return ["{type: filter, where: n >= 0}"]

    def pipeline(self, name: str) -> str:
        """Return the YAML of a pipeline with all pairs."""
        steps = ", ".join([*self.input.steps, *self.steps()])
        sinks = "".join(f"  {_sink(number)}: {{from: events, {output.options}}}\n" for number, output in enumerate(self.outputs))
        return (
            f"name: {name}\n"
            f"sources:\n  source: {self.input.options}\n"
            f"streams:\n  events: {{from: {getattr(self.input, 'sources', 'source')}, steps: [{steps}]}}\n"
            f"sinks:\n{sinks}"
            f"run: {{trigger: 100ms}}\n"
        )

    def claims(self, pipeline: Path) -> list[Guarantee]:
        """Return the guarantee that each pair claims with the options in a pipeline's file."""
        sinks = load(pipeline).sinks
        return [pair.claim(sinks[_sink(number)].sink.guaranteed()) for number, pair in enumerate(self.pairs)]


def _sink(number: int) -> str:
    return f"sink-{number}"
