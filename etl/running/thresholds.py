"""Which groups are nearest to the conditions of stateful steps, as the state on disk has them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from etl.api import EtlError, Schema
from etl.config.model import Pipeline, Stream
from etl.delivery.dead_letters import SCHEMA
from etl.plan.planner import plan
from etl.running.condition_shares import condition_shares
from etl.running.first_rows import first_rows, has_order
from etl.running.state_folders import dead_letters
from etl.running.stateful_steps import StepOfQuery, state_rows, steps_with_state
from etl.spark.state.fingerprint import compare_checkpoints
from etl.spark.state.folder import StateFolder

SHARE = " share"
"""The column with the share of a row: no field has a name with a space in front."""

Option = Literal["having", "emit", "where", "correlations"]
"""Where a condition is: an option of the step, or `where` of a filter that follows it."""

_MEASURE = "correlation.measure"
OF_CORRELATIONS = " or ".join(
    (
        f"(comparison = 'gte' and {_MEASURE} >= threshold)",
        f"(comparison = 'gt' and {_MEASURE} > threshold)",
        f"(comparison = 'lte' and {_MEASURE} <= threshold)",
        f"(comparison = 'lt' and {_MEASURE} < threshold)",
        f"(comparison = 'eq' and {_MEASURE} >= threshold and {_MEASURE} <= threshold)",
        f"(comparison = 'neq' and {_MEASURE} <> threshold)",
    )
)
"""The conditions of correlations, over rows of their state."""

_EXPLANATIONS: dict[Option, str] = {
    "having": "a result is given only if `having` is true of it",
    "emit": "a result is given as soon as `when` is true of it",
    "where": "a result passes the filter after the step only if `where` is true of it",
    "correlations": "an alert is given when the measure of a group meets the comparison with the threshold of its rule",
}


@dataclass(frozen=True)
class ResultCondition:
    """A condition on the results of a step."""

    option: Option
    text: str
    line: int | None
    """In the pipeline file: that of the step."""

    @property
    def computed(self) -> str:
        """The expression over the rows of the step's state."""
        return OF_CORRELATIONS if self.option == "correlations" else self.text

    @property
    def explanation(self) -> str:
        """What the condition decides."""
        return _EXPLANATIONS[self.option]


@dataclass(frozen=True)
class NearGroups:
    """The groups that are nearest to a condition without meeting it."""

    step: str
    query: str
    condition: ResultCondition
    batch: int | None = None
    """The micro-batch after which the state is; None before the first one."""
    groups: int = 0
    """Groups that were read, in all windows."""
    met: int = 0
    """Those that meet the condition."""
    complete: bool = True
    """False if the time did not suffice to read all."""
    rows: pa.Table | None = None
    """The nearest ones first, with their share as `SHARE`."""
    failure: str | None = None
    """Why the condition cannot be evaluated."""


def near_groups(pipeline: Pipeline, state: StateFolder, limit: int, seconds: float) -> list[NearGroups]:
    """The nearest groups of each condition of a pipeline. Reading ends after some seconds, unless one part takes longer.

    Raises EtlError if the pipeline no longer fits its state, and ComponentError if that is damaged.
    """
    planned, changes = compare_checkpoints(plan(pipeline, dead_letters(pipeline, state), SCHEMA), state)
    if changes:
        raise EtlError("the pipeline no longer fits its state: " + "; ".join(f"{one.query}: {one.what}" for one in changes))
    until = time.monotonic() + seconds
    return [
        _nearest(step, condition, limit, until)
        for step in steps_with_state(planned, state)
        for condition in conditions_of(pipeline, step.node.id)
    ]


# ── Conditions ────────────────────────────────────────────────────────────────────────────────────


def conditions_of(pipeline: Pipeline, id_: str) -> Iterator[ResultCondition]:
    """The conditions on the results of a step, by its id ``stream[index] type``."""
    for stream in pipeline.streams.values():
        for index, step in enumerate(stream.steps):
            if f"{stream.name}[{index}] {step.type}" == id_:
                location = pipeline.locations.get(("streams", stream.name, "steps", index))
                line = location[0] if location else None
                yield from (ResultCondition(option, text, line) for option, text in _conditions(stream, index))


def _conditions(stream: Stream, index: int) -> Iterator[tuple[Option, str]]:
    from etl.steps.detection.correlate import Correlate
    from etl.steps.filter import Filter
    from etl.steps.window import Window
    from etl.steps.windowing.emit import EmitTrigger, triggers_of

    step = stream.steps[index]
    if isinstance(step, Correlate):
        yield "correlations", f"{_MEASURE} compared with threshold"
    if not isinstance(step, Window):
        return
    if step.having is not None:
        yield "having", step.having
    yield from (("emit", one.when) for one in triggers_of(step.emit) if isinstance(one, EmitTrigger) and one.when is not None)
    for after in stream.steps[index + 1 :]:
        if not isinstance(after, Filter):
            return
        yield "where", after.where


# ── Rows ──────────────────────────────────────────────────────────────────────────────────────────


def _nearest(step: StepOfQuery, condition: ResultCondition, limit: int, until: float) -> NearGroups:
    found = step.read()
    try:
        fields, batches = state_rows(step, found[1] if found else None)
        reader = _Reader(condition, fields, until)
    except EtlError as error:
        return NearGroups(step.name, step.query, condition, failure=str(error))
    keys = [(SHARE, "descending"), *((field.name, "ascending") for field in fields if has_order(field.type))]
    rows, _ = first_rows(reader.unmet(batches), fields.append(pa.field(SHARE, pa.float64())), keys, limit)
    batch = found[0].batch if found else None
    return NearGroups(step.name, step.query, condition, batch, reader.groups, reader.met, reader.complete, rows)


class _Reader:
    """Counts the groups that pass, and gives those that do not meet a condition."""

    def __init__(self, condition: ResultCondition, fields: Schema, until: float) -> None:
        self._shares, self._until = condition_shares(condition.computed, fields), until
        self._compared = fields.names.index("comparison") if condition.option == "correlations" else None
        self.groups = self.met = 0
        self.complete = True

    def unmet(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that do not meet the condition, with their shares; correlations without a number are left out."""
        for batch in batches:
            if self.groups and time.monotonic() > self._until:
                self.complete = False
                return
            rows = batch if self._compared is None else batch.filter(batch.column(self._compared).is_valid())
            shares = self._shares(rows)
            is_met = shares == 1
            self.groups += len(rows)
            self.met += int(np.count_nonzero(is_met))
            yield rows.append_column(SHARE, pa.array(shares)).filter(pa.array(~is_met))
