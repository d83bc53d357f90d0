"""Set fields to the values of expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

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
    Step,
    with_columns,
    with_fields,
    with_key_renamed,
)
from etl.expressions import analyse, merge_failures, reject_rows
from etl.steps.field_selection import conflict_finding, reserved_name, struct_conflicts
from etl.steps.spark_values import StepExpression, StepExpressions, computed_types, fields_without_values, spark_values


class Set(ArrowStep):
    """Set fields to the values of expressions.

    All expressions read the event as it was before this step, as in SQL's SELECT. A field that exists is replaced in place, any
    other is added; a dotted name makes a member of a struct. An event for which an expression cannot be computed, such as
    a cast of a text that is not a number, goes to the dead letters with the code ``expression-failed``, also where an
    expression needs Spark; but an error in one that makes a map there, such as ``str_to_map`` with a key twice, ends the run.

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

    def keeps_values(self, name: str) -> bool:
        return not any(name == one or name.startswith(f"{one}.") or one.startswith(f"{name}.") for one in self.values)

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
        given = fields_without_values(incoming)
        unchanged_names = {name: name for name in given.names if name not in self.values}
        return with_key_renamed(with_fields(given, self._types(incoming)), given, unchanged_names)

    def _types(self, incoming: Schema) -> dict[str, pa.DataType]:
        given, computed = fields_without_values(incoming), computed_types(incoming)
        texts = enumerate(self.values.items())
        return {name: computed.get(number) or analyse(text, given).type for number, (name, text) in texts}

    def spark_reason(self, incoming: Schema) -> str | None:
        if computed_types(incoming):
            return None
        reasons = (analyse(text, incoming).spark_reason for text in self.values.values())
        return next((reason for reason in reasons if reason), None)

    def parts(self, incoming: Schema) -> Sequence[Step]:
        return (*spark_values(self.type, self._expressions(), incoming), self)

    def _expressions(self) -> list[StepExpression]:
        return [StepExpression(("fields", name), text) for name, text in self.values.items()]

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        expressions = StepExpressions(self._expressions(), incoming)
        known = frozenset(fields_without_values(incoming).names)

        def run(batch: pa.RecordBatch) -> Outcome:
            batch, results = expressions(batch)
            after = self._with_values(batch, {name: one.values for name, one in zip(self.values, results, strict=True)}, known)
            found = merge_failures(results)
            if found is None:
                return Outcome(after)
            rejects: tuple[Rejects, ...] = (reject_rows(batch, *found),)
            return Outcome(after.filter(pc.invert(found[0])), rejects)

        return run

    def _with_values(self, batch: pa.RecordBatch, values: Mapping[str, pa.Array], known: frozenset[str]) -> pa.RecordBatch:
        return with_columns(batch, values)
