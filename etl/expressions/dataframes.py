"""Expressions on Spark DataFrames: registers the engine's functions, flattens structs, quotes flat column names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from etl.api import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


PYTHON_FUNCTIONS = frozenset(["ip_in", "community_id", "entropy"])
"""Those that `register` registers, which Python workers compute."""


def register(session: SparkSession) -> None:
    """Register the engine's functions in a Spark session, so that `Analysis.spark_sql` runs there."""
    from pyspark.sql.types import BooleanType, DoubleType, StringType

    from etl.expressions.values.addresses import ip_in
    from etl.expressions.values.community_id import community_id
    from etl.expressions.values.entropy import entropy

    session.udf.register("ip_in", ip_in, BooleanType())
    session.udf.register("community_id", community_id, StringType())
    session.udf.register("entropy", entropy, DoubleType())


def schema_of(events: DataFrame) -> Schema:
    """A DataFrame's columns as a flat schema."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(events.schema, timezone="UTC")


def flatten(events: DataFrame) -> DataFrame:
    """The members of structs as columns with dotted names."""
    from pyspark.sql.functions import col

    return events.select(*(col(path).alias(name) for name, path in _leaf_columns(events.schema, "", "")))


def _leaf_columns(schema: StructType, name: str, path: str) -> Iterator[tuple[str, str]]:
    from pyspark.sql.types import StructType

    for field in schema.fields:
        inner_name, inner_path = f"{name}{field.name}", f"{path}{quote_name(field.name)}"
        if isinstance(field.dataType, StructType):
            yield from _leaf_columns(field.dataType, f"{inner_name}.", f"{inner_path}.")
        else:
            yield inner_name, inner_path


def quote_name(name: str) -> str:
    """A column's name in backticks: without them, Spark takes dots for members of structs."""
    return "`" + name.replace("`", "``") + "`"
