"""The stateful steps of a pipeline, and what their state on disk holds, during a run or after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etl.api import EtlError, Operator, ReadableState, Schema, StatefulStep
from etl.plan.frames import stages
from etl.plan.query_plan import Plan, QueryPlan
from etl.plan.segments import StepNode
from etl.spark.state.checkpoint import committed_batch
from etl.spark.state.continued_steps import names_of
from etl.spark.state.folder import StateFolder
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


def readable(step: StepOfQuery, state: StepState | None) -> ReadableState:
    """The step's operator, which reads its state. Raises EtlError if it cannot."""
    operator = step.operator(state)
    if not isinstance(operator, ReadableState):
        raise EtlError(f"step {step.name!r} cannot show what it remembers; `etl state ls` shows how much it is")
    return operator


def state_rows(step: StepOfQuery, state: StepState | None) -> tuple[Schema, Iterator[RecordBatch]]:
    """The fields and rows of what a step remembers. Raises EtlError if it cannot show them."""
    operator = readable(step, state)
    if state is None:
        return operator.state_fields, iter(())
    return operator.state_fields, (
        batch.select(operator.state_fields.names)  # without the reasons of results that cannot be computed
        for portion in state.portions()
        for batch in operator.read_state(portion, state.watermark)
    )


def steps_with_state(planned: Plan, state: StateFolder) -> Iterator[StepOfQuery]:
    """The stateful steps of a plan with the names of its checkpoints. Raises ComponentError if a state is gone."""
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


def _with_known_types(incoming: Schema, state: StepState) -> Schema:
    """The fields with the types that were unknown before the run and that the state's files have."""
    for file in state.files:
        for name in file.schema.names:
            at = incoming.get_field_index(name)
            if at >= 0 and str(incoming.field(at).type) == "null":
                incoming = incoming.set(at, incoming.field(at).with_type(file.schema.field(name).type))
    return incoming
