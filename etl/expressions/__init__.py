"""Spark SQL expressions: parsed once, typed against a schema, evaluated on Arrow where the meaning is exactly Spark's."""

from etl.expressions.analysis import Analysis, Evaluate, analyse, compile_expression
from etl.expressions.failures import failures, rejected
from etl.expressions.frames import quoted, register, schema_of
from etl.expressions.rows import Evaluated

__all__ = [
    "Analysis",
    "Evaluate",
    "Evaluated",
    "analyse",
    "compile_expression",
    "failures",
    "quoted",
    "register",
    "rejected",
    "schema_of",
]
