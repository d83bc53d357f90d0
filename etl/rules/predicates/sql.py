"""Conditions in Spark SQL, whole or the parts that no other family evaluates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import Schema
from etl.rules.conditions.column_types import TEXT_TYPES
from etl.rules.conditions.tree import Condition
from etl.rules.predicates.pattern import summarize_expressions
from etl.rules.predicates.text_predicate import TextPredicate

if TYPE_CHECKING:
    from etl.rules.engine.batch_engine import Switches
    from etl.rules.engine.bitsets import Bits
    from etl.rules.engine.column_texts import Column
    from etl.rules.engine.evaluators import EvaluatorContext, EvaluatorFactory
    from etl.rules.engine.text_tests import TextTest


@dataclass(frozen=True, slots=True)
class Sql(TextPredicate):
    """A Spark SQL condition is true, or with ``truth`` False is false."""

    has_text_test: ClassVar[bool] = True

    where: str
    fields: tuple[str, ...]
    truth: bool = True
    literals: tuple[str, ...] = ()
    """Wherever it is true, its only field contains one of these, in any case; empty if none is known."""

    def bind(self, schema: Schema) -> Condition:
        """Split into parts, which other families may evaluate. Raises BindError."""
        from etl.rules.conditions.spark_sql import parse_sql_condition

        return parse_sql_condition(self.where, schema)

    def group(self, number: int, schema: Schema) -> tuple[EvaluatorFactory, str]:
        """A condition on one text field with the field's texts, unless it holds for null; any other alone."""
        from etl.rules.engine.text_field import TextField

        (name, *others) = self.fields or ("",)
        on_texts = name and not others and schema.field(name).type in TEXT_TYPES and not _holds_for_null(self, name)
        return (TextField, name) if on_texts else (SqlEvaluator, str(number))

    @property
    def field_names(self) -> frozenset[str]:
        """All that it names."""
        return frozenset(self.fields)

    @property
    def expected_share(self) -> float:
        """Literals are rare."""
        return 0.01 if self.literals else 0.5

    @property
    def words(self) -> str:
        """As written."""
        return self.where

    def slow_reason(self) -> str | None:
        """It reads several fields and has no literal to search for first."""
        return f"{self.where!r} is computed for every event" if len(self.fields) > 1 and not self.literals else None

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Spark SQL names the stream's own fields."""
        return self

    def text_test(self, field: str, row: int, switches: Switches) -> TextTest:
        """The condition as a function of texts, prefiltered by its literals."""
        from etl.rules.engine.text_tests import TextTest

        holds = sql_function(self, pa.schema([(field, pa.string())]))

        def test(texts: pa.StringArray) -> pa.BooleanArray:
            return holds(pa.RecordBatch.from_arrays([texts], names=[field]))

        return TextTest(test, self.literals if switches.literals else (), None, 0, row)

    summarize = staticmethod(summarize_expressions)


class SqlEvaluator:
    """Evaluates one condition on batches."""

    deferred: frozenset[int] = frozenset()

    def __init__(self, field: str, predicates: Sequence[tuple[int, Sql]], context: EvaluatorContext) -> None:
        ((self._number, predicate),) = predicates
        self._holds = sql_function(predicate, context.schema)

    def evaluate(self, batch: pa.RecordBatch, columns: Mapping[str, Column], bits: Bits) -> None:
        """Set the bits of the rows for which it holds."""
        bits.put(self._number, self._holds(batch))


def quote_name(name: str) -> str:
    """A field's name in Spark SQL."""
    return f"`{name}`"


def sql_function(predicate: Sql, schema: Schema) -> Callable[[pa.RecordBatch], pa.BooleanArray]:
    """Events → whether the condition is true (or false); where it fails it is neither."""
    from etl.columns.texts import materialize
    from etl.expressions import compile_expression

    evaluate = compile_expression(predicate.where, schema)

    def run(batch: pa.RecordBatch) -> pa.BooleanArray:
        values, failed, _ = evaluate(materialize(batch.select(predicate.fields)) if predicate.fields else batch)
        mask = pc.fill_null(values.cast(pa.bool_()), not predicate.truth)
        mask = mask if predicate.truth else pc.invert(mask)
        return mask if failed is None else pc.and_not(mask, failed)

    return run


def _holds_for_null(predicate: Sql, name: str) -> bool:
    """Whether it holds where its only field is null: such rows have no text to test."""
    nothing = pa.RecordBatch.from_arrays([pa.nulls(1, pa.string())], names=[name])
    return bool(sql_function(predicate, nothing.schema)(nothing)[0].as_py())
