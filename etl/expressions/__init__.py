"""Spark SQL expressions: parsed once, typed against a schema, and evaluated on Arrow if the result is exactly Spark's.

Known differences, in which Arrow rejects the event while Spark continues, or stops earlier:

- Spark's optimiser removes parts that cannot change the result (``cast(s as int) > 1 and false``), and with them their errors;
  a constant that always fails (``1 / 0``) stops Spark before the first event.
- A text with a time but no day (for Spark, today), or with the name of a time zone (``CET``), is not a timestamp here.
- Parts and texts of dates more than 30,000 years away fail here.
- ``\\b`` in a regular expression is ASCII only, as in Java from version 19 on; a match does not begin inside a character beyond
  U+FFFF, as it may in Java (``\\B`` in ``😀``).
- ``try_to_timestamp`` with a pattern is null for a year beyond the range of timestamps, for which Spark raises an overflow.
"""

from etl.expressions.analysis import Analysis, CompiledExpression, analyse, analyse_node, compile_expression, is_condition
from etl.expressions.dataframes import PYTHON_FUNCTIONS, flatten, quote_name, register, schema_of
from etl.expressions.rows import Evaluation, merge_failures, reject_rows
from etl.expressions.tree import BadExpressionError, parse_statements

__all__ = [
    "PYTHON_FUNCTIONS",
    "Analysis",
    "BadExpressionError",
    "CompiledExpression",
    "Evaluation",
    "analyse",
    "analyse_node",
    "compile_expression",
    "flatten",
    "is_condition",
    "merge_failures",
    "parse_statements",
    "quote_name",
    "register",
    "reject_rows",
    "schema_of",
]
