"""Rows of Spark in the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from etl.receipts import decode_all, encode_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark import RDD, SparkContext
    from pyspark.sql import DataFrame

    from etl.receipts import Receipt


def collect_all(rows: DataFrame | RDD[Any]) -> list[Any]:
    """Collect all rows. Raises what PySpark raises, also if the JVM ends while it sends the rows: PySpark takes the end of its
    socket for the end of the rows, and results that are not in the list would never be committed."""
    from pyspark import RDD

    found = rows.collect()
    context = rows.context if isinstance(rows, RDD) else rows.sparkSession.sparkContext
    require_jvm(context)
    return found


def receipts_row(receipts: Sequence[Receipt]) -> pa.RecordBatch:
    """The receipts of a task as its only row for Spark."""
    return pa.RecordBatch.from_pydict({"receipt": pa.array([encode_all(receipts)], pa.binary())})


def collect_receipts(rows: DataFrame) -> list[Receipt]:
    """The receipts in the rows of a frame, which has one for each task.

    The rows of a micro-batch are planned already: they are collected as they are, because Spark would analyse, plan and compile a
    query over them, which takes a seventh of the CPU of a small micro-batch. That works for single rows only, for Spark's tasks
    write each row into the memory of the one before.
    """
    frame: Any = rows
    planned = frame._jdf.queryExecution().logical()
    if planned.getClass().getSimpleName() == "LogicalRDD":
        found = [row.getBinary(0) for row in planned.rdd().collect()]
    else:
        found = [row.receipt for row in collect_all(rows)]
    return [receipt for data in found for receipt in decode_all(bytes(data))]


def require_jvm(context: SparkContext) -> None:
    """Raise what PySpark raises if the JVM has ended."""
    context.getLocalProperty("spark.job.description")
