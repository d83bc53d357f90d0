"""What Spark computes for a row-wise step: the values of its expressions, each in a struct that is null where an error was
raised. The step itself runs on Arrow behind it, and makes dead letters of such events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import Schema, SparkStep, without
from etl.expressions import PYTHON_FUNCTIONS, Evaluation, analyse, compile_expression, quote_name, register
from etl.expressions.failures import describe_failures
from etl.expressions.tree import parse
from etl.steps.heartbeats import FENCE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_CHANGED_BY_ERRORS = frozenset(
    ["map", "map_concat", "map_from_arrays", "map_from_entries", "str_to_map", "transform_keys", "format_number"]
)
"""Functions of Spark that an error of one event leaves in a state that is wrong for the next one: they add the entries of the one
to the map of the other, or format with a pattern of before. An error of an expression with one ends the query."""

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
        from pyspark.sql import functions as F  # noqa: N812

        from etl.expressions import schema_of

        register(events.sparkSession)
        incoming = schema_of(events)
        values = [
            _evaluation(events, one.text, analyse(one.text, incoming).spark_sql).alias(str(number))
            for number, one in self.expressions.items()
        ]
        after = events.withColumn(COMPUTED, F.struct(*values))
        if not self.filters:
            return after
        value = after[quote_name(COMPUTED)]["0"]
        return after.where(value.isNull() | value["value"])


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


def _evaluation(events: DataFrame, text: str, spark_sql: str) -> Column:
    """``struct(value)``, or null where the evaluation raises an error that changes no later value."""
    from pyspark.sql import functions as F  # noqa: N812

    value = F.expr(spark_sql)
    calls = {str(part.this).lower() for part in parse(text).walk() if type(part).__name__ == "Anonymous"}
    if calls & _CHANGED_BY_ERRORS:
        return F.struct(value.alias("value"))
    tries = _Tries(events)
    if calls & PYTHON_FUNCTIONS:
        value = tries.with_tried_arguments(value)
    return tries.try_struct(value.alias("value"))


class _Tries:
    """Evaluations that give null where they raise an error: Spark has an expression for them, but no function."""

    def __init__(self, events: DataFrame) -> None:
        self._session: Any = events.sparkSession._jsparkSession
        jvm: Any = events.sparkSession._jvm
        self._jvm = jvm
        self._utils = jvm.org.apache.spark.sql.classic.ExpressionUtils

    def try_struct(self, *values: Column) -> Column:
        """``struct(values)``, or null where the evaluation raises an error.

        The condition is true, and keeps Spark from evaluating an expression that it finds twice once, before and outside of both.
        """
        from pyspark.sql import functions as F  # noqa: N812

        tried = self._jvm.org.apache.spark.sql.catalyst.expressions.TryEval(self._expression(F.struct(*values)))
        return F.when(F.expr(FENCE), self._column(tried))

    def with_tried_arguments(self, value: Column) -> Column:
        """The same value, in which errors of the arguments of `PYTHON_FUNCTIONS` are raised where the call is evaluated: Spark
        computes the arguments of all such calls before, for each event."""
        return self._column(self._rewrite(self._parsed(value)))

    def _parsed(self, column: Any) -> Any:
        """The tree of an expression, which `_expression` leaves to be parsed later."""
        return self._session.expression(column._jc)

    def _rewrite(self, expression: Any) -> Any:
        from pyspark.sql import functions as F  # noqa: N812

        given = expression.children()
        children = [self._rewrite(given.apply(number)) for number in range(given.size())]
        is_call = expression.getClass().getSimpleName() == "UnresolvedFunction"
        if not is_call or expression.nameParts().last().lower() not in PYTHON_FUNCTIONS:
            return self._with_children(expression, children) if children else expression
        names = [f"a{number}" for number in range(len(children))]
        tried = self.try_struct(*(self._column(one).alias(name) for one, name in zip(children, names, strict=True)))
        call = self._column(self._with_children(expression, [self._expression(tried[name]) for name in names]))
        return self._expression(F.when(tried.isNull(), F.raise_error(F.lit("an argument"))).otherwise(call))

    def _with_children(self, expression: Any, children: list[Any]) -> Any:
        return expression.withNewChildren(self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(children))

    def _expression(self, column: Any) -> Any:
        return self._utils.expression(column._jc)

    def _column(self, expression: Any) -> Column:
        from pyspark.sql.classic.column import Column as ClassicColumn

        return ClassicColumn(self._utils.column(expression))


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
