"""Calls of the user's functions on whole events: as dicts, one call for each, or as record batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from etl.api import HIDDEN, OFFSET, Schema, format_type
from etl.udf.call_guard import CallGuard, CallTimeoutError
from etl.udf.calling import check_content, is_alike
from etl.udf.declaration import UserFunction
from etl.udf.failures import FAILURES, failure_of, message_of
from etl.udf.loading import load
from etl.udf.row_calls import as_list, call_for_each
from etl.udf.values import WRONG_VALUES, to_array, to_python


class EventResult(NamedTuple):
    """What a function gave for a batch."""

    rows: Any
    """int64[n]: the row of the event that each result is of, ascending."""
    columns: dict[str, pa.Array]
    """The fields that the function gave."""
    failures: dict[int, str]
    """Row → why the function failed for it."""


class EventCaller:
    """Calls a function for the events of batches."""

    def __init__(self, function: UserFunction, fields: Schema, read: Sequence[str], known: frozenset[str]) -> None:
        """``fields``: those that the function gives; ``read``: those that it gets; ``known``: those of all events."""
        self.function = function
        self._fields = fields
        self._read = list(read)
        self._known = known
        self._loaded: Callable[..., Any] | None = None

    def __call__(self, batch: pa.RecordBatch) -> EventResult:
        if self._loaded is None:
            self._loaded = load(self.function)
        given = batch.select([name for name in self._read if name in batch.schema.names])
        if self.function.form == "events":
            return self._call_for_events(given)
        if OFFSET in batch.schema.names and OFFSET not in given.schema.names:
            given = given.append_column(OFFSET, batch.column(OFFSET))
        return self._call_for_batch(given, 0)

    # ── Dicts ──

    def _call_for_events(self, batch: pa.RecordBatch) -> EventResult:
        assert self._loaded is not None
        call: Callable[..., Any] = self._loaded
        if self.function.multiplies:
            call = _as_events(call)
        return self._gather(*call_for_each(self.function, call, zip(as_dicts(batch), strict=True), batch.num_rows))

    def _gather(self, found: list[Any], failures: dict[int, str]) -> EventResult:
        """The fields of all dicts as columns."""
        rows: list[int] = []
        results: list[dict[str, Any]] = []
        for row, one in enumerate(found):
            if one is None:
                continue
            several = one if self.function.multiplies and isinstance(one, list) else (one,)
            if (problem := self._problem(several)) is not None:
                failures[row] = problem
                continue
            results += several
            rows += [row] * len(several)
        columns, wrong = self._as_columns(results)
        if wrong:
            failures |= {rows[at]: reason for at, reason in wrong.items()}
            return self._gather([None if row in failures else one for row, one in enumerate(found)], failures)
        return EventResult(np.array(rows, np.int64), columns, failures)

    def _problem(self, several: Sequence[Any]) -> str | None:
        """Why results are not events with known fields."""
        for one in several:
            if not isinstance(one, dict):
                return f"{self.function.name}() returned {type(one).__name__}, and no event"
            if not one.keys() <= self._known:
                name = sorted(map(str, one.keys() - self._known))[0]
                return f"{self.function.name}() returned the field {name!r}, which `fields` does not declare"
        return None

    def _as_columns(self, results: list[dict[str, Any]]) -> tuple[dict[str, pa.Array], dict[int, str]]:
        """The declared fields, and why results cannot be converted, by number."""
        columns: dict[str, pa.Array] = {}
        wrong: dict[int, str] = {}
        for field in self._fields:
            values = [one.get(field.name) for one in results]
            try:
                columns[field.name] = to_array(values, field.type)
            except WRONG_VALUES as error:
                found = _wrong_values(values, field) or dict.fromkeys(range(len(values)), message_of(error))
                wrong |= {at: f"{self.function.name}(): {text}" for at, text in found.items()}
        return columns, wrong

    # ── Batches ──

    def _call_for_batch(self, batch: pa.RecordBatch, first: int) -> EventResult:
        """The result for a batch whose first event is row ``first``; if the call fails, those for its halves."""
        try:
            return self._call(batch, first)
        except CallTimeoutError as error:
            return self._fail_all(batch.num_rows, first, failure_of(error, self.function))
        except FAILURES as error:
            reason = failure_of(error, self.function)
        if batch.num_rows <= 1:
            return self._fail_all(batch.num_rows, first, reason)
        middle = batch.num_rows // 2
        left = self._call_for_batch(batch.slice(0, middle), first)
        right = self._call_for_batch(batch.slice(middle), first + middle)
        columns = {name: pa.concat_arrays([left.columns[name], right.columns[name]]) for name in self._fields.names}
        return EventResult(np.concatenate((left.rows, right.rows)), columns, left.failures | right.failures)

    def _fail_all(self, length: int, first: int, reason: str) -> EventResult:
        nothing = {field.name: pa.array([], field.type) for field in self._fields}
        return EventResult(np.empty(0, np.int64), nothing, dict.fromkeys(range(first, first + length), reason))

    def _call(self, batch: pa.RecordBatch, first: int) -> EventResult:
        assert self._loaded is not None
        with CallGuard(self.function.timeout.total_seconds()):
            found = self._loaded(batch)
        if not isinstance(found, (pa.RecordBatch, pa.Table)):
            raise TypeError(f"it returned {type(found).__name__}, and no record batch")
        if unknown := [name for name in found.schema.names if name not in self._known and name not in HIDDEN]:
            raise ValueError(f"it returned the field {unknown[0]!r}, which `fields` does not declare")
        columns = {field.name: _column(found, field) for field in self._fields}
        return EventResult(first + _rows_of(found, batch), columns, {})


def _as_events(call: Callable[..., Any]) -> Callable[..., Any]:
    """A call whose result is a list of events, one event, or None."""

    def called(event: dict[str, Any]) -> Any:
        found = call(event)
        return found if found is None or isinstance(found, dict) else as_list(found)

    return called


def _rows_of(found: pa.RecordBatch | pa.Table, batch: pa.RecordBatch) -> Any:
    """int64[n]: the event of the batch that each result is of. Raises ValueError."""
    if found.num_rows == batch.num_rows and OFFSET not in found.schema.names:
        return np.arange(batch.num_rows)
    if OFFSET not in found.schema.names:
        raise ValueError(f"it returned {found.num_rows} events for {batch.num_rows} without the column {OFFSET}")
    offsets = batch.column(OFFSET).to_numpy()
    order = np.argsort(offsets, kind="stable")
    returned = found.column(OFFSET).to_numpy()
    at = np.minimum(np.searchsorted(offsets[order], returned), len(order) - 1)
    rows = order[at] if len(order) else np.empty(0, np.int64)
    if len(returned) and (not len(order) or (offsets[rows] != returned).any()):
        raise ValueError(f"it returned values of {OFFSET} that no event has")
    if (rows[1:] < rows[:-1]).any():
        raise ValueError("it returned events in another order than it got them")
    return rows


def _column(found: pa.RecordBatch | pa.Table, field: pa.Field) -> pa.Array:
    """A declared field of a result. Raises ValueError or TypeError."""
    if field.name not in found.schema.names:
        raise ValueError(f"it returned no field {field.name!r}")
    column = found.column(field.name)
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    check_content(array)
    if array.type == field.type:
        return array
    if not is_alike(array.type, field.type):
        declared, given = format_type(field.type), format_type(array.type)
        raise TypeError(f"it returned {field.name!r} as {given}, and it is declared as {declared}")
    return array.cast(field.type)


def _wrong_values(values: list[Any], field: pa.Field) -> dict[int, str]:
    """Which values are not of the field's type, and why."""
    wrong = {}
    for at, value in enumerate(values):
        try:
            to_array([value], field.type)
        except WRONG_VALUES as error:
            text = message_of(error)
            wrong[at] = f"the field {field.name!r} is {type(value).__name__}, and no {format_type(field.type)}: {text}"
    return wrong


def as_dicts(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The events as dicts of Python values."""
    names = batch.schema.names
    if not names:
        return [{} for _ in range(batch.num_rows)]
    return [dict(zip(names, row, strict=True)) for row in zip(*map(to_python, batch.columns), strict=True)]
