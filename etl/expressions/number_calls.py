"""Binds calls of number functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from etl.api import TIMESTAMP
from etl.expressions import arithmetic
from etl.expressions.arguments import MisuseError, no_form, whole_literal
from etl.expressions.bound_node import BoundNode
from etl.expressions.widening import BOOLEAN, DATE, FLOAT, FLOATS, INT64, INTEGERS, NULL, is_number


def number(build: Callable[[BoundNode], BoundNode]) -> Callable[[BoundNode], BoundNode]:
    def checked(value: BoundNode) -> BoundNode:
        if value.type in (*INTEGERS, *FLOATS):
            return build(value)
        if value.type in (BOOLEAN, DATE, TIMESTAMP):
            raise MisuseError(f"a number is needed, and this is a {arithmetic.type_name(value.type)}")
        return no_form("this number", NULL if not is_number(value.type) else value.type)

    return checked


def whole(kernel: Callable[[Any], Any], value: BoundNode) -> BoundNode:
    if value.type == FLOAT:
        return no_form("floor() or ceil() of a float, which Spark casts first,", INT64)
    return arithmetic.whole(kernel, value)


def round_(value: BoundNode, digits: BoundNode | None = None) -> BoundNode:
    places = 0 if digits is None else whole_literal(digits)
    if places is None or places < 0 or (places > 0 and value.type not in INTEGERS):
        return no_form("round() to digits of a fraction", value.type)
    return number(arithmetic.rounded)(value)
