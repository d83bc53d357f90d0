"""Calls of Spark that are refused before Spark computes them: results that would take all memory, and patterns of numbers after
whose error Spark formats the next event otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from etl.expressions.failures import MAX_ELEMENTS, NUMBER_PATTERN
from etl.expressions.output_limit import MAX_CHARACTERS

if TYPE_CHECKING:
    from pyspark.sql import Column

_MAX_ARRAY_CHARACTERS = 1 << 24
"""Characters of an array that repeats one element, of all together, as text."""
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
    return (number > MAX_ELEMENTS) | (number * size > _MAX_ARRAY_CHARACTERS)


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
