"""Functions of arrays."""

from __future__ import annotations

from etl.expressions.library.flink.array_aggregates import ARRAY_SUMS as FUNCTIONS

__all__ = ["FUNCTIONS"]
