"""How near rows are to meeting a condition, from 0 to 1: for ``n >= 100`` a row with n = 80 has the share 0.8."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.api import EtlError, PlanError, Schema
from etl.expressions import CompiledExpression, analyse, compile_expression
from etl.expressions.tree import parse

Shares: TypeAlias = Callable[[pa.RecordBatch], Any]
"""Rows → float64[rows], each from 0 to 1."""

MAX_COMPARISONS = 100
"""Maximum number of comparisons for which shares are computed; a longer condition has the shares 0 and 1 only."""

BELOW_ONE = float(np.nextafter(1, 0))
"""The largest share of a row that does not meet the condition, such as one with equal numbers for ``>``."""


def condition_shares(text: str, fields: Schema) -> Shares:
    """The shares of rows of these fields. Raises EtlError if the condition cannot be computed here.

    The share of ``a >= b``, ``a > b``, ``b <= a`` and ``b < a`` is a / b, if a and b are positive numbers; of any other condition
    it is 1 or 0. ``and`` has the smaller share of its sides, ``or`` the larger one. It is 1 if and only if the condition holds.
    """
    whole = _holds(text, fields)
    tree = parse(text)
    shares = _shares(tree, fields) if _size(tree) <= MAX_COMPARISONS else whole

    def compute(rows: pa.RecordBatch) -> Any:
        return np.where(whole(rows) == 1, 1.0, np.minimum(shares(rows), BELOW_ONE))

    return compute


def _size(tree: Any) -> int:
    return sum(type(node).__name__ in ("And", "Or") for node in tree.walk()) + 1


def _shares(node: Any, fields: Schema) -> Shares:
    match type(node).__name__:
        case "Paren":
            return _shares(node.this, fields)
        case "And" | "Or" as kind:
            sides = [_shares(side, fields) for side in (node.this, node.expression)]
            choose = np.minimum if kind == "And" else np.maximum
            return lambda rows: reduce(choose, [side(rows) for side in sides])
        case "GTE" | "GT":
            return _ratio(node.this, node.expression, fields) or _holds(_sql(node), fields)
        case "LTE" | "LT":
            return _ratio(node.expression, node.this, fields) or _holds(_sql(node), fields)
    return _holds(_sql(node), fields)


def _sql(node: Any) -> str:
    return str(node.sql(dialect="spark"))


def _ratio(above: Any, below: Any, fields: Schema) -> Shares | None:
    """The share ``above / below``, at most 1; None if one of them is not a number."""
    texts = _sql(above), _sql(below)
    if not all(_is_number(analyse(text, fields).type) for text in texts):
        return None
    numerator, denominator = (_numbers(compile_expression(text, fields)) for text in texts)

    def compute(rows: pa.RecordBatch) -> Any:
        value, limit = numerator(rows), denominator(rows)
        with np.errstate(all="ignore"):
            share = np.where(value >= limit, 1.0, np.where((value > 0) & (limit > 0), value / limit, 0.0))
        return np.nan_to_num(share)

    return compute


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def _numbers(evaluate: CompiledExpression) -> Shares:
    """Values as float64; NaN for null and for rows that fail."""

    def compute(rows: pa.RecordBatch) -> Any:
        values, failed, _ = evaluate(rows)
        numbers = pc.fill_null(values.cast(pa.float64(), safe=False), np.nan).to_numpy(zero_copy_only=False)
        return numbers if failed is None else np.where(failed.to_numpy(zero_copy_only=False), np.nan, numbers)

    return compute


def _holds(text: str, fields: Schema) -> Shares:
    """1 where a condition is true, else 0. Raises EtlError if it is not valid for these fields, or if only Spark computes it."""
    analysis = analyse(text, fields)
    problems = [one.message for one in analysis.condition_findings_at() if one.severity == "error"]
    if problems:
        raise EtlError("; ".join(problems))
    if analysis.spark_reason:
        raise EtlError(f"only Spark computes {analysis.spark_reason}")
    try:
        evaluate = compile_expression(text, fields)
    except PlanError as error:
        raise EtlError(str(error)) from error

    def compute(rows: pa.RecordBatch) -> Any:
        values, failed, _ = evaluate(rows)
        true = pc.fill_null(values.cast(pa.bool_()), False).to_numpy(zero_copy_only=False)
        return np.where(true if failed is None else true & ~failed.to_numpy(zero_copy_only=False), 1.0, 0.0)

    return compute
