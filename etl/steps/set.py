"""Set fields to the values of expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from etl.api import (
    ArrowStep,
    Expression,
    FieldName,
    Finding,
    Outcome,
    Rejects,
    Schema,
    SparkStep,
    with_columns,
    with_fields,
    with_key_renamed,
)
from etl.expressions import (
    analyse,
    compile_expression,
    merge_failures,
    quote_name,
    register,
    reject_rows,
    schema_of,
    spark_column,
)
from etl.steps.field_selection import conflict_finding, reserved_name, struct_conflicts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Set(ArrowStep, SparkStep):
    """Set fields to the values of expressions.

    All expressions read the event as it was before this step, as in SQL's SELECT. A field that exists is replaced in place, any
    other is added; a dotted name makes a member of a struct. An event for which an expression cannot be computed, such as
    a cast of a text that is not a number, goes to the dead letters with the code ``expression-failed``; where an expression
    needs Spark, such an event stops the run instead (``try_cast`` avoids that).

    Beside Spark's functions there are many others, such as ``ip_in(address, network…)``, ``community_id(…)`` and
    ``entropy(text)``: ``etl list functions`` names them, ``etl describe`` explains one.

    Operators run without Spark, also those of bits and a time plus or minus an interval of weeks to microseconds. So do casts,
    comparisons (of decimals, too), conditions, and most functions of texts, patterns, times and numbers, with ``instr``,
    ``locate``, ``size``, ``hex``, ``unhex``, ``md5``, ``sha1``, ``sha2``, ``crc32``, ``bit_count``, ``shiftleft``,
    ``shiftright``, ``shiftrightunsigned``, ``date_add``, ``date_sub`` and ``datediff``. ``etl explain`` names what needs Spark.

    ```yaml
    type: set
    fields:
      level: lower(level)
      source.local: ip_in(source.ip, '10.0.0.0/8', '192.168.0.0/16')
    ```
    """

    type: Literal["set"] = "set"
    values: Mapping[FieldName, Expression] = Field(
        alias="fields", min_length=1, description="Field names and the Spark SQL expressions they are set to."
    )

    def check(self, incoming: Schema) -> Iterable[Finding]:
        names = self.fields(incoming).names
        clashing = set(struct_conflicts(names, self.values))
        for name, expression in self.values.items():
            path = ("fields", name)
            yield from analyse(expression, incoming).findings_at(*path)
            yield from reserved_name(name, path)
            yield from (conflict_finding(one, other, path) for one, other in sorted(clashing) if one == name)

    def takes_changes(self) -> bool:
        return True

    def fields(self, incoming: Schema) -> Schema:
        kept = {name: name for name in incoming.names if name not in self.values}
        return with_key_renamed(with_fields(incoming, self._types(incoming)), incoming, kept)

    def _types(self, incoming: Schema) -> dict[str, pa.DataType]:
        return {name: analyse(text, incoming).type for name, text in self.values.items()}

    def spark_reason(self, incoming: Schema) -> str | None:
        reasons = (analyse(text, incoming).spark_reason for text in self.values.values())
        return next((reason for reason in reasons if reason), None)

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        expressions = {name: compile_expression(text, incoming) for name, text in self.values.items()}

        from etl.expressions.dictionary_columns import DictionaryColumns

        known = frozenset(incoming.names)

        def run(batch: pa.RecordBatch) -> Outcome:
            repeats = DictionaryColumns(batch)
            results = {name: evaluate(batch, repeats) for name, evaluate in expressions.items()}
            after = self._with_values(batch, {name: result.values for name, result in results.items()}, known)
            found = merge_failures(results.values())
            if found is None:
                return Outcome(after)
            rejects: tuple[Rejects, ...] = (reject_rows(batch, *found),)
            return Outcome(after.filter(pc.invert(found[0])), rejects)

        return run

    def _with_values(self, batch: pa.RecordBatch, values: Mapping[str, pa.Array], known: frozenset[str]) -> pa.RecordBatch:
        return with_columns(batch, values)

    def spark_expressions(self, incoming: Schema) -> Mapping[tuple[str | int, ...], str]:
        return {("fields", name): analyse(text, incoming).spark_sql for name, text in self.values.items()}

    def apply(self, events: DataFrame) -> DataFrame:
        register(events.sparkSession)
        incoming = schema_of(events)
        given = {name: spark_column(text, incoming).alias(name) for name, text in self.values.items()}
        columns = {name: events[quote_name(name)] for name in events.columns} | given
        return events.select(*columns.values())
