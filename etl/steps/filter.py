"""Keep the events a condition is true for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from etl.api import ArrowStep, Expression, Finding, Outcome, Rejects, Schema, Step
from etl.expressions import analyse, reject_rows
from etl.steps.spark_values import StepExpression, StepExpressions, computed_types, fields_without_values, spark_values


class Filter(ArrowStep):
    """Pass the events a condition is true for.

    An event for which it is false or null is filtered, and counted. One for which it cannot be computed, such as a
    cast of a text that is not a number, goes to the dead letters with the code ``expression-failed``, also where the
    condition needs Spark; but an error in one that makes a map there, such as ``str_to_map`` with a key twice, ends the run.

    ```yaml
    type: filter
    where: "level = 'error' and message rlike 'timed? ?out'"
    ```
    """

    type: Literal["filter"] = "filter"
    where: Expression = Field(description="The condition, in Spark SQL.", examples=["level = 'error'"])

    def check(self, incoming: Schema) -> Iterable[Finding]:
        return analyse(self.where, incoming).condition_findings_at("where")

    def takes_changes(self) -> bool:
        return True

    def keeps_values(self, name: str) -> bool:
        return True

    def fields(self, incoming: Schema) -> Schema:
        return fields_without_values(incoming)

    def spark_reason(self, incoming: Schema) -> str | None:
        return None if computed_types(incoming) else analyse(self.where, incoming).spark_reason

    def parts(self, incoming: Schema) -> Sequence[Step]:
        return (*spark_values(self.type, self._expressions(), incoming, filters=True), self)

    def _expressions(self) -> list[StepExpression]:
        return [StepExpression(("where",), self.where)]

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        expressions = StepExpressions(self._expressions(), incoming)

        def run(batch: pa.RecordBatch) -> Outcome:
            batch, [(mask, failed, reasons)] = expressions(batch)
            rejects: tuple[Rejects, ...] = ()
            if failed is not None and reasons is not None:
                rejects = (reject_rows(batch, failed, reasons),)
                mask = pc.and_not(mask.cast(pa.bool_()), failed)
            return Outcome(_filter(batch, mask), rejects)

        return run


def _filter(batch: pa.RecordBatch, mask: pa.BooleanArray) -> pa.RecordBatch:
    """The rows where the mask is true; a copy only when it is neither true nor false for all."""
    matching_rows = mask.true_count if pa.types.is_boolean(mask.type) else 0
    if matching_rows == batch.num_rows:
        return batch
    return batch.filter(mask) if matching_rows else batch.slice(0, 0)
