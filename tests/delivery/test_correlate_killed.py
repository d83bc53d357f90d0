"""Kill -9 at random moments while the step `correlate` finds brute-force attacks: each alert is delivered once, with all of its
events.

`make test` kills one run of each source; with ``SLUICE_KILLS=10`` there are ten runs of 200,000 events.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import pytest
from kill_files import FileInput
from kill_kafka import KafkaInput
from kill_pairs import Pair
from kill_setup import KillSetup
from kill_table import SinkRow, SourceRow, Workspace
from kill_trial import RUNS, Trial
from running import Engine
from servers.fixtures import started
from servers.fleet import Fleet

BLOCK, GROUPS = 1_000, 100
"""Consecutive events of a block, and the groups to which they belong in turn: ten events of a group are an alert."""
EACH = BLOCK // GROUPS

_numbers = itertools.count()


@pytest.fixture
def own() -> Iterator[Fleet]:
    """Servers that only these tests use, started at their first use."""
    fleet = Fleet(())
    yield fleet
    fleet.discard()


class Alerts:
    """The file with the alerts."""

    def __init__(self, workspace: Workspace) -> None:
        self.path = workspace.folder / f"{workspace.label}.jsonl"
        self.options = f"type: file, path: '{self.path}'"

    def delivered(self) -> Iterator[int]:
        """Yield the numbers of the events in alerts."""
        for line in self.path.read_text().splitlines():
            alert = json.loads(line)
            assert alert["correlation"]["count"] == EACH, line
            assert {group_of(int(n)) for n in alert["correlation"]["samples"]} == {alert["attacker"]}, line
            yield from map(int, alert["correlation"]["samples"])

    def check(self, total: int) -> None:
        """Check nothing more."""


class CorrelateSetup(KillSetup):
    """A source before the step `correlate`: an event is a failed login of the group to which its number belongs."""

    def steps(self) -> Sequence[str]:
        group = f"cast(n div {BLOCK} as string) || '-' || cast(n % {GROUPS} as string)"
        return [
            f'{{type: set, fields: {{attacker: "{group}", text: cast(n as string), time: timestamp_millis(n + 1700000000000)}}}}',
            "{type: correlate, time: time, late: 1m, sample: text, rules: [{name: failed, where: n >= 0}], correlations: "
            "[{title: Guessing, correlation: {type: event_count, rules: [failed], group-by: [attacker], timespan: 1m, "
            f"condition: {{gte: {EACH}}}}}}}]}}",
        ]


def group_of(number: int) -> str:
    return f"{number // BLOCK}-{number % GROUPS}"


SOURCES = [SourceRow("file", FileInput, ordered=True), *([SourceRow("kafka", KafkaInput, ("kafka",))] if RUNS else [])]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_every_alert_is_delivered_once(source: SourceRow, engine: Engine, own: Fleet) -> None:
    servers = {name: started(own, name) for name in source.servers}
    with ExitStack() as cleanup:
        workspace = Workspace(engine.etl.folder, servers, f"correlate-{os.getpid()}-{next(_numbers)}", cleanup)
        setup = CorrelateSetup(workspace, [Pair(source, SinkRow("file", Alerts))])
        trial = Trial(engine, setup)

        (found,) = trial()

        assert found.is_exact, str(found)
        assert trial.kills, trial.log
        assert setup.claims(trial.pipeline) == ["exactly once"]
