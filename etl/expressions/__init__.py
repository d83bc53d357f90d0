"""Spark SQL expressions: parsed once, typed against a schema, evaluated on Arrow where the meaning is exactly Spark's.

Where the two are known to differ, Arrow rejects the event and Spark goes on, or stops earlier:

- Spark leaves out what cannot change a result (``cast(s as int) > 1 and false``) and so does not see its error; a constant
  that always fails (``1 / 0``) stops it before the first event.
- A text that is a time without a day, which Spark takes for today's, or names its zone by a place (``CET``), is no timestamp.
- Parts and texts of dates more than 30,000 years away.
- ``\\b`` in a regular expression knows ASCII only, as in Java from version 19 on; a match does not begin inside of a
  character beyond U+FFFF, where Java looks too (``\\B`` in ``😀``).
- ``try_to_timestamp`` with a pattern is null for a year that a timestamp cannot hold, where Spark raises an overflow.
"""

from etl.expressions.analysis import Analysis, Evaluate, analyse, analyse_node, compile_expression
from etl.expressions.failures import failures, rejected
from etl.expressions.frames import quoted, register, schema_of
from etl.expressions.rows import Evaluated
from etl.expressions.tree import BadExpressionError, parse_statements

__all__ = [
    "Analysis",
    "BadExpressionError",
    "Evaluate",
    "Evaluated",
    "analyse",
    "analyse_node",
    "compile_expression",
    "failures",
    "parse_statements",
    "quoted",
    "register",
    "rejected",
    "schema_of",
]
