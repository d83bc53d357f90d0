"""Binds comparisons and conditional functions: their operands are cast to a common type."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

from etl.expressions import arithmetic, logic
from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError, no_arrow_form
from etl.expressions.casts import cast, find_converter
from etl.expressions.signatures.lookup import operator_type
from etl.expressions.widening import ATOMIC, BOOLEAN, NULL, common_type_of, is_decimal


def coalesce(*parts: BoundNode) -> BoundNode:
    type_ = common_type_of([part.type for part in parts])
    if type_ is None:
        raise MisuseError(f"coalesce() of {_list_types(parts)}: they have no type in common")
    return b.or_unknown(_usable(parts, type_) or logic.coalesce(parts, type_), *parts)


def choose(conditions: Sequence[BoundNode], values: Sequence[BoundNode], default: BoundNode) -> BoundNode:
    """``case`` and ``if``."""
    type_ = common_type_of([value.type for value in (*values, default)])
    if type_ is None:
        raise MisuseError(f"the values {_list_types((*values, default))} have no type in common")
    return b.or_unknown(_usable((*values, default), type_) or logic.case(conditions, values, default, type_), *values, default)


def _usable(parts: Sequence[BoundNode], type_: pa.DataType) -> BoundNode | None:
    if is_decimal(type_) and all(find_converter(part.type, type_) or part.type == NULL for part in parts):
        return None
    if type_ in ATOMIC or type_ == NULL or all(part.type in (type_, NULL) for part in parts):
        return None
    return no_arrow_form(f"a choice between {_list_types(parts)}", type_)


def _list_types(parts: Sequence[BoundNode]) -> str:
    return ", ".join(dict.fromkeys(arithmetic.type_name(part.type) for part in parts))


def compare(operator: str, left: BoundNode, right: BoundNode) -> BoundNode:
    """``= <> < <= > >= <=>``."""
    operator_type(f"operator {operator}", left, right)
    type_ = common_type_of([left.type, right.type])
    for side, other in ((left, right), (right, left)):
        if not other.is_literal:
            _check_literal(side, type_)
    if type_ is None:
        return no_arrow_form(f"comparing {_list_types((left, right))}", BOOLEAN)
    if type_ == NULL and not (left.unknown or right.unknown):
        left, right, type_ = cast(left, BOOLEAN), cast(right, BOOLEAN), BOOLEAN
    if type_ not in ATOMIC and not pa.types.is_decimal(type_) and not pa.types.is_time(type_):
        return no_arrow_form(f"comparing {arithmetic.type_name(type_)}", BOOLEAN)
    return logic.same(left, right, type_) if operator == "<=>" else arithmetic.compare(operator, left, right, type_)


def _check_literal(side: BoundNode, type_: pa.DataType | None) -> None:
    """Raise MisuseError for a text constant that Spark would fail to cast to the other operand's type, for each event."""
    if not side.is_literal or not isinstance(side.value, str) or type_ is None:
        return
    form = next((form for test, form in _FORMS if test(type_)), None)
    if form is not None and not form.fullmatch(side.value.strip()):
        hint = "a time ago is now() - interval 1 hour" if pa.types.is_timestamp(type_) else None
        raise MisuseError(f"{side.value!r} is not of type {arithmetic.type_name(type_)}, which it is compared with", hint=hint)


_FORMS = (
    (pa.types.is_integer, re.compile(r"[-+]?\d+")),
    (pa.types.is_floating, re.compile(r"[-+]?(?:\d.*|\..*|inf(?:inity)?|nan)", re.IGNORECASE)),
    (lambda type_: pa.types.is_timestamp(type_) or pa.types.is_date(type_), re.compile(r"[-+]?\d{1,6}(?:-.*)?|T?\d{1,2}:.*")),
    (pa.types.is_boolean, re.compile(r"t|true|y|yes|1|f|false|n|no|0", re.IGNORECASE)),
)
"""Patterns of texts that can be cast to a type; for most types only the beginning is checked."""


def nullif(value: BoundNode, other: BoundNode) -> BoundNode:
    return logic.case([compare("=", value, other)], [b.literal(None, value.type)], value, value.type)


def nvl2(value: BoundNode, given: BoundNode, missing: BoundNode) -> BoundNode:
    return choose([logic.negate(logic.is_null(value))], [given], missing)


def if_(condition: BoundNode, taken: BoundNode, other: BoundNode | None = None) -> BoundNode:
    return choose([condition], [taken], other or b.literal(None, NULL))
