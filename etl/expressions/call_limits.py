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


def _replaced(text: Column, old: Column, new: Column | None = None) -> Column:
    """Whether replacements that are longer than what they replace add too much. It is counted only where it may be so."""
    from pyspark.sql import functions as F  # noqa: N812

    if new is None:
        return F.lit(False)
    length, longer = F.length(old), _size(new) - F.length(old)
    count = (F.length(text) - F.length(F.replace(text, old, F.lit("")))) / length
    return (length > 0) & (longer * _size(text) > MAX_CHARACTERS) & (longer * count > MAX_CHARACTERS)


def _regex_replaced(text: Column, pattern: Column, new: Column, position: Column | None = None) -> Column:
    """Whether the replacements of all matches, with the groups that they name, would be too long."""
    from pyspark.sql import functions as F  # noqa: N812

    groups = _size(new) - F.length(F.replace(new, F.lit("$"), F.lit("")))
    added = F.regexp_count(text, pattern) * _size(new) + groups * _size(text)
    return ((_size(text) + 1) * _size(new) > MAX_CHARACTERS) & (added > MAX_CHARACTERS + _GROWTH * _size(text))


def _joined(array: Column, separator: Column, missing: Column | None = None) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    between = _size(separator) if missing is None else _size(separator) + _size(missing)
    return F.size(array) * between > MAX_CHARACTERS + 4 * F.size(array)


def _joined_texts(separator: Column, *parts: Column) -> Column:
    """Parts are texts or arrays of texts: how many separators they have is known by the length of the result."""
    from pyspark.sql import functions as F  # noqa: N812

    joined, plain = (F.call_function("concat_ws", F.lit(one), *parts) for one in ("-", ""))
    count = F.length(joined) - F.length(plain)
    return (_size(separator) > _GROWTH) & (count * _size(separator) > MAX_CHARACTERS)


def _size(text: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.length(text).cast("bigint")


_GROWTH = 16
"""How many times a text may be in its replacements, and characters of a separator that are not counted."""


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
    "replace": (_replaced, (2, 3)),
    "regexp_replace": (_regex_replaced, (3, 4)),
    "array_join": (_joined, (2, 3)),
    "concat_ws": (_joined_texts, tuple(range(2, 100))),
    "array_repeat": (_repeated_element, (2,)),
    "array_insert": (_inserted, (3,)),
    "sequence": (_listed, (2, 3)),
    "format_string": (_formatted, tuple(range(1, 100))),
    "printf": (_formatted, tuple(range(1, 100))),
    "format_number": (_number_pattern, (2,)),
}
"""Function → whether a call is refused, as an expression of its arguments, and how many of them it can have."""
