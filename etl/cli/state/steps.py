"""The steps of a pipeline whose state `etl state` reads: which there are, and the one that is meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from etl.api import EtlError, Schema, nearest
from etl.cli.config_options import load_environment
from etl.config.loader import load
from etl.delivery.dead_letters import SCHEMA
from etl.plan.planner import plan
from etl.plan.query_plan import Plan
from etl.running.state_folders import dead_letters, state_folder
from etl.running.stateful_steps import StepOfQuery, state_rows, steps_with_state
from etl.spark.state.fingerprint import compare_checkpoints, match_checkpoints
from etl.spark.state.folder import lock_state

if TYPE_CHECKING:
    from pyarrow import RecordBatch


def load_steps(file: Path, chosen: str | None, overrides: Sequence[str], env_file: str | None) -> list[StepOfQuery]:
    """The steps with state that can be read. Raises EtlError if there is none, and if the file does not fit its last run."""
    pipeline = load(file, load_environment(env_file), overrides)
    state = state_folder(pipeline, chosen)
    if not state.has_run:
        raise EtlError(
            f"there is no state in {state.root}: pipeline {pipeline.name!r} has not run with this folder; "
            "choose the folder of a run with --state"
        )
    planned, changes = compare_checkpoints(plan(pipeline, dead_letters(pipeline, state), SCHEMA), state)
    if changes:
        lines = "".join(f"\n  {change.query}: {change.what}" for change in changes)
        raise EtlError(
            f"the pipeline no longer fits its state in {state.root}:{lines}\n"
            "what can be done: read the state with the file of the last run"
        )
    steps = list(steps_with_state(planned, state))
    if not steps:
        raise EtlError(_describe_no_state(planned))
    return steps


def prepare_steps(file: Path, chosen: str | None, overrides: Sequence[str], env_file: str | None) -> list[StepOfQuery]:
    """The steps with state, also of a pipeline that has not run: its state folder is made as a run makes it."""
    pipeline = load(file, load_environment(env_file), overrides)
    state = state_folder(pipeline, chosen)
    if not state.has_run:
        state.prepare()
        with lock_state(state):
            match_checkpoints(plan(pipeline, dead_letters(pipeline, state), SCHEMA), state)
    return load_steps(file, chosen, overrides, env_file)


def choose_step(steps: Sequence[StepOfQuery], requested: str | None) -> StepOfQuery:
    """The step that is meant; None means the only one. Raises UsageError that lists the steps."""
    names = ", ".join(repr(step.name) for step in steps)
    if requested is None:
        if len(steps) > 1:
            raise click.UsageError(f"several steps have state: name one of {names}")
        return steps[0]
    found = [step for step in steps if requested == step.name] or [step for step in steps if requested in step.names()]
    if len(found) > 1:
        raise click.UsageError(f"several steps are called {requested!r}: name one of {', '.join(repr(s.name) for s in found)}")
    if not found:
        near = nearest(requested, sorted({name for step in steps for name in step.names()})) or f"there are {names}"
        raise click.UsageError(f"no step with state is called {requested!r}; {near}")
    return found[0]


def contents(step: StepOfQuery) -> tuple[Schema, Iterator[RecordBatch]]:
    """The fields and rows of what a step remembers; says so when there is no state."""
    found = step.read()
    if found is None:
        click.echo(no_state(step), err=True)
    return state_rows(step, found[1] if found else None)


def no_state(step: StepOfQuery) -> str:
    """Says that there is nothing to read yet."""
    return f"{step.name} remembers nothing yet: no micro-batch of query {step.query!r} is complete"


def _describe_no_state(planned: Plan) -> str:
    return f"pipeline {planned.pipeline!r} has no step that remembers events, such as a window"
