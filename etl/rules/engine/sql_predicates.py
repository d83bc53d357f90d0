"""Conditions in Spark SQL as functions of events, or of the texts of one field."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.texts import owned
from etl.expressions import compile_expression
from etl.rules.conditions.predicates import Sql
from etl.rules.search.regex_search import Test


def sql_test(predicate: Sql, of: str) -> Test:
    """A condition on one text field, for a column of texts."""
    holds = holding(predicate, pa.schema([(of, pa.string())]))
    return lambda texts: holds(pa.RecordBatch.from_arrays([texts], names=[of]))


def holding(predicate: Sql, schema: pa.Schema) -> Callable[[pa.RecordBatch], pa.BooleanArray]:
    """Events → where a condition is true (or false); where it cannot be computed it is neither."""
    evaluate = compile_expression(predicate.where, schema)

    def run(batch: pa.RecordBatch) -> pa.BooleanArray:
        values, failed, _ = evaluate(owned(batch.select(predicate.fields)) if predicate.fields else batch)
        mask = pc.fill_null(values.cast(pa.bool_()), not predicate.truth)
        mask = mask if predicate.truth else pc.invert(mask)
        return mask if failed is None else pc.and_not(mask, failed)

    return run
