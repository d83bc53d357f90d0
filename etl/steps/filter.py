"""Keep the events a condition is true for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from etl.api import ArrowStep, Expression, Finding, Outcome, Rejects, Schema, SparkStep
from etl.expressions import analyse, compile_expression, register, reject_rows, schema_of, spark_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Filter(ArrowStep, SparkStep):
    """Pass the events a condition is true for.

    An event for which it is false or null is filtered, and counted. One for which it cannot be computed, such as a
    cast of a text that is not a number, goes to the dead letters with the code ``expression-failed``; where the condition
    needs Spark, such an event stops the run instead (``try_cast`` avoids that).

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

    def fields(self, incoming: Schema) -> Schema:
        return incoming

    def spark_reason(self, incoming: Schema) -> str | None:
        return analyse(self.where, incoming).spark_reason

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        evaluate = compile_expression(self.where, incoming)

        from etl.expressions.dictionary_columns import DictionaryColumns

        def run(batch: pa.RecordBatch) -> Outcome:
            mask, failed, reasons = evaluate(batch, DictionaryColumns(batch))
            rejects: tuple[Rejects, ...] = ()
            if failed is not None and reasons is not None:
                rejects = (reject_rows(batch, failed, reasons),)
                mask = pc.and_not(mask.cast(pa.bool_()), failed)
            return Outcome(_filter(batch, mask), rejects)

        return run

    def spark_expressions(self, incoming: Schema) -> Mapping[tuple[str | int, ...], str]:
        return {("where",): analyse(self.where, incoming).spark_sql}

    def apply(self, events: DataFrame) -> DataFrame:
        register(events.sparkSession)
        return events.filter(spark_column(self.where, schema_of(events)))


def _filter(batch: pa.RecordBatch, mask: pa.BooleanArray) -> pa.RecordBatch:
    """The rows where the mask is true; a copy only when it is neither true nor false for all."""
    kept = mask.true_count if pa.types.is_boolean(mask.type) else 0
    if kept == batch.num_rows:
        return batch
    return batch.filter(mask) if kept else batch.slice(0, 0)
