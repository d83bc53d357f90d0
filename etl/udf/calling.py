"""Calls of the user's functions on the columns of a batch. An error of one event does not cost the others their results.

A function on arrays is called once for a batch. If it fails, it is called for halves, and halves of those, down to the events
for which it fails: it must give an event the same result whatever other events are beside it. A function on Python values is
called for each event, which is slower: about a microsecond for the call and the conversion of each value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.api import ComponentError, format_type
from etl.udf.call_guard import CallGuard, CallTimeoutError
from etl.udf.declaration import CallingConvention, UserFunction
from etl.udf.failures import FAILURES, describe_failure, failure_of, message_of
from etl.udf.loading import load
from etl.udf.row_calls import as_list, call_for_each
from etl.udf.values import WRONG_VALUES, to_array, to_python


@dataclass
class CallResult:
    """The values of all rows, and the reasons of failed ones by row number."""

    values: pa.Array
    failures: dict[int, str] = field(default_factory=dict)


class FunctionCaller:
    """Calls a function for batches; its file is run at the first call."""

    def __init__(self, function: UserFunction) -> None:
        self.function = function
        self._loaded: Callable[..., Any] | None = None
        self._guard: CallGuard | None = None
        self._strict = [at for at, parameter in enumerate(function.parameters) if not parameter.takes_null]

    def __call__(self, columns: Sequence[Any], length: int) -> CallResult:
        """The result for columns of this length; an argument of a constant parameter is a Python value."""
        if self._loaded is None:
            self._loaded = load(self.function)
        rows = self._rows_without_null(columns, length)
        given = columns if rows is None else [one.take(rows) if isinstance(one, pa.Array) else one for one in columns]
        found = self._call(given, length if rows is None else len(rows))
        return found if rows is None else self._scatter(found, rows, length)

    def _call(self, columns: Sequence[Any], length: int) -> CallResult:
        if not length:
            return CallResult(pa.array([], self.function.result))
        if self.function.kind == "values":
            return self._call_for_each([to_python(one) for one in columns], length)
        return self._call_for_batch(columns, length)

    def _rows_without_null(self, columns: Sequence[Any], length: int) -> pa.Array | None:
        """The rows in which no parameter is null that does not take null; None if all are."""
        count = len(columns)
        strict = [one for at in self._strict if at < count and isinstance(one := columns[at], pa.Array) and one.null_count]
        if not strict:
            return None
        valid = strict[0].is_valid()
        for one in strict[1:]:
            valid = pc.and_(valid, one.is_valid())
        return pc.indices_nonzero(valid).cast(pa.int64())

    def _scatter(self, found: CallResult, rows: pa.Array, length: int) -> CallResult:
        """The result of some rows as that of all; null elsewhere."""
        source = np.full(length, -1)
        source[rows.to_numpy()] = np.arange(len(rows))
        values = found.values.take(pa.array(source, mask=source < 0))
        return CallResult(values, {rows[at].as_py(): reason for at, reason in found.failures.items()})

    # ── Arrays ──

    def _call_for_batch(self, columns: Sequence[Any], length: int) -> CallResult:
        try:
            return CallResult(self._call_arrays(columns, length))
        except CallTimeoutError as error:
            return self._fail_all(length, failure_of(error, self.function))
        except FAILURES as error:
            reason = failure_of(error, self.function)
        if length == 1:
            return self._fail_all(1, reason)
        middle = length // 2
        halves = [
            self._call_for_batch([one[first:last] if isinstance(one, pa.Array) else one for one in columns], last - first)
            for first, last in ((0, middle), (middle, length))
        ]
        failures = halves[0].failures | {middle + at: text for at, text in halves[1].failures.items()}
        return CallResult(pa.concat_arrays([half.values for half in halves]), failures)

    def _fail_all(self, length: int, reason: str) -> CallResult:
        return CallResult(pa.nulls(length, self.function.result), dict.fromkeys(range(length), reason))

    def _call_arrays(self, columns: Sequence[Any], length: int) -> pa.Array:
        assert self._loaded is not None
        kind = self.function.kind
        given = columns if kind == "arrow" else [to_argument(one, kind) if isinstance(one, pa.Array) else one for one in columns]
        guard = self._guard.for_next_use() if self._guard else CallGuard(self.function.timeout.total_seconds())
        self._guard = guard
        with guard:
            found = self._loaded(*given)
        return self._check_result(found, length)

    def _check_result(self, found: Any, length: int) -> pa.Array:
        """The result as an Arrow array of the declared type. Raises TypeError or ValueError."""
        array = found if isinstance(found, pa.Array) else _to_arrow(found)
        if array is None:
            raise TypeError(f"it returned {type(found).__name__}, and no array")
        if len(array) != length:
            raise ValueError(f"it returned {len(array)} values for {length} events")
        result = self.function.result
        check_content(array)
        if array.type == result:
            return array
        if not is_alike(array.type, result):
            raise TypeError(f"it returned values of type {format_type(array.type)}, and its annotation is {format_type(result)}")
        return array.cast(result)

    # ── Values ──

    def _call_for_each(self, columns: Sequence[list[Any]], length: int) -> CallResult:
        assert self._loaded is not None
        call = self._loaded
        rows = zip(*columns, strict=True) if columns else iter([()] * length)
        is_table = self.function.form == "table"
        found, failures = call_for_each(self.function, (lambda *row: as_list(call(*row))) if is_table else call, rows, length)
        return self._as_array(found, failures)

    def _as_array(self, found: list[Any], failures: dict[int, str]) -> CallResult:
        result = self.function.result
        try:
            return CallResult(to_array(found, result), failures)
        except WRONG_VALUES as error:
            whole = f"{self.function.name}(): {describe_failure(error, self.function.code)}"
        for at, value in enumerate(found):
            try:
                to_array([value], result)
            except WRONG_VALUES as error:
                shown = f"{type(value).__name__}, which is not a {format_type(result)}: {message_of(error)}"
                failures[at], found[at] = f"{self.function.name}() returned {shown}", None
        try:
            return CallResult(to_array(found, result), failures)
        except WRONG_VALUES:  # each value is good, and all of them are too much
            return self._fail_all(len(found), whole)


def check_content(array: pa.Array) -> None:
    """Raise ValueError for texts that are not UTF-8: an array may be made of any bytes. ASCII is UTF-8, and costs a tenth."""
    array.validate()  # a look at the buffers' sizes
    if pa.types.is_nested(array.type) or (_is_text(array.type) and not _is_ascii(array)):
        array.validate(full=True)


_HIGH_BITS = np.uint64(0x8080808080808080)


def _is_ascii(texts: pa.Array) -> bool:
    """Whether the bytes of texts are ASCII; False for string views, whose bytes are in many places."""
    if texts.type != pa.string():
        return False
    _, offsets, data = texts.buffers()
    if not len(texts) or data is None:
        return True
    ends = np.frombuffer(offsets, np.int32, len(texts) + 1, 4 * texts.offset)
    first, last = int(ends[0]), int(ends[-1])
    size = (last - first) // 8
    words = np.frombuffer(data, np.uint64, size, first)
    rest = data[first + 8 * size : last].to_pybytes()
    return not (np.bitwise_or.reduce(words) & _HIGH_BITS) and rest.isascii()


def _to_arrow(found: Any) -> pa.Array | None:
    """An array of any library as one of Arrow; None for what is not an array."""
    if isinstance(found, pa.ChunkedArray):
        return found.combine_chunks()
    if isinstance(found, pa.Array):
        return found
    if isinstance(found, np.ndarray):
        return pa.array(found) if found.ndim == 1 else None
    arrow = found.to_arrow() if hasattr(found, "to_arrow") else None  # a Series of Polars
    return arrow if isinstance(arrow, pa.Array) else None


def is_alike(found: pa.DataType, declared: pa.DataType) -> bool:
    """Whether a result of one type is meant as one of another: both are numbers, texts, times, or null."""
    return pa.types.is_null(found) or (
        pa.types.is_nested(found) == pa.types.is_nested(declared) and any(test(found) and test(declared) for test in _ALIKE)
    )


def _is_text(type_: pa.DataType) -> bool:
    return type_ in (pa.string(), pa.large_string(), pa.string_view())


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


_ALIKE: tuple[Callable[[pa.DataType], bool], ...] = (
    _is_text, _is_number, pa.types.is_timestamp, pa.types.is_date, pa.types.is_boolean, pa.types.is_nested, pa.types.is_binary,
    lambda type_: pa.types.is_large_binary(type_) or pa.types.is_binary(type_) or pa.types.is_binary_view(type_),
)  # fmt: skip


def _to_polars(array: pa.Array) -> Any:
    try:
        import polars
    except ImportError:
        raise ComponentError("a function takes pl.Series, and Polars is not installed; pip install polars") from None
    return polars.from_arrow(array)


def to_argument(array: pa.Array, kind: CallingConvention) -> Any:
    """An array as functions of a kind take it."""
    return _CONVERTED[kind](array)


_CONVERTED: dict[str, Callable[[pa.Array], Any]] = {
    "arrow": lambda array: array,
    "numpy": lambda array: array.to_numpy(zero_copy_only=False),
    "polars": _to_polars,
}
"""Kind of a function → an array as it takes it."""
