"""How functions of the library compute: on whole columns, or in Python for each distinct combination of values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.python_values import scalar_to_python, to_python
from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.output_limit import MAX_BATCH_BYTES, fail_largest
from etl.expressions.rows import ActiveRows, broadcast


class RowError(ValueError):
    """Raised by a function of values: the event is rejected with this reason."""


def on_arrow(type_: pa.DataType, kernel: Callable[..., Any]) -> Callable[..., BoundNode]:
    """A function of Arrow values, arrays or scalars."""
    return lambda *args: b.apply(type_, kernel, *args)


def on_columns(type_: pa.DataType, kernel: Callable[..., Any], *args: BoundNode) -> BoundNode:
    """A function of arrays of one length: constants are repeated."""

    def run(rows: ActiveRows, *values: Any) -> Any:
        return kernel(*(broadcast(value, rows.length) for value in values))

    return b.apply_failing(type_, run, *args) if any(arg.fails for arg in args) else _never_failing(type_, run, args)


def _never_failing(type_: pa.DataType, run: Callable[..., Any], args: tuple[BoundNode, ...]) -> BoundNode:
    runs = [arg.run for arg in args if arg.run is not None]
    return b.lazily(type_, lambda rows: run(rows, *(evaluate(rows) for evaluate in runs)), *args)


def by_value(
    type_: pa.DataType, function: Callable[..., Any], *, nulls: bool = False, fails: bool = True, grows: bool = False
) -> Callable[..., BoundNode]:
    """A Python function of values, called once for each distinct combination of them in a batch.

    It is not called with a null unless ``nulls``; it rejects the event by raising `RowError`, if ``fails``. The result is null
    where Python's own functions refuse a value (ArithmeticError, ValueError), or it does not fit its type. ``grows``: its texts
    may be much longer than its arguments, so that what it gives for a batch is limited.
    """

    def build(*args: BoundNode) -> BoundNode:
        call = partial(_call_each, type_, function, nulls, grows)
        if fails or grows:
            return b.apply_failing(type_, call, *args)
        runs = [arg.run for arg in args if arg.run is not None]
        return b.lazily(type_, lambda rows: call(rows, *(evaluate(rows) for evaluate in runs)), *args)

    return build


def _call_each(type_: pa.DataType, function: Callable[..., Any], nulls: bool, grows: bool, rows: ActiveRows, *values: Any) -> Any:
    if all(isinstance(value, pa.Scalar) for value in values):
        results, errors = _results(type_, function, nulls, [tuple(scalar_to_python(value) for value in values)])
        if errors:
            rows.fail(pa.repeat(pa.scalar(True), rows.length), errors[0])
        return results[0]
    distinct, numbers = _combine(values, rows.length)
    results, errors = _results(type_, _limited(function) if grows else function, nulls, distinct)
    if errors:
        reasons = pa.array([errors.get(number) for number in range(len(distinct))], pa.string()).take(numbers)
        rows.fail(pc.is_valid(reasons), reasons)
    left_out = fail_largest(rows, pc.binary_length(results).take(numbers)) if grows else None
    return results.take(numbers if left_out is None else pc.if_else(left_out, pa.scalar(None, numbers.type), numbers))


Fast: TypeAlias = Callable[..., tuple[pa.Array, Any]]
"""Columns → the results, and bool[n] of the rows for which they are right."""


def usually_on_arrow(
    type_: pa.DataType, fast: Fast, function: Callable[..., Any], *, fails: bool = False
) -> Callable[..., BoundNode]:
    """A function of whole columns for the usual values, and of Python values for the others, which ``fails`` may reject."""

    def run(rows: ActiveRows, *values: Any) -> Any:
        if all(isinstance(value, pa.Scalar) for value in values):
            return _call_each(type_, function, False, False, rows, *values)
        columns = [broadcast(value, rows.length) for value in values]
        results, is_done = fast(*columns)
        others = pc.invert(pa.array(is_done, pa.bool_()))
        for column in columns:
            if column.null_count:
                results = pc.if_else(column.is_valid(), results, pa.scalar(None, type_))
                others = pc.and_(others, column.is_valid())
        if not others.true_count:
            return results
        rest = [column.filter(others) for column in columns]
        other_rows = ActiveRows({}, len(rest[0]))
        computed = _call_each(type_, function, False, False, other_rows, *rest)
        for _, reasons in other_rows.failures:
            reasons = _merge(pa.nulls(rows.length, pa.string()), reasons, others)
            rows.fail(pc.is_valid(reasons), reasons)
        return _merge(results, computed, others)

    return lambda *args: (
        b.apply_failing(type_, run, *args) if fails or any(arg.fails for arg in args) else _never_failing(type_, run, args)
    )


def _merge(results: pa.Array, others: pa.Array, is_other: pa.BooleanArray) -> pa.Array:
    """The results, and the others in their rows."""
    import numpy as np

    source = np.arange(len(results))
    source[is_other.to_numpy(zero_copy_only=False)] = len(results) + np.arange(len(others))
    return pa.concat_arrays([results, others]).take(pa.array(source))


_SHORT = 1024
"""Characters of texts that are given also when those before them take all the memory that a batch may take."""


def _limited(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of one batch: after as many results as the batch may have, it gives short ones only."""
    given = 0

    def call(*values: Any) -> Any:
        nonlocal given
        result = function(*values)
        size = 0 if result is None else len(result)
        given += size
        if given > MAX_BATCH_BYTES and size > _SHORT:
            raise RowError(f"the texts of this batch would have more than {MAX_BATCH_BYTES >> 20} MiB")
        return result

    return call


