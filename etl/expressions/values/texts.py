"""Spark's text functions on Arrow: characters are code points, positions count from 1, trim removes spaces."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.joined_texts import join_texts
from etl.expressions.widening import INT32


def length(text: Any) -> Any:
    return pc.cast(pc.utf8_length(text), INT32)


def change_case(ascii_kernel: Callable[[Any], Any], full: Callable[[str], str], text: Any) -> Any:
    """ASCII texts in Arrow; others in Python, because Arrow maps single letters only (ß, İ, final ς differ)."""
    changed = ascii_kernel(text)
    if isinstance(text, pa.Scalar):
        return pa.scalar(full(text.as_py()) if text.is_valid else None, pa.string())
    other = pc.invert(pc.fill_null(pc.string_is_ascii(text), True))
    if not other.true_count:
        return changed
    values = [full(value) for value in text.filter(other).to_pylist()]
    return pc.replace_with_mask(changed, other, pa.array(values, pa.string()))


upper = partial(change_case, pc.ascii_upper, str.upper)
lower = partial(change_case, pc.ascii_lower, str.lower)


def substring(position: int, count: int | None, text: Any) -> Any:
    """Spark's ``substring``: position 0 is 1, a negative one counts from the end."""
    if count is not None and count <= 0:
        return pc.utf8_slice_codeunits(text, 0, 0)
    if position >= 0:
        first = max(position - 1, 0)
        return pc.utf8_slice_codeunits(text, first, None if count is None else first + count)
    if count is None:
        return pc.utf8_slice_codeunits(text, position, None)
    stop = position + count
    sliced = pc.utf8_slice_codeunits(text, position, stop if stop < 0 else None)
    short = pc.less(pc.utf8_length(text), -position)
    if not pc.any(short).as_py():
        return sliced
    # if a text is shorter than the position, the missing characters before it count into the length
    padded = pc.utf8_lpad(text, width=-position, padding="\0")
    window = pc.utf8_slice_codeunits(padded, position, stop if stop < 0 else None)
    missing = pc.subtract(-position, pc.utf8_length(text))
    return pc.if_else(short, _without_first(window, missing, -position), sliced)


def _without_first(text: Any, counts: Any, max_count: int) -> Any:
    """Each text without its first ``counts`` characters; ``max_count`` is their upper bound."""
    result = text
    for count in range(1, max_count + 1):
        result = pc.if_else(pc.equal(counts, count), pc.utf8_slice_codeunits(text, count, None), result)
    return result


def split_part(delimiter: str, index: int, text: Any) -> Any:
    """The part at ``index`` (negative: from the end); empty if there is none."""
    if isinstance(text, pa.Scalar):
        return split_part(delimiter, index, pa.array([text.as_py()], pa.string()))[0]
    if delimiter == "":
        return text if index in (1, -1) else pc.utf8_slice_codeunits(text, 0, 0)
    lists = pc.split_pattern(text, delimiter)
    starts, stops = lists.offsets[:-1], lists.offsets[1:]
    at = pc.add(starts, index - 1) if index > 0 else pc.add(stops, index)
    inside = pc.and_(pc.greater_equal(at, starts), pc.less(at, stops))
    parts = lists.values.take(pc.if_else(inside, at, pa.scalar(None, at.type)))
    return pc.if_else(pc.is_valid(text), pc.fill_null(parts, ""), pa.scalar(None, pa.string()))


def concat(*texts: Any) -> Any:
    return pc.binary_join_element_wise(*texts, "", null_handling="emit_null")


def concat_ws(separator: Any, first: Any, *others: Any) -> Any:
    """Skips nulls; a row of nulls gets an empty text."""
    return join_texts(separator, first, *others)


def replace(old: str, new: str, text: Any) -> Any:
    return pc.replace_substring(text, old, new) if old else text


def escape_re2(text: str) -> str:
    """RE2 pattern that matches the text itself."""
    return "".join(f"\\x{{{ord(c):x}}}" if ord(c) < 0x20 else c if c.isalnum() or not c.isascii() else f"\\{c}" for c in text)
