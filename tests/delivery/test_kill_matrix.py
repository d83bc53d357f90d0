"""Kill -9 at random moments, and restarts of servers: each source with each sink.

`make test` tests a few pairs with every source and every sink, those of up to three sources in one pipeline. With
``SLUICE_KILLS=10`` (`make kills`) each pair has a pipeline of its own, or with ``SLUICE_KILLS_TOGETHER=3`` three pairs of a
source share one.
``SLUICE_KILLS_PAIRS`` selects pairs, and ``SLUICE_KILLS_PAGE`` is the page for the results.
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
from kill_pairs import Pair, few_groups, groups_of, pairs_named
from kill_setup import KillSetup
from kill_table import Workspace
from kill_trial import RUNS, Trial
from running import Engine
from servers.fixtures import started
from servers.fleet import KINDS, Fleet

TOGETHER = int(os.environ.get("SLUICE_KILLS_TOGETHER", "1"))
GROUPS = groups_of(pairs_named(os.environ.get("SLUICE_KILLS_PAIRS", "").split()), TOGETHER) if RUNS else few_groups()
OWN = frozenset(KINDS) if RUNS else frozenset({"kafka"})
"""Servers that a trial may restart, and that no other test uses. A short trial has one: a second server of each kind takes
minutes to start."""

_numbers = itertools.count()


@pytest.fixture(scope="function" if RUNS else "module")
def own() -> Iterator[Fleet]:
    """Servers that only these tests use, started at their first use."""
    fleet = Fleet(())
    yield fleet
    fleet.discard()


def name_of(pairs: Sequence[Pair]) -> str:
    return "+".join(pair.name for pair in pairs)


def servers_of(pairs: Sequence[Pair]) -> list[str]:
    return list(dict.fromkeys(name for pair in pairs for name in pair.servers))


def shared_servers(pairs: Sequence[Pair]) -> Sequence[pytest.MarkDecorator]:
    """Servers that the trial has in common with other tests."""
    names = [name for name in servers_of(pairs) if name not in OWN]
    return [pytest.mark.servers(*names)] if names else []


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("pairs", [pytest.param(pairs, id=name_of(pairs), marks=shared_servers(pairs)) for pairs in GROUPS])
def test_a_killed_pipeline_delivers_as_its_guarantee_claims(
    pairs: Sequence[Pair], engine: Engine, own: Fleet, request: pytest.FixtureRequest
) -> None:
    names = servers_of(pairs)
    servers: dict[str, Any] = {name: started(own, name) if name in OWN else request.getfixturevalue(name) for name in names}
    with ExitStack() as cleanup:
        setup = KillSetup(Workspace(engine.etl.folder, servers, f"kill-{os.getpid()}-{next(_numbers)}", cleanup), pairs)
        not_restarted = {name for pair in pairs for name in pair.not_restarted}
        trial = Trial(engine, setup, {name: servers[name] for name in names if name in OWN and name not in not_restarted})
        begun = time.monotonic()
        found = trial()
        seconds = time.monotonic() - begun

        for pair, output, claim, outcome in zip(pairs, setup.outputs, setup.claims(trial.pipeline), found, strict=True):
            if "SLUICE_KILLS_PAGE" in os.environ:
                kill_page.write(Path(os.environ["SLUICE_KILLS_PAGE"]), kill_page.row_of(pair, claim, trial, outcome, seconds))
            print(f"{pair.name}: {claim}: {outcome}")
            assert outcome.fulfils(claim), f"{pair.name}: {outcome}"
            output.check(outcome.total)
            assert not pair.ordered or list(output.delivered()) == list(range(outcome.total)), f"{pair.name}: out of order"
        assert trial.kills or trial.whole, trial.log  # a run that reads a table once may end before the kill
