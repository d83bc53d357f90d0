"""Binds array functions: ``array``, ``array_append``, ``array_compact``, ``array_contains``, ``array_distinct``, ``array_join``,
``array_union``, ``get``, ``size``, ``split``, and ``concat`` of arrays.
"""

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
from etl.expressions.values import longer_texts
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
    is_valid = items.is_valid().to_numpy(zero_copy_only=False)
    before = np.concatenate(([0], np.cumsum(is_valid, dtype=np.int32)))
    offsets = before[np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))].astype(np.int32)
    mask = value.is_null() if value.null_count else None
    return pa.ListArray.from_arrays(pa.array(offsets), items.drop_null(), mask=mask)


def array_join(value: BoundNode, separator: BoundNode) -> BoundNode:
    """``array_join(a, ', ')``: the texts of an array in one, without its nulls."""
    between = text_literal(separator)
    if between is None or not pa.types.is_list(value.type) or value.type.value_type != STRING:
        return no_arrow_form("array_join() of these", STRING)
    if len(between) <= longer_texts.GROWTH:
        return b.apply(STRING, lambda x: pc.binary_join(_compact(x), between), value)
    return b.apply_failing(STRING, lambda rows, lists: longer_texts.join(between, rows, _compact(lists)), value)


def split(text: BoundNode, pattern: BoundNode) -> BoundNode:
    """``split(text, ',')`` at a plain text; other patterns are left to Spark."""
    literal = text_literal(pattern)
    if literal is None or not _PLAIN.fullmatch(literal):
        return no_arrow_form("split() at a pattern", pa.list_(STRING))
    between = re.sub(r"\\(.)", r"\1", literal, flags=re.DOTALL)
    return b.apply(pa.list_(STRING), lambda x: pc.split_pattern(x, between), as_text(text))


def array_contains(value: BoundNode, item: BoundNode) -> BoundNode:
    """``array_contains(a, x)``: null where the array or the value is null, or where only a null element could be equal."""
    given = _of_one_type([value], [item])
    if given is None:
        return no_arrow_form("array_contains() of these", pa.bool_())
    return _of_rows(pa.bool_(), _contains, *given)


def _contains(lists: pa.ListArray, items: pa.Array) -> pa.Array:
    import numpy as np

    elements, parents = lists.flatten(), pa.array(_parents(lists))
    equal = pc.equal(elements, items.take(parents))
    found = np.zeros(len(lists), np.bool_)
    found[parents.filter(pc.fill_null(equal, False)).to_numpy()] = True
    unknown = np.zeros(len(lists), np.bool_)
    unknown[parents.filter(pc.is_null(equal)).to_numpy()] = True
    empty = pc.and_(pc.is_null(items), pc.is_valid(lists)).to_numpy(zero_copy_only=False)
    nulls = (unknown & ~found) | lists.is_null().to_numpy(zero_copy_only=False) | empty
    return pa.array(found, mask=nulls)


def _parents(lists: pa.ListArray) -> Any:
    """int64[elements]: the row of each element of ``flatten``, which leaves out those that null rows may have."""
    import numpy as np

    sizes = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    return np.repeat(np.arange(len(lists)), sizes)


def concat(*values: BoundNode) -> BoundNode:
    """``concat(a, b)`` of arrays; null where one of them is."""
    given = _of_one_type(values)
    if given is None:
        return no_arrow_form("concat() of these", _common_list([value.type for value in values]))
    return _of_rows(given[0].type, _concat, *given)


def _concat(*lists: pa.ListArray) -> pa.ListArray:
    """For each row the elements of all columns: a take from their elements, one column after the other."""
    import numpy as np

    sizes = [pc.fill_null(pc.list_value_length(one), 0).to_numpy(zero_copy_only=False).astype(np.int64) for one in lists]
    total = np.sum(sizes, axis=0)
    ends = np.cumsum(total)
    order = np.empty(int(ends[-1]) if len(ends) else 0, np.int64)
    at, first = ends - total, 0
    for size_ in sizes:
        count = int(size_.sum())
        inside = np.arange(count) - np.repeat(np.cumsum(size_) - size_, size_)
        order[np.repeat(at, size_) + inside] = np.arange(first, first + count)
        at, first = at + size_, first + count
    elements = pa.concat_arrays([one.flatten() for one in lists]).take(pa.array(order))
    return _lists(total, elements, np.logical_or.reduce([one.is_null().to_numpy(zero_copy_only=False) for one in lists]))


