"""Aggregates by Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from aggregate_events import BySpark, values

from etl.aggregates.checks import check_aggregate
from etl.api import OFFSET
from etl.expressions import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="session")
def by_spark(spark: SparkSession) -> BySpark:
    """Spark's results of aggregates, as those of `at_once`."""
    register(spark)

    def compute(batch: pa.RecordBatch, keys: Sequence[str], texts: Sequence[str]) -> dict[Any, dict[str, Any]]:
        table = _frame(spark, batch, keys, texts).toArrow()
        rows = zip(*(values(table.column(name)) for name in keys), strict=True) if keys else [()] * len(table)
        columns = zip(*(values(table.column(f"a{number}")) for number in range(len(texts))), strict=True)
        return {key: dict(zip(texts, row, strict=True)) for key, row in zip(rows, columns, strict=True)}

    return compute


def _frame(spark: SparkSession, batch: pa.RecordBatch, keys: Sequence[str], texts: Sequence[str]) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    sql = [check_aggregate(text, batch.schema).sql(f"struct(time, {OFFSET})") for text in texts]
    frame = spark.createDataFrame(pa.Table.from_batches([batch]))
    return frame.groupBy(*keys).agg(*(F.expr(one).alias(f"a{number}") for number, one in enumerate(sql)))
