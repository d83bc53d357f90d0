"""What Spark computes for a row-wise step: the values of its expressions, each in a struct that is null where an error was
raised. The step itself runs on Arrow behind it, and makes dead letters of such events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import PlanError, Schema, SparkStep, without
from etl.expressions import Evaluation, analyse, compile_expression, quote_name, register
from etl.expressions.failures import describe_failures
from etl.steps.null_on_error import null_on_error

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COMPUTED = "values of spark"
"""The column with the values: a struct with a member for each expression, named after its number in the step, which is a
struct of one value, or null where Spark raised an error. No field has a name with blanks."""


@dataclass(frozen=True)
class StepExpression:
    """An expression of a step, and the option in which it is written."""

    path: tuple[str | int, ...]
    text: str


class SparkValues(SparkStep):
    """Compute expressions of a step in Spark; an error of one event does not end the query."""

    type: str
    """The type of the step."""
    expressions: Mapping[int, StepExpression]
    """By their numbers in the step."""
    filters: bool = False
    """Whether events for which the first expression is false or null are dropped."""

    def fields(self, incoming: Schema) -> Schema:
        types = {str(number): analyse(one.text, incoming).type for number, one in self.expressions.items()}
        members = pa.struct([pa.field(name, pa.struct([pa.field("value", type_)])) for name, type_ in types.items()])
        return incoming.append(pa.field(COMPUTED, members))

    def reason(self, incoming: Schema) -> str | None:
        reasons = (analyse(one.text, incoming).spark_reason for one in self.expressions.values())
        return next((reason for reason in reasons if reason), None)

    def spark_expressions(self, incoming: Schema) -> Mapping[tuple[str | int, ...], str]:
        found: dict[tuple[str | int, ...], str] = {}
        for one in self.expressions.values():  # of a query, several have one path
            text = analyse(one.text, incoming).spark_sql
            found[one.path] = f"{found[one.path]}\n{text}" if one.path in found else text
        return found

    def apply(self, events: DataFrame) -> DataFrame:
        from etl.expressions import schema_of

        register(events.sparkSession)
        incoming = schema_of(events)
        values = {
            number: null_on_error(events, one.text, analyse(one.text, incoming).spark_sql)
            for number, one in self.expressions.items()
        }
        after = events.withColumn(COMPUTED, _named(values))
        if types := self._types_of_nothing(after):
            values = {number: one.cast(types[number]) if number in types else one for number, one in values.items()}
            after = events.withColumn(COMPUTED, _named(values))
        if not self.filters:
            return after
        value = after[quote_name(COMPUTED)]["0"]
        return after.where(value.isNull() | value["value"])

    def _types_of_nothing(self, after: DataFrame) -> dict[int, Any]:
        """Number of an expression with elements of no type, such as ``array()`` → its type with texts in their place. Raises
        PlanError for a type that events cannot have."""
        types: Any = after.schema[COMPUTED].dataType
        found = {int(member.name): (member.dataType, *storable_type(member.dataType)) for member in types}
        for number, (_, _, mistake) in found.items():
            if mistake:
                raise PlanError(f"{' '.join(self.expressions[number].text.split())!r} gives {mistake}")
        return {number: held for number, (given, held, _) in found.items() if held != given}


def _named(values: Mapping[int, Column]) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.struct(*(value.alias(str(number)) for number, value in values.items()))


def spark_values(
    type_: str, expressions: Sequence[StepExpression], incoming: Schema, *, filters: bool = False
) -> list[SparkValues]:
    """The step before one of this type that computes those of its expressions that need Spark; none if no one does."""
    needed = {
        number: one
        for number, one in enumerate(expressions)
        if COMPUTED not in incoming.names and analyse(one.text, incoming).spark_reason
    }
    return [SparkValues(type=type_, expressions=needed, filters=filters)] if needed else []


class StepExpressions:
    """The expressions of a step for batches: those that Spark has computed are read, others are evaluated."""

    def __init__(self, expressions: Sequence[StepExpression], incoming: Schema) -> None:
        """``incoming``: the fields of the step's input, with `COMPUTED` if Spark computes some of them."""
        self._incoming = fields_without_values(incoming)
        self._texts = [one.text for one in expressions]
        self._computed = set(_computed_numbers(incoming))
        self._compiled = {
            number: compile_expression(text, self._incoming)
            for number, text in enumerate(self._texts)
            if number not in self._computed
        }

    def __call__(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[Evaluation]]:
        """The batch without the values of Spark, and the value of each expression."""
        from etl.expressions.dictionary_columns import DictionaryColumns

        computed = dict[int, Evaluation]()
        if self._computed:
            values, batch = batch.column(COMPUTED), batch.drop_columns([COMPUTED])
            computed = {number: _read(values.field(str(number)), self._texts[number], batch) for number in self._computed}
        repeats = DictionaryColumns(batch)
        found = computed | {number: evaluate(batch, repeats) for number, evaluate in self._compiled.items()}
        return batch, [found[number] for number in range(len(self._texts))]


def _read(tried: pa.StructArray, text: str, batch: pa.RecordBatch) -> Evaluation:
    """The values that Spark has computed, with the reasons where it raised errors."""
    values = tried.field("value")
    if not tried.null_count:
        return Evaluation(values)
    failed = tried.is_null()
    reasons = pa.array(describe_failures(text, batch.filter(failed)), pa.string())
    return Evaluation(values, failed, pc.replace_with_mask(pa.nulls(len(failed), pa.string()), failed, reasons))


def fields_without_values(incoming: Schema) -> Schema:
    """The fields of a step's input, without the values of Spark."""
    return without(incoming, [COMPUTED]) if COMPUTED in incoming.names else incoming


def computed_types(incoming: Schema) -> dict[int, pa.DataType]:
    """Number of an expression that Spark has computed → the type of its values."""
    if COMPUTED not in incoming.names:
        return {}
    members = incoming.field(COMPUTED).type
    return {number: members.field(str(number)).type.field("value").type for number in _computed_numbers(incoming)}


def _computed_numbers(incoming: Schema) -> Iterator[int]:
    if COMPUTED in incoming.names:
        yield from (int(member.name) for member in incoming.field(COMPUTED).type)


def storable_type(type_: Any) -> tuple[Any, str | None]:
    """The type with texts in place of values of no type, and why events cannot have it, None if they can."""
    from pyspark.sql import types as T  # noqa: N812

    if isinstance(type_, T.NullType):
        return T.StringType(), None
    if isinstance(type_, T.CalendarIntervalType | T.YearMonthIntervalType):
        return type_, "an interval, which events cannot have: write cast(… as string)"
    if isinstance(type_, T.ArrayType):
        item, mistake = storable_type(type_.elementType)
        return T.ArrayType(item, type_.containsNull), mistake
    if isinstance(type_, T.MapType):
        (key, wrong), (value, mistake) = storable_type(type_.keyType), storable_type(type_.valueType)
        return T.MapType(key, value, type_.valueContainsNull), wrong or mistake
    if not isinstance(type_, T.StructType):
        return type_, None
    twice = next((name for name in type_.names if type_.names.count(name) > 1), None)
    if twice is not None:
        return type_, f"structs with two members {twice!r}: name them with named_struct('a', …, 'b', …)"
    members = [(one, *storable_type(one.dataType)) for one in type_.fields]
    struct = T.StructType([T.StructField(one.name, item, one.nullable) for one, item, _ in members])
    return struct, next((mistake for _, _, mistake in members if mistake), None)
