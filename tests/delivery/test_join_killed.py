"""Kill -9 at random moments while `join` keeps the events of two streams: each pair, and each event without a match, is
delivered once.

A block has the left events of its keys first and then the right ones, so that matches are found within a micro-batch, in state,
and in state that a killed run left. Every seventh right event has another key: it and its left event have no match.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from kill_files import FileInput
from kill_pairs import Pair
from kill_setup import KillSetup
from kill_table import SinkRow, SourceRow, Workspace
from kill_trial import EVENTS, FEW_EVENTS, RUNS, Trial
from running import Engine

BLOCK = (EVENTS if RUNS else FEW_EVENTS) // 5
"""Consecutive events of a block, within one second; the next one begins 10 s later."""
KEYS = BLOCK // 2

_numbers = itertools.count()


class PairFile:
    """The file with the pairs and the events without a match."""

    def __init__(self, workspace: Workspace) -> None:
        self.path = workspace.folder / f"{workspace.label}.jsonl"
        self.options = f"type: file, path: '{self.path}'"

    def delivered(self) -> Iterator[int]:
        """Yield the numbers of the events of each result. Fails for a pair that must not be, and for a match that is missing."""
        for line in self.path.read_text().splitlines():
            event = json.loads(line)
            numbers = [one for one in (event.get("n"), event.get("right", {}).get("n")) if one is not None]
            matches = (numbers[0] % BLOCK % KEYS) % 7 != 0
            assert len(numbers) == 1 + matches, line
            assert not matches or numbers[1] == numbers[0] + KEYS, line
            yield from numbers

    def check(self, total: int) -> None:
        """Check nothing more."""


class JoinSetup(KillSetup):
    """A source whose events are on both sides of a join."""

    def pipeline(self, name: str) -> str:
        number = f"n % {BLOCK} % {KEYS}"
        user = f"concat(if(n % {BLOCK} >= {KEYS} and {number} % 7 = 0, 'x', ''), cast({number} as string))"
        millis = f"(n div {BLOCK}) * 10000 + (n % {BLOCK}) * 1000 div {BLOCK} + 1700000000000"
        fields = f'{{type: set, fields: {{user_name: "{user}", millis: "{millis}"}}}}'
        time = "{type: timestamp, field: millis, target: time, formats: [epoch_millis]}"
        steps = ", ".join([*self.input.steps, fields, time, "{type: keep, fields: [n, user_name, time]}"])
        side = "{{from: all, steps: [{{type: filter, where: 'n % {block} {sign} {keys}'}}]}}"
        left, right = (side.format(block=BLOCK, keys=KEYS, sign=sign) for sign in ("<", ">="))
        join = "{type: join, kind: full, on: [user_name], time: time, within: 5s, late: 1s}"
        return (
            f"name: {name}\n"
            f"sources:\n  source: {self.input.options}\n"
            f"streams:\n  all: {{from: source, steps: [{steps}]}}\n  first: {left}\n  second: {right}\n"
            f"  events: {{from: [first, second], steps: [{join}]}}\n"
            f"sinks:\n  sink-0: {{from: events, {self.outputs[0].options}}}\n"
            f"run: {{trigger: 100ms}}\n"
        )


@pytest.mark.spark
@pytest.mark.slow
def test_every_pair_and_every_event_without_a_match_is_delivered_once(engine: Engine) -> None:
    with ExitStack() as cleanup:
        workspace = Workspace(engine.etl.folder, {}, f"join-{os.getpid()}-{next(_numbers)}", cleanup)
        setup = JoinSetup(workspace, [Pair(SourceRow("file", FileInput, ordered=True), SinkRow("file", PairFile))])
        trial = Trial(engine, setup, drain=True)

        (found,) = trial()

        assert found.is_exact, str(found)
        assert trial.kills, trial.log
        assert setup.claims(trial.pipeline) == ["exactly once"]
