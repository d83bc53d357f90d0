"""Comparisons and choices between values, which meet in one type."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from etl.expressions import arithmetic, logic
from etl.expressions import bound as b
from etl.expressions.arguments import MisuseError, no_form
from etl.expressions.bound import Bound
from etl.expressions.casts import cast
from etl.expressions.signatures import operator_type
from etl.expressions.widening import ATOMIC, BOOLEAN, NULL, common_type_of


def coalesce(*parts: Bound) -> Bound:
    type_ = common_type_of([part.type for part in parts])
    if type_ is None:
        raise MisuseError(f"coalesce() of {_listed(parts)}: they have no type in common")
    return _usable(parts, type_) or logic.coalesce(parts, type_)


def choose(conditions: Sequence[Bound], values: Sequence[Bound], default: Bound) -> Bound:
    """``case`` and ``if``."""
    type_ = common_type_of([value.type for value in (*values, default)])
    if type_ is None:
        raise MisuseError(f"the values {_listed((*values, default))} have no type in common")
    return _usable((*values, default), type_) or logic.case(conditions, values, default, type_)


def _usable(parts: Sequence[Bound], type_: pa.DataType) -> Bound | None:
    if type_ in ATOMIC or type_ == NULL or all(part.type == type_ or part.value is None for part in parts):
        return None
    return no_form(f"a choice between {_listed(parts)}", type_)


def _listed(parts: Sequence[Bound]) -> str:
    return ", ".join(dict.fromkeys(arithmetic.type_name(part.type) for part in parts))


def compare(operator: str, left: Bound, right: Bound) -> Bound:
    """``= <> < <= > >= <=>``."""
    operator_type(f"operator {operator}", left, right)
    type_ = common_type_of([left.type, right.type])
    if type_ is None:
        return no_form(f"comparing {_listed((left, right))}", BOOLEAN)
    if type_ == NULL and not (left.unknown or right.unknown):
        left, right, type_ = cast(left, BOOLEAN), cast(right, BOOLEAN), BOOLEAN
    if type_ not in ATOMIC and not pa.types.is_decimal(type_):
        return no_form(f"comparing {arithmetic.type_name(type_)}", BOOLEAN)
    return logic.same(left, right, type_) if operator == "<=>" else arithmetic.compare(operator, left, right, type_)


def nullif(value: Bound, other: Bound) -> Bound:
    return logic.case([compare("=", value, other)], [b.literal(None, value.type)], value, value.type)


def nvl2(value: Bound, given: Bound, missing: Bound) -> Bound:
    return choose([logic.negated(logic.is_null(value))], [given], missing)


def if_(condition: Bound, taken: Bound, other: Bound | None = None) -> Bound:
    return choose([condition], [taken], other or b.literal(None, NULL))
