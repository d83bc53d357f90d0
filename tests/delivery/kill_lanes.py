"""A source at work with the sinks that it feeds, and the pipeline that holds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kill_pairs import Pair
from kill_table import Catch, Stage

from etl.api import Guarantee
from etl.config.loader import load


class Lane:
    """The pairs of one source: events go in at one end and come out at all others."""

    def __init__(self, stage: Stage, pairs: Sequence[Pair]) -> None:
        self.stage, self.pairs, self.source = stage, pairs, pairs[0].source
        self.feed = self.source.feed(stage)
        stages = [replace(stage, label=f"{stage.label}-{number}") for number in range(len(pairs))]
        self.catches: list[Catch] = [pair.sink.catch(own) for pair, own in zip(pairs, stages, strict=True)]

    def pipeline(self, name: str) -> str:
        """The text of a pipeline that holds them all; a filter makes it a segment with a step."""
        steps = ", ".join([*self.feed.steps, "{type: filter, where: n >= 0}"])
        sinks = "".join(f"  {_sink(number)}: {{from: events, {catch.options}}}\n" for number, catch in enumerate(self.catches))
        return (
            f"name: {name}\n"
            f"sources:\n  source: {self.feed.options}\n"
            f"streams:\n  events: {{from: source, steps: [{steps}]}}\n"
            f"sinks:\n{sinks}"
            f"run: {{trigger: 100ms}}\n"
        )

    def claims(self, pipeline: Path) -> list[Guarantee]:
        """What each pair promises, as the sinks of a pipeline's file say of their options."""
        sinks = load(pipeline).sinks
        return [pair.claim(sinks[_sink(number)].sink.guaranteed()) for number, pair in enumerate(self.pairs)]


def _sink(number: int) -> str:
    return f"sink-{number}"
