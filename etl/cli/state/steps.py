"""The steps of a pipeline whose state `etl state` reads: which there are, and the one that is meant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from etl.api import EtlError, Operator, ReadableState, Schema, StatefulStep, nearest
from etl.cli.config_options import load_environment
from etl.config.loader import load
from etl.delivery.dead_letters import SCHEMA
from etl.plan.frames import stages
from etl.plan.planner import plan
from etl.plan.query_plan import Plan, QueryPlan
from etl.plan.segments import StepNode
from etl.running.state_folders import dead_letters, state_folder
from etl.spark.state.checkpoint import committed_batch
from etl.spark.state.continued_steps import names_of
from etl.spark.state.fingerprint import compare_checkpoints, match_checkpoints
from etl.spark.state.folder import StateFolder, lock_state
from etl.state.manifest import Manifests
from etl.state.reader import QueryState, StepState, read_query_state

if TYPE_CHECKING:
    from pyarrow import RecordBatch


@dataclass(frozen=True)
class StepOfQuery:
    """A stateful step of the pipeline file, and where its state is."""

    name: str
    """As `etl explain` shows it; prefixed with its query if several queries have the step."""
    query: str
    number: int
    """Among the stateful steps of its query."""
    node: StepNode
    folder: Path
    state: StateFolder
    bounded: bool
    """Whether its query is one micro-batch."""

    @property
    def remembered(self) -> dict[str, Any]:
        """What its state depends on."""
        return {"step": self.step.type, **self.step.remembered(self.node.incoming)}

    @property
    def step(self) -> StatefulStep:
        """The component."""
        assert isinstance(self.node.step, StatefulStep)
        return self.node.step

    def read(self) -> tuple[QueryState, StepState] | None:
        """The last version of its state; None before the first micro-batch. Raises ComponentError if it is damaged."""
        found = read_query_state(self.folder)
        return None if found is None or self.number >= len(found.steps) else (found, found.steps[self.number])

    def operator(self, state: StepState | None = None) -> Operator:
        """The operator that wrote the state."""
        incoming = self.node.incoming
        return self.step.operator(incoming if state is None else _with_known_types(incoming, state))

    def names(self) -> set[str]:
        """What a user can call it, if no other step is called that."""
        return names_of(self.query, self.node)


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
    steps = list(_steps(planned, state))
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


def choose_step(steps: Sequence[StepOfQuery], wanted: str | None) -> StepOfQuery:
    """The step that is meant; None means the only one. Raises UsageError that lists the steps."""
    names = ", ".join(repr(step.name) for step in steps)
    if wanted is None:
        if len(steps) > 1:
            raise click.UsageError(f"several steps have state: name one of {names}")
        return steps[0]
    found = [step for step in steps if wanted == step.name] or [step for step in steps if wanted in step.names()]
    if len(found) > 1:
        raise click.UsageError(f"several steps are called {wanted!r}: name one of {', '.join(repr(s.name) for s in found)}")
    if not found:
        near = nearest(wanted, sorted({name for step in steps for name in step.names()})) or f"there are {names}"
        raise click.UsageError(f"no step with state is called {wanted!r}; {near}")
    return found[0]


def readable(step: StepOfQuery, state: StepState | None) -> ReadableState:
    """The step's operator, which reads its state. Raises EtlError if it cannot."""
    operator = step.operator(state)
    if not isinstance(operator, ReadableState):
        raise EtlError(f"step {step.name!r} cannot show what it remembers; `etl state ls` shows how much it is")
    return operator


def contents(step: StepOfQuery) -> tuple[Schema, Iterator[RecordBatch]]:
    """The fields and rows of what a step remembers; says so when there is no state."""
    found = step.read()
    if found is None:
        click.echo(no_state(step), err=True)
        return readable(step, None).state_fields, iter(())
    state = found[1]
    operator = readable(step, state)
    return operator.state_fields, (
        batch.select(operator.state_fields.names)  # without the reasons of results that cannot be computed
        for portion in state.portions()
        for batch in operator.read_state(portion, state.watermark)
    )


def no_state(step: StepOfQuery) -> str:
    """Says that there is nothing to read yet."""
    return f"{step.name} remembers nothing yet: no micro-batch of query {step.query!r} is complete"


def _steps(planned: Plan, state: StateFolder) -> Iterator[StepOfQuery]:
    for query in planned.queries:
        _check_manifest(query, state)
    found = [(query, number, stage.node) for query in planned.queries for number, stage in enumerate(stages(query.frame))]
    uses = Counter(node.id for _, _, node in found)
    for query, number, node in found:
        name = node.id if uses[node.id] == 1 else f"{query.name}/{node.id}"
        yield StepOfQuery(name, query.name, number, node, state.rows(query.name), state, not query.streaming)


def _check_manifest(query: QueryPlan, state: StateFolder) -> None:
    """Raise ComponentError if the state after the last micro-batch is gone: what is left is older, or nothing."""
    if not stages(query.frame):
        return
    committed, manifests = committed_batch(state, query.name), Manifests(state.rows(query.name))
    if committed > max(manifests.versions(), default=-1):
        manifests.read(committed)


def _describe_no_state(planned: Plan) -> str:
    return f"pipeline {planned.pipeline!r} has no step that remembers events, such as a window"


def _with_known_types(incoming: Schema, state: StepState) -> Schema:
    """The fields with the types that were unknown before the run and that the state's files have."""
    for file in state.files:
        for name in file.schema.names:
            at = incoming.get_field_index(name)
            if at >= 0 and str(incoming.field(at).type) == "null":
                incoming = incoming.set(at, incoming.field(at).with_type(file.schema.field(name).type))
    return incoming
