"""Binds array functions: ``array``, ``array_compact``, ``array_join``, ``size``, ``split``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError, as_text, no_arrow_form, text_literal
from etl.expressions.casts import cast
from etl.expressions.rows import ActiveRows, broadcast
from etl.expressions.widening import ATOMIC, INT32, STRING, common_type_of

_PLAIN = re.compile(r"(?:[^\\^$.|?*+()\[\]{}]|\\[^0-9A-Za-z])+")
"""A regular expression without operators: characters, and punctuation after a backslash."""


def array(*parts: BoundNode) -> BoundNode:
    """``array(a, b)``: elements are cast to their common type; nulls are kept."""
    type_ = common_type_of([part.type for part in parts])
    if type_ is None:
        raise MisuseError("array() takes values of one type")
    if type_ not in ATOMIC:
        return no_arrow_form("array() of these", pa.null())
    parts = tuple(cast(part, type_) for part in parts)

    def run(rows: ActiveRows) -> Any:
        values = [part.run(rows) for part in parts if part.run is not None]
        if all(isinstance(value, pa.Scalar) for value in values):
            return pa.scalar([value.as_py() for value in values], pa.list_(type_))
        return _interleave([broadcast(value, rows.length) for value in values])

    return b.or_unknown(b.lazily(pa.list_(type_), run, *parts), *parts)


def _interleave(columns: Sequence[pa.Array]) -> pa.ListArray:
    """Columns of one length → for each row, the list of their values."""
    import numpy as np

    width, length = len(columns), len(columns[0])
    order = np.arange(width * length).reshape(width, length).T.reshape(-1)
    offsets = np.arange(0, width * length + 1, width, dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.concat_arrays(columns).take(pa.array(order)))


def size(value: BoundNode) -> BoundNode:
    """The number of elements of an array, or of entries of a map; null of null."""
    if not (pa.types.is_list(value.type) or pa.types.is_map(value.type)):
        return no_arrow_form("size() of this", INT32)
    return b.apply(INT32, lambda x: pc.cast(pc.list_value_length(x), INT32), value)


def array_compact(value: BoundNode) -> BoundNode:
    """``array_compact(a)``: removes nulls; a null array stays null."""
    if not pa.types.is_list(value.type):
        if value.unknown:
            return no_arrow_form("array_compact() of this", pa.null())
        raise MisuseError("array_compact() takes an array")
    return b.apply(value.type, lambda x: _compact(x), value)


def _compact(value: Any) -> Any:
    import numpy as np

    if isinstance(value, pa.Scalar):
        return pa.scalar([item for item in value.as_py() if item is not None], value.type) if value.is_valid else value
    sizes = pc.fill_null(pc.list_value_length(value), 0).to_numpy(zero_copy_only=False)
    items = value.flatten()
    kept = items.is_valid().to_numpy(zero_copy_only=False)
    before = np.concatenate(([0], np.cumsum(kept, dtype=np.int32)))
    offsets = before[np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))].astype(np.int32)
    mask = value.is_null() if value.null_count else None
    return pa.ListArray.from_arrays(pa.array(offsets), items.drop_null(), mask=mask)


def array_join(value: BoundNode, separator: BoundNode) -> BoundNode:
    """``array_join(a, ', ')``: the texts of an array in one, without its nulls."""
    between = text_literal(separator)
    if between is None or not pa.types.is_list(value.type) or value.type.value_type != STRING:
        return no_arrow_form("array_join() of these", STRING)
    return b.apply(STRING, lambda x: pc.binary_join(_compact(x), between), value)


def split(text: BoundNode, pattern: BoundNode) -> BoundNode:
    """``split(text, ',')`` at a plain text; other patterns are left to Spark."""
    literal = text_literal(pattern)
    if literal is None or not _PLAIN.fullmatch(literal):
        return no_arrow_form("split() at a pattern", pa.list_(STRING))
    between = re.sub(r"\\(.)", r"\1", literal, flags=re.DOTALL)
    return b.apply(pa.list_(STRING), lambda x: pc.split_pattern(x, between), as_text(text))