def _results(
    type_: pa.DataType, function: Callable[..., Any], nulls: bool, distinct: list[tuple[Any, ...]]
) -> tuple[pa.Array, dict[int, str]]:
    found: list[Any] = []
    errors: dict[int, str] = {}
    for number, values in enumerate(distinct):
        try:
            found.append(function(*values) if nulls or None not in values else None)
        except RowError as error:
            errors[number] = str(error)
            found.append(None)
        except (ArithmeticError, ValueError):
            found.append(None)
    return _as_array(found, type_), errors


def _as_array(values: list[Any], type_: pa.DataType) -> pa.Array:
    """An array of the values, null for those that the type cannot hold."""
    try:
        return pa.array(values, type_)
    except (pa.ArrowException, ArithmeticError, ValueError):
        return pa.array([value if _fits(value, type_) else None for value in values], type_)


def _fits(value: Any, type_: pa.DataType) -> bool:
    try:
        pa.array([value], type_)
    except (pa.ArrowException, ArithmeticError, ValueError):
        return False
    return True


def _combine(values: tuple[Any, ...], length: int) -> tuple[list[tuple[Any, ...]], pa.Array]:
    """The distinct combinations of values, and for each row the number of its own."""
    import numpy as np

    if length and sum(not isinstance(value, pa.Scalar) for value in values) == 1:
        return _combine_with_constants(values)
    codes = np.zeros(length, np.int64)
    columns: list[tuple[list[Any], Any]] = []
    for value in values:
        if isinstance(value, pa.Scalar):
            columns.append(([scalar_to_python(value)], np.zeros(length, np.int64)))
            continue
        items, indices = _encode(broadcast(value, length))
        columns.append((items, indices))
        _, codes = np.unique(codes * len(items) + indices, return_inverse=True)
    _, first, numbers = np.unique(codes, return_index=True, return_inverse=True)
    rows = [tuple(items[indices[at]] for items, indices in columns) for at in first]
    return rows, pa.array(numbers, pa.int64())


def _combine_with_constants(values: tuple[Any, ...]) -> tuple[list[tuple[Any, ...]], pa.Array]:
    """The combinations of one column with constants: one for each distinct value."""
    at = next(at for at, value in enumerate(values) if not isinstance(value, pa.Scalar))
    items, indices = _encode(values[at])
    before = tuple(scalar_to_python(value) for value in values[:at])
    after = tuple(scalar_to_python(value) for value in values[at + 1 :])
    return [(*before, item, *after) for item in items], pa.array(indices)


def _encode(column: pa.Array) -> tuple[list[Any], Any]:
    """Distinct values and each row's index; nested values, which Arrow does not encode, are all taken as distinct."""
    import numpy as np

    if pa.types.is_nested(column.type):
        return to_python(column) or [None], np.arange(len(column), dtype=np.int64)
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    return to_python(encoded.dictionary) or [None], encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def constant(value: BoundNode) -> tuple[bool, Any]:
    """Whether a node reads no field and cannot fail, and then its Python value."""
    if value.is_literal:
        return True, value.value
    if not value.constant or value.run is None or value.fails:
        return False, None
    return True, scalar_to_python(broadcast(value.run(ActiveRows({}, 1)), 1)[0])
