"""Functions that Spark does not have, in a step that Spark computes for another of its expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from etl.steps.filter import Filter
from etl.steps.set import Set

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_they_run_on_arrow_beside_what_spark_computes(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a.b", 1), ("c", 2)], "host string, n int")
    texts = {
        "part": "flink_split_index(host, '.', 1)",
        "sound": "soundex(host)",
        "sum": "flink_add(n, 1)",
        "one": "flink_add(1, 1)",
    }
    step = Set.model_validate({"type": "set", "fields": texts})
    where = Filter.model_validate({"type": "filter", "where": "flink_add(n, 0) = 1"})

    rows = where.apply(step.apply(frame)).collect()

    assert [row.asDict() for row in rows] == [{"host": "a.b", "n": 1, "part": "b", "sound": "A100", "sum": 2, "one": 2}]
