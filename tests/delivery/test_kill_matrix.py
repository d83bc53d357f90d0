"""Kill -9 at random points, and restarts of servers: each source against each sink.

`make test` tries some pairs that have every source and every sink, those of a source in one pipeline. With ``SLUICE_KILLS=10``
(`make kills`) each pair has a pipeline of its own, or with ``SLUICE_KILLS_TOGETHER=3`` three of a source have one.
``SLUICE_KILLS_PAIRS`` names those that are tried, and ``SLUICE_KILLS_PAGE`` the page that tells of it.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import kill_page
import pytest
from kill_lanes import Lane
from kill_pairs import Pair, few_groups, groups_of, pairs_named
from kill_table import Stage
from killing import RUNS, Trial
from running import Engine
from servers.fixtures import started
from servers.fleet import KINDS, Fleet

TOGETHER = int(os.environ.get("SLUICE_KILLS_TOGETHER", "1"))
GROUPS = groups_of(pairs_named(os.environ.get("SLUICE_KILLS_PAIRS", "").split()), TOGETHER) if RUNS else few_groups()
OWN = frozenset(KINDS) if RUNS else frozenset({"kafka"})
"""Servers that a trial may restart, so that they are no other test's. Short trials have one: a second of each takes minutes."""

_numbers = itertools.count()


@pytest.fixture(scope="function" if RUNS else "module")
def own() -> Iterator[Fleet]:
    """Servers of these tests' own, started when they are first asked for."""
    fleet = Fleet(())
    yield fleet
    fleet.discard()


def name_of(pairs: Sequence[Pair]) -> str:
    return "+".join(pair.name for pair in pairs)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("pairs", GROUPS, ids=name_of)
def test_events_come_out_as_often_as_is_claimed(
    pairs: Sequence[Pair], engine: Engine, own: Fleet, request: pytest.FixtureRequest
) -> None:
    names = {name: None for pair in pairs for name in pair.servers}
    servers: dict[str, Any] = {name: started(own, name) if name in OWN else request.getfixturevalue(name) for name in names}
    with ExitStack() as clearing:
        lane = Lane(Stage(engine.etl.folder, servers, f"kill-{os.getpid()}-{next(_numbers)}", clearing), pairs)
        spared = {name for pair in pairs for name in pair.spared}
        trial = Trial(engine, lane, {name: servers[name] for name in names if name in OWN and name not in spared})
        begun = time.monotonic()
        found = trial()
        seconds = time.monotonic() - begun

        for pair, catch, claim, outcome in zip(pairs, lane.catches, lane.claims(trial.pipeline), found, strict=True):
            if "SLUICE_KILLS_PAGE" in os.environ:
                kill_page.write(Path(os.environ["SLUICE_KILLS_PAGE"]), kill_page.row_of(pair, claim, trial, outcome, seconds))
            print(f"{pair.name}: {claim}: {outcome}")
            assert outcome.keeps(claim), f"{pair.name}: {outcome}"
            catch.prove(outcome.total)
            assert not pair.ordered or list(catch.delivered()) == list(range(outcome.total)), f"{pair.name}: out of order"
        assert trial.kills or trial.whole, trial.done  # what is read whole may have ended before it was struck
