"""Give fields other types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from etl.api import (
    ArrowStep,
    FieldName,
    Finding,
    Outcome,
    Schema,
    Step,
    TypeName,
    format_type,
    parse_type,
    unknown_field,
    with_columns,
    with_fields,
    with_key_renamed,
)
from etl.expressions import Evaluation, analyse, merge_failures, quote_name, reject_rows
from etl.steps.spark_values import StepExpression, StepExpressions, computed_types, fields_without_values, spark_values


class Convert(ArrowStep):
    """Give fields other types, as Spark's ``cast`` does.

    Texts become numbers, booleans (``true yes y t 1`` and their opposites), dates and timestamps (ISO 8601, in UTC where
    they name no offset); numbers are cut toward zero and must fit. Null stays null. ``on_error`` decides
    about an event with a value that cannot be converted.

    ```yaml
    type: convert
    fields:
      port: int
      started: timestamp
    on_error: keep
    ```
    """

    type: Literal["convert"] = "convert"
    types: Mapping[FieldName, TypeName] = Field(alias="fields", min_length=1, description="Fields and the types they become.")
    on_error: Literal["dead_letter", "drop", "keep"] = Field(
        default="dead_letter",
        description="What happens to an event that cannot be converted: dead letters, dropped and counted, or passed on with "
        "null in that field.",
    )

    def check(self, incoming: Schema) -> Iterable[Finding]:
        for name, type_ in self.types.items():
            if name not in incoming.names:
                yield unknown_field(name, incoming, ("fields", name))
                continue
            for finding in analyse(_cast(name, type_), incoming).findings:
                yield Finding(finding.code, finding.message, ("fields", name), finding.hint)

    def takes_changes(self) -> bool:
        return True

    def fields(self, incoming: Schema) -> Schema:
        given = fields_without_values(incoming)
        unchanged_names = {name: name for name in given.names if name not in self.types}
        types = {n: parse_type(t) for n, t in self.types.items() if n in given.names}
        return with_key_renamed(with_fields(given, types), given, unchanged_names)

    def spark_reason(self, incoming: Schema) -> str | None:
        if computed_types(incoming):
            return None
        reasons = (analyse(one.text, incoming).spark_reason for one in self._expressions())
        return next((reason for reason in reasons if reason), None)

    def parts(self, incoming: Schema) -> Sequence[Step]:
        return (*spark_values(self.type, self._expressions(), incoming), self)

    def _expressions(self) -> list[StepExpression]:
        safe = self.on_error == "keep"
        return [StepExpression(("fields", name), _cast(name, type_, safe)) for name, type_ in self.types.items()]

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        expressions = StepExpressions(self._expressions(), incoming)

        def run(batch: pa.RecordBatch) -> Outcome:
            batch, results = expressions(batch)
            return self._outcome(batch, dict(zip(self.types, results, strict=True)))

        return run

    def _outcome(self, batch: pa.RecordBatch, results: Mapping[str, Evaluation]) -> Outcome:
        after = with_columns(batch, {name: result.values for name, result in results.items()})
        found = merge_failures(results.values())
        if found is None:
            return Outcome(after)
        events = after.filter(pc.invert(found[0]))
        return (
            Outcome(events) if self.on_error == "drop" else Outcome(events, (reject_rows(batch, *found, code="convert-failed"),))
        )


def _cast(name: str, type_: str, safe: bool = False) -> str:
    return f"{'try_cast' if safe else 'cast'}({quote_name(name)} as {_spark_type(type_)})"


def _spark_type(type_: str) -> str:
    return format_type(parse_type(type_))
