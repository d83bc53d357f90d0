"""Kill -9 at random moments while steps remember events: what they give is exactly what plain Python computes of all events.

`make test` kills one run on each route, with a third of the steps on each. With ``SLUICE_KILLS=10`` (`make kills-state`) each
step has ten runs on each route, in the pipeline of its group; ``SLUICE_KILLS_PAGE`` is the page for the results.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import kill_page
import pytest
from kill_state import QUIET, Pace, StateSetup, StateTrial
from kill_table import Workspace
from kill_trial import RUNS
from option_cases import OPTIONS
from running import Engine
from state_case_groups import CASES, GROUPS, QUIET_GROUPS, few_cases
from state_cases import ROUTES, Case

_numbers = itertools.count()

TOGETHER = int(os.environ.get("SLUICE_KILLS_TOGETHER", "1"))
"""Groups of steps in one pipeline: the start of Spark is most of what a run costs."""


def together(groups: Mapping[str, Mapping[str, Case]]) -> dict[str, dict[str, Case]]:
    """So many groups as one."""
    names = list(groups)
    merged = [names[first : first + TOGETHER] for first in range(0, len(names), TOGETHER)]
    return {"+".join(some): {name: case for group in some for name, case in groups[group].items()} for some in merged}


FEW = [(few_cases(number, len(ROUTES)), route) for number, route in enumerate(ROUTES)]
SELECTED = [(group, route) for group in together(GROUPS).values() for route in ROUTES] if RUNS else FEW
NAMES = [f"{group}-{route}" for group in together(GROUPS) for route in ROUTES] if RUNS else [f"few-{route}" for route in ROUTES]
QUIET_SELECTED = [(group, route) for group in together(QUIET_GROUPS).values() for route in ROUTES]
QUIET_NAMES = [f"{group}-{route}" for group in together(QUIET_GROUPS) for route in ROUTES]


def killed(cases: Mapping[str, Case], route: str, pace: Pace, engine: Engine) -> StateTrial:
    """Kill runs of these steps, and compare their results."""
    with ExitStack() as cleanup:
        workspace = Workspace(engine.etl.folder, {}, f"state-{os.getpid()}-{next(_numbers)}", cleanup)
        trial = StateTrial(engine, StateSetup(workspace, cases, route, pace), drain=True)
        found = trial.outcomes()
        if "SLUICE_KILLS_PAGE" in os.environ:
            rows = [kill_page.state_row_of(name, route, trial, outcome) for name, outcome in found.items()]
            kill_page.write(Path(os.environ["SLUICE_KILLS_PAGE"]), *rows)
        wrong = [f"{name}: {outcome}" for name, outcome in found.items() if not outcome.is_exact]
        assert not wrong, "\n".join(wrong)
        assert trial.kills, trial.log
        return trial


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(("cases", "route"), SELECTED, ids=NAMES)
def test_steps_of_killed_runs_give_what_python_computes(cases: Mapping[str, Case], route: str, engine: Engine) -> None:
    killed(cases, route, Pace.of_queries(len(cases)), engine)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(("cases", "route"), QUIET_SELECTED if RUNS else QUIET_SELECTED[:1], ids=QUIET_NAMES if RUNS else ["few"])
def test_results_by_the_clock_of_killed_runs_are_those_that_python_computes(
    cases: Mapping[str, Case], route: str, engine: Engine
) -> None:
    trial = killed(cases, route, replace(QUIET, kill_delay_seconds=3.0 * max(1, len(cases) / 7)), engine)

    assert trial.ticks()


def test_few_cases_have_every_step() -> None:
    selected = [name for cases, _ in FEW for name in cases]

    assert len(selected) == len(set(selected)) == len(CASES) - sum(map(len, [OPTIONS, *QUIET_GROUPS.values()]))
