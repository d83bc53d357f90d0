"""Rows of Spark in the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext
    from pyspark.sql import DataFrame


def collect_all(rows: DataFrame | RDD[Any]) -> list[Any]:
    """Collect all rows. Raises what PySpark raises, also if the JVM ends while it sends the rows: PySpark takes the end of its
    socket for the end of the rows, and results that are not in the list would never be committed."""
    from pyspark import RDD

    found = rows.collect()
    context = rows.context if isinstance(rows, RDD) else rows.sparkSession.sparkContext
    require_jvm(context)
    return found


def require_jvm(context: SparkContext) -> None:
    """Raise what PySpark raises if the JVM has ended."""
    context.getLocalProperty("spark.job.description")
