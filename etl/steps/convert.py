"""Give fields other types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from etl.api import (
    ArrowStep,
    FieldName,
    Finding,
    Outcome,
    Schema,
    SparkStep,
    TypeName,
    format_type,
    parse_type,
    unknown_field,
    with_columns,
    with_fields,
    with_key_renamed,
)
from etl.expressions import Evaluation, compile_expression, merge_failures, quote_name, reject_rows
from etl.expressions.analysis import analyse

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class Convert(ArrowStep, SparkStep):
    """Give fields other types, as Spark's ``cast`` does.

    Texts become numbers, booleans (``true yes y t 1`` and their opposites), dates and timestamps (ISO 8601, in UTC where
    they name no offset); numbers are cut toward zero and must fit. Null stays null. ``on_error`` decides
    about an event with a value that cannot be converted. Between two Spark steps ``dead_letter`` is not possible: there such
    an event stops the run.

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
        kept = {name: name for name in incoming.names if name not in self.types}
        types = {n: parse_type(t) for n, t in self.types.items() if n in incoming.names}
        return with_key_renamed(with_fields(incoming, types), incoming, kept)

    def spark_reason(self, incoming: Schema) -> str | None:
        reasons = (analyse(_cast(name, type_), incoming).spark_reason for name, type_ in self.types.items())
        return next((reason for reason in reasons if reason), None)

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        safe = self.on_error == "keep"
        converters = {name: compile_expression(_cast(name, type_, safe), incoming) for name, type_ in self.types.items()}

        from etl.expressions.dictionary_columns import DictionaryColumns

        def run(batch: pa.RecordBatch) -> Outcome:
            repeats = DictionaryColumns(batch)
            results = {name: convert(batch, repeats) for name, convert in converters.items()}
            return self._outcome(batch, results)

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

    def apply(self, events: DataFrame) -> DataFrame:
        columns = {name: events[quote_name(name)] for name in events.columns}
        given = {name: self._convert(columns[name], type_).alias(name) for name, type_ in self.types.items()}
        if self.on_error == "drop":
            for name, type_ in self.types.items():
                events = events.filter(columns[name].isNull() | columns[name].try_cast(_spark_type(type_)).isNotNull())
        return events.select(*(columns | given).values())

    def _convert(self, column: Column, type_: str) -> Column:
        return column.cast(_spark_type(type_)) if self.on_error == "dead_letter" else column.try_cast(_spark_type(type_))


def _cast(name: str, type_: str, safe: bool = False) -> str:
    return f"{'try_cast' if safe else 'cast'}({quote_name(name)} as {_spark_type(type_)})"


def _spark_type(type_: str) -> str:
    return format_type(parse_type(type_))
