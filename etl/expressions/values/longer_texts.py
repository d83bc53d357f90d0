"""Text functions whose results may be much longer than their arguments: the largest of a batch fail if not all fit."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions.output_limit import MAX_CHARACTERS, TOO_LONG, fail_largest
from etl.expressions.rows import ActiveRows, broadcast

MAX_FILLED = 1000
"""Characters to which texts are filled from a table of all fillings."""


def fill(count: int, filling: str, left: bool, rows: ActiveRows, text: Any) -> Any:
    """``lpad``, ``rpad``: texts filled to a number of characters, or cut to it."""
    fillings = pa.array([(filling * count)[:missing] for missing in range(count + 1)], pa.string())
    if isinstance(text, pa.Scalar):
        return fill(count, filling, left, rows, pa.repeat(text, 1))[0]
    left_out = fail_largest(
        rows, pa.repeat(pa.scalar(count * max(len(character.encode()) for character in filling), pa.int64()), len(text))
    )
    if left_out is not None:
        text = pc.if_else(left_out, pa.scalar(None, pa.string()), text)
    cut = pc.utf8_slice_codeunits(text, 0, count)
    missing = fillings.take(pc.subtract(count, pc.utf8_length(cut)))
    return pc.binary_join_element_wise(*((missing, cut) if left else (cut, missing)), "")


def replace_all(old: str, new: str, rows: ActiveRows, text: Any) -> Any:
    """Texts with another for each part, which is not empty."""
    if len(new) > GROWTH * len(old) and not isinstance(text, pa.Scalar):
        longer = pc.multiply(pc.cast(pc.count_substring(text, old), pa.int64()), len(new.encode()))
        left_out = fail_largest(rows, pc.add(longer, pc.cast(pc.binary_length(text), pa.int64())))
        text = text if left_out is None else pc.if_else(left_out, pa.scalar(None, pa.string()), text)
    return pc.replace_substring(text, old, new)


def replace_matches(pattern: str, rewrite: str, rows: ActiveRows, text: Any) -> Any:
    """Texts with another for each match of a pattern, as RE2 writes it: ``\\1`` is the text of a group."""
    if len(rewrite) > GROWTH and not isinstance(text, pa.Scalar):
        added = pc.multiply(pc.cast(pc.count_substring_regex(text, pattern), pa.int64()), len(rewrite.encode()))
        size = pc.multiply(pc.cast(pc.binary_length(text), pa.int64()), 1 + rewrite.count("\\"))
        left_out = fail_largest(rows, pc.add(added, size))
        text = text if left_out is None else pc.if_else(left_out, pa.scalar(None, pa.string()), text)
    return pc.replace_substring_regex(text, pattern, rewrite)


def join(separator: str, rows: ActiveRows, texts: Any) -> Any:
    """The texts of each list in one."""
    if len(separator) > GROWTH and not isinstance(texts, pa.Scalar):
        added = pc.multiply(pc.cast(pc.list_value_length(texts), pa.int64()), len(separator.encode()))
        left_out = fail_largest(rows, added)
        texts = texts if left_out is None else pc.if_else(left_out, pa.scalar(None, texts.type), texts)
    return pc.binary_join(texts, separator)


GROWTH = 8
"""How many times longer a replacement is before the sizes of results are computed first."""


def repeat(rows: ActiveRows, text: Any, count: Any) -> Any:
    """Repeat each text by its count; the result is empty for a negative one."""
    if isinstance(text, pa.Scalar) and not text.is_valid:  # for which Arrow's function ends the process
        return text
    number = pc.cast(pc.max_element_wise(count, pa.scalar(0, count.type), skip_nulls=False), pa.int64())
    size = pc.cast(pc.utf8_length(text), pa.int64())
    too_long = pc.greater(number, pc.divide(MAX_CHARACTERS, pc.max_element_wise(size, 1)))
    rows.fail(too_long, TOO_LONG)
    number = pc.if_else(too_long, pa.scalar(0, pa.int64()), number)
    if isinstance(text, pa.Scalar) and isinstance(number, pa.Scalar):
        return pc.binary_repeat(text, number)
    left_out = fail_largest(rows, broadcast(pc.multiply(number, pc.cast(pc.binary_length(text), pa.int64())), rows.length))
    return pc.binary_repeat(text, number if left_out is None else pc.if_else(left_out, pa.scalar(0, pa.int64()), number))