def _lists(sizes: Any, elements: pa.Array, nulls: Any) -> pa.ListArray:
    """Lists of these sizes. Where a row is null its elements are left out."""
    import numpy as np

    if nulls.any() and sizes[nulls].any():
        elements = elements.filter(pa.array(~np.repeat(nulls, sizes)))
        sizes = np.where(nulls, 0, sizes)
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), elements, mask=pa.array(nulls) if nulls.any() else None)


def array_append(value: BoundNode, item: BoundNode) -> BoundNode:
    """``array_append(a, x)``: null where the array is null; a null element is appended."""
    given = _of_one_type([value], [item])
    if given is None:
        return no_arrow_form("array_append() of these", _common_list([value.type], [item.type]))
    return _of_rows(given[0].type, lambda lists, items: _concat(lists, _interleave([items])), *given)


def array_distinct(value: BoundNode) -> BoundNode:
    """``array_distinct(a)``: each element once, in the order of their first occurrences."""
    given = _of_one_type([value])
    if given is None:
        return no_arrow_form("array_distinct() of this", value.type)
    return _of_rows(given[0].type, _distinct, *given)


def _distinct(lists: pa.ListArray) -> pa.ListArray:
    import numpy as np

    elements, parents = lists.flatten(), _parents(lists)
    codes = elements.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False).astype(np.int64)
    _, first = np.unique(parents * (len(elements) + 1) + codes, return_index=True)
    first.sort()
    sizes = np.bincount(parents[first], minlength=len(lists))
    return _lists(sizes, elements.take(pa.array(first)), lists.is_null().to_numpy(zero_copy_only=False))


def array_union(value: BoundNode, other: BoundNode) -> BoundNode:
    """``array_union(a, b)``: each element of both once."""
    given = _of_one_type([value, other])
    if given is None:
        return no_arrow_form("array_union() of these", _common_list([value.type, other.type]))
    return _of_rows(given[0].type, lambda one, two: _distinct(_concat(one, two)), *given)


def get(value: BoundNode, index: BoundNode) -> BoundNode:
    """``get(a, i)``: the element at an index from 0; null beyond the array."""
    if not pa.types.is_list(value.type) or not pa.types.is_integer(index.type):
        return no_arrow_form("get() of these", pa.null())
    return _of_rows(value.type.value_type, _get, value, cast(index, pa.int64()))


def _get(lists: pa.ListArray, index: pa.Array) -> pa.Array:
    sizes = pc.fill_null(pc.list_value_length(lists), 0)
    inside = pc.and_(pc.greater_equal(index, 0), pc.less(index, sizes))
    at = pc.add(pc.cast(lists.offsets.slice(0, len(lists)), pa.int64()), index)
    return lists.values.take(pc.if_else(inside, at, pa.scalar(None, pa.int64())))


def _of_one_type(arrays: Sequence[BoundNode], items: Sequence[BoundNode] = ()) -> list[BoundNode] | None:
    """Arrays and elements in their common type; None for those without one, and for nested elements."""
    if not all(pa.types.is_list(one.type) for one in arrays):
        return None
    type_ = common_type_of([*(one.type.value_type for one in arrays), *(one.type for one in items)])
    if type_ is None or type_ not in ATOMIC or pa.types.is_floating(type_):
        return None
    if any(one.type.value_type != type_ for one in arrays):
        return None
    return [*arrays, *(cast(one, type_) for one in items)]


def _common_list(lists: Sequence[pa.DataType], items: Sequence[pa.DataType] = ()) -> pa.DataType:
    """The type of an array of all elements; null where they have none in common."""
    inner = [one.value_type if pa.types.is_list(one) else one for one in lists]
    type_ = common_type_of([*inner, *items])
    return pa.null() if type_ is None else pa.list_(type_)


def _of_rows(type_: pa.DataType, run: Any, *parts: BoundNode) -> BoundNode:
    """A function of columns; constants become columns."""

    def values(rows: ActiveRows) -> Any:
        return run(*(broadcast(part.run(rows), rows.length) for part in parts if part.run is not None))

    return b.or_unknown(b.lazily(type_, values, *parts), *parts)
