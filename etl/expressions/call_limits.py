"""Calls of Spark that are refused before Spark computes them: results that would take all memory, patterns of numbers after
whose error Spark formats the next event otherwise, and types that events cannot have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from etl.expressions.failures import MAX_ELEMENTS, NUMBER_PATTERN
from etl.expressions.output_limit import MAX_CHARACTERS

if TYPE_CHECKING:
    from pyspark.sql import Column

_MAX_BYTES = 1 << 24
"""Characters of all elements of an array that repeats one, as text."""
_MAX_DIGITS = 1000
"""Digits after the point, of which a double has 340 at most."""
_WIDE = r"%[-#+ 0,(<]*(\d+\$)?[-#+ 0,(<]*\.?\d{6}|\.\d{6}"
"""A format with a width or a precision of a hundred thousand or more."""


def _repeated(text: Column, count: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return _whole(count) * F.greatest(F.length(text).cast("bigint"), F.lit(1)) > MAX_CHARACTERS


def _filled(*arguments: Column) -> Column:
    return _whole(arguments[1]) > MAX_CHARACTERS


def _spaces(count: Column) -> Column:
    return _whole(count) > MAX_CHARACTERS


def _repeated_element(element: Column, count: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    number, size = _whole(count), F.coalesce(F.length(element.cast("string")).cast("bigint"), F.lit(1))
    return (number > MAX_ELEMENTS) | (number * size > _MAX_BYTES)


def _inserted(array: Column, position: Column, element: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.abs(_whole(position)) > MAX_ELEMENTS


def _listed(first: Column, last: Column, step: Column | None = None) -> Column:
    """Whether there are elements beyond the last that is allowed. Where its value overflows, there are none."""
    from pyspark.sql import functions as F  # noqa: N812

    if step is None:
        whole = (one.cast("string").try_cast("bigint") for one in (last, first))  # null for times, which are a day apart
        return F.abs(F.try_subtract(*whole)) > MAX_ELEMENTS
    end = F.try_add(first, F.try_multiply(step, F.lit(MAX_ELEMENTS)))
    return ((last > first) & (end > first) & (end < last)) | ((last < first) & (end < first) & (end > last))


def _formatted(template: Column, *values: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.regexp_like(template, F.lit(_WIDE))


def _number_pattern(number: Column, pattern: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    text = pattern.cast("string")
    digits = text.try_cast("bigint")
    return F.when(digits.isNotNull(), digits > _MAX_DIGITS).otherwise(~F.regexp_like(text, F.lit(NUMBER_PATTERN)))


def _whole(count: Column) -> Column:
    """A number as Spark takes it, as bigint, which does not overflow here."""
    return count.cast("int").cast("bigint")


LIMITS: Mapping[str, tuple[Callable[..., Column], tuple[int, ...]]] = {
    "repeat": (_repeated, (2,)),
    "space": (_spaces, (1,)),
    "lpad": (_filled, (2, 3)),
    "rpad": (_filled, (2, 3)),
    "array_repeat": (_repeated_element, (2,)),
    "array_insert": (_inserted, (3,)),
    "sequence": (_listed, (2, 3)),
    "format_string": (_formatted, tuple(range(1, 100))),
    "printf": (_formatted, tuple(range(1, 100))),
    "format_number": (_number_pattern, (2,)),
}
"""Function → whether a call is refused, as an expression of its arguments, and how many of them it can have."""


def held_type(type_: Any) -> tuple[Any, str | None]:
    """The type with texts in place of values of no type, and why events cannot have it, None if they can."""
    from pyspark.sql import types as T  # noqa: N812

    if isinstance(type_, T.NullType):
        return T.StringType(), None
    if isinstance(type_, T.CalendarIntervalType | T.YearMonthIntervalType):
        return type_, "an interval, which events cannot have: write cast(… as string)"
    if isinstance(type_, T.ArrayType):
        item, mistake = held_type(type_.elementType)
        return T.ArrayType(item, type_.containsNull), mistake
    if isinstance(type_, T.MapType):
        (key, wrong), (value, mistake) = held_type(type_.keyType), held_type(type_.valueType)
        return T.MapType(key, value, type_.valueContainsNull), wrong or mistake
    if not isinstance(type_, T.StructType):
        return type_, None
    twice = next((name for name in type_.names if type_.names.count(name) > 1), None)
    if twice is not None:
        return type_, f"structs with two members {twice!r}: name them with named_struct('a', …, 'b', …)"
    members = [(one, *held_type(one.dataType)) for one in type_.fields]
    held = T.StructType([T.StructField(one.name, item, one.nullable) for one, item, _ in members])
    return held, next((mistake for _, _, mistake in members if mistake), None)
