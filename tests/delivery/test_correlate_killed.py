"""Kill -9 at random points while a brute force is correlated: every alert comes, once, and is of all of its events.

`make test` kills one run of each; with ``SLUICE_KILLS=10`` there are ten of 200,000 events.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from kill_files import FileFeed
from kill_kafka import KafkaFeed
from kill_lanes import Lane
from kill_pairs import Pair
from kill_table import SinkRow, SourceRow, Stage
from killing import RUNS, Trial
from running import Engine
from servers.fixtures import started
from servers.fleet import Fleet

BLOCK, GROUPS = 1_000, 100
"""So many events that follow one another are of so many groups by turns: of each group ten, which make an alert."""
EACH = BLOCK // GROUPS

_numbers = itertools.count()


@pytest.fixture
def own() -> Iterator[Fleet]:
    """Servers of these tests' own, started when they are first asked for."""
    fleet = Fleet(())
    yield fleet
    fleet.discard()


class Alerts:
    """The file with the alerts."""

    def __init__(self, stage: Stage) -> None:
        self.path = stage.folder / f"{stage.label}.jsonl"
        self.options = f"type: file, path: '{self.path}'"

    def delivered(self) -> Iterator[int]:
        """The events that alerts are of, each with its number."""
        for line in self.path.read_text().splitlines():
            alert = json.loads(line)
            assert alert["correlation"]["count"] == EACH, line
            assert {group_of(int(n)) for n in alert["correlation"]["samples"]} == {alert["attacker"]}, line
            yield from map(int, alert["correlation"]["samples"])

    def prove(self, total: int) -> None:
        """Alerts tell all there is."""


class Correlating(Lane):
    """A source in front of the step `correlate`: an event is a failure of the group that its number has."""

    def pipeline(self, name: str) -> str:
        group = f"cast(n div {BLOCK} as string) || '-' || cast(n % {GROUPS} as string)"
        steps = [
            *self.feed.steps,
            f'{{type: set, fields: {{attacker: "{group}", text: cast(n as string), time: timestamp_millis(n + 1700000000000)}}}}',
            "{type: correlate, time: time, late: 1m, sample: text, rules: [{name: failed, where: n >= 0}], correlations: "
            "[{title: Guessing, correlation: {type: event_count, rules: [failed], group-by: [attacker], timespan: 1m, "
            f"condition: {{gte: {EACH}}}}}}}]}}",
        ]
        return (
            f"name: {name}\n"
            f"sources:\n  source: {self.feed.options}\n"
            f"streams:\n  events: {{from: source, steps: [{', '.join(steps)}]}}\n"
            f"sinks:\n  sink-0: {{from: events, {self.catches[0].options}}}\n"
            f"run: {{trigger: 100ms}}\n"
        )


def group_of(number: int) -> str:
    return f"{number // BLOCK}-{number % GROUPS}"


SOURCES = [SourceRow("file", FileFeed, ordered=True), *([SourceRow("kafka", KafkaFeed, ("kafka",))] if RUNS else [])]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_every_alert_comes_once(source: SourceRow, engine: Engine, own: Fleet) -> None:
    servers = {name: started(own, name) for name in source.servers}
    with ExitStack() as clearing:
        stage = Stage(engine.etl.folder, servers, f"correlate-{os.getpid()}-{next(_numbers)}", clearing)
        lane = Correlating(stage, [Pair(source, SinkRow("file", Alerts))])
        trial = Trial(engine, lane)

        (found,) = trial()

        assert found.exact, str(found)
        assert trial.kills, trial.done
        assert lane.claims(trial.pipeline) == ["exactly once"]
