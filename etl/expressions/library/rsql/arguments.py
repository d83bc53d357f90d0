"""Arguments of script functions: a text that holds a number is one, and what cannot be converted is null."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError, as_text
from etl.expressions.casts import cast
from etl.expressions.library.kernels import by_value, constant
from etl.expressions.widening import BOOLEAN, DOUBLE, FLOATS, INT64, INTEGERS, NULL, STRING, is_decimal


def as_double(value: BoundNode) -> BoundNode:
    """A number, or a text that holds one, as a double; null for any other text."""
    return cast(value, DOUBLE, safe=True)


def as_whole(value: BoundNode) -> BoundNode:
    """A whole number, or a text that holds one; null for a text with a fraction or anything else."""
    if value.type in INTEGERS or value.type == NULL:
        return cast(value, INT64)
    return cast(text_of(value), INT64, safe=True)


def text_of(value: BoundNode) -> BoundNode:
    """A value as text; a double as Java writes it."""
    if value.type in FLOATS:
        return by_value(STRING, _double_text, fails=False)(cast(value, DOUBLE))
    if is_decimal(value.type):
        return b.apply(STRING, lambda number: pc.cast(number, STRING), value)
    return as_text(value)


def _double_text(number: float) -> str:
    if number == 0 or 1e-3 <= abs(number) < 1e7 or number - number != 0:
        return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(repr(number), repr(number))
    digits, _, exponent = f"{number:.17e}".partition("e")
    shortest = repr(number).lower()
    if "e" in shortest:
        digits, _, exponent = shortest.partition("e")
        return f"{digits}{'' if '.' in digits else '.0'}E{int(exponent)}"
    whole = shortest.lstrip("-").replace(".", "").strip("0") or "0"
    return f"{'-' * (number < 0)}{whole[0]}.{whole[1:] or '0'}E{int(exponent)}"


def constant_text(value: BoundNode, what: str) -> str:
    """The text of a constant. Raises MisuseError for one that depends on the event, or is null."""
    is_constant, found = constant(value)
    if not is_constant or found is None:
        raise MisuseError(f"{what} is a constant here", hint="write it in quotes")
    return str(found)


def clipped(number: int) -> int:
    """A position or count as Arrow's functions take it: no text is longer than the limits of int32."""
    return min(max(number, -_LIMIT), _LIMIT - 1)


_LIMIT = 1 << 31


def constant_whole(value: BoundNode, what: str) -> int:
    """The position or count of a constant. Raises MisuseError for anything else."""
    try:
        return clipped(int(constant_text(value, what)))
    except ValueError as error:
        raise MisuseError(f"{what} is a whole number") from error


def of_texts(kernel: Callable[..., Any], type_: pa.DataType = STRING) -> Callable[..., BoundNode]:
    """A function of the texts of its arguments, on Arrow."""
    return lambda *args: b.apply(type_, kernel, *map(text_of, args))


def of_doubles(kernel: Callable[..., Any]) -> Callable[..., BoundNode]:
    """A function of doubles, on Arrow; what is not a number is null."""
    return lambda *args: b.apply(DOUBLE, partial(_run_without_nan, kernel), *map(as_double, args))


def _run_without_nan(kernel: Callable[..., Any], *values: Any) -> Any:
    found = kernel(*values)
    return pc.if_else(pc.is_nan(found), pa.scalar(None, DOUBLE), found)


def of_wholes(kernel: Callable[..., Any], type_: pa.DataType = INT64) -> Callable[..., BoundNode]:
    """A function of whole numbers, on Arrow."""
    return lambda *args: b.apply(type_, kernel, *map(as_whole, args))


def by_text(
    type_: pa.DataType, function: Callable[..., Any], *, nulls: bool = False, grows: bool = False
) -> Callable[..., BoundNode]:
    """A Python function of the texts of its arguments, called for each distinct combination.

    It fails no event unless it ``grows`` (see `by_value`).
    """
    build = by_value(type_, function, nulls=nulls, fails=False, grows=grows)
    return lambda *args: build(*map(text_of, args))


def is_numeric(value: BoundNode) -> bool:
    return value.type in INTEGERS or value.type in (DOUBLE, pa.float32()) or is_decimal(value.type)


def is_flag(value: BoundNode) -> bool:
    return value.type == BOOLEAN
