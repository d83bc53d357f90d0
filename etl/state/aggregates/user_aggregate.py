"""Aggregates of the user: a class with create, add, merge and finish, whose state is a column of Arrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from etl.api import ComponentError
from etl.state.aggregates.accumulator import Grouping
from etl.state.aggregates.argument import AggregateArgument
from etl.udf.call_guard import CallGuard, CallTimeoutError
from etl.udf.declaration import UserFunction
from etl.udf.failures import FAILURES, failure_of
from etl.udf.loading import load, restore_state
from etl.udf.values import to_array, to_python


@dataclass(frozen=True)
class UserAggregate:
    """Columns are the state, null as long as there is none, and a list of the values that are not added to it yet.

    Values are added one by one in Python, or as one array for each group where `add` takes an array. The order of events and the
    cut of the groups have no meaning: `merge` of two states is that of the events of both.
    """

    argument: AggregateArgument
    function: UserFunction

    functions = None

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        assert self.function.state is not None
        return self.function.state, pa.list_(self.argument.type)

    def lift(self, batch: pa.RecordBatch) -> list[pa.Array]:
        values, included = self.argument.values(batch), self._included(batch)
        offsets = pa.array(np.concatenate(([0], np.cumsum(included))), pa.int32())
        return [pa.nulls(len(values), self.types[0]), pa.ListArray.from_arrays(offsets, values.filter(pa.array(included)))]

    def _included(self, batch: pa.RecordBatch) -> Any:
        """bool[n]: the events whose values are added; null only where `add` takes it."""
        mask = self.argument.mask(batch)
        included = np.ones(batch.num_rows, bool) if mask is None else mask.to_numpy(zero_copy_only=False)
        if self.function.parameters[0].takes_null:
            return included
        return included & self.argument.values(batch).is_valid().to_numpy(zero_copy_only=False)

    def merge(self, grouping: Grouping, columns: Sequence[pa.Array]) -> list[pa.Array]:
        order = pa.array(grouping.order)
        states, pending = (column.take(order) for column in columns)
        with CallGuard(self.function.timeout.total_seconds()) as guard:
            found = [
                self._fold(states[first:last], pending[first:last].flatten(), guard)
                for first, last in zip(grouping.ends[:-1].tolist(), grouping.ends[1:].tolist(), strict=True)
            ]
        nothing = pa.ListArray.from_arrays(pa.array(np.zeros(len(found) + 1), pa.int32()), pa.array([], self.argument.type))
        return [self._array(found, self.types[0]), nothing]

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        states, pending = columns
        with CallGuard(self.function.timeout.total_seconds()) as guard:
            found = []
            for row in range(len(states)):
                state = self._fold(states[row : row + 1], pending[row : row + 1].flatten(), guard)
                state = self._call(guard, self._one.create) if state is None else state
                found.append(self._call(guard, self._one.finish, state))
        return self._array(found, self.function.result)

    def _fold(self, states: pa.Array, values: pa.Array, guard: CallGuard) -> Any:
        """The state of all of these states and values; None if there is nothing."""
        known = [restore_state(self.function, one) for one in states.drop_null().to_pylist()]
        if not known and not len(values):
            return None
        state = known[0] if known else self._call(guard, self._one.create)
        for other in known[1:]:
            state = self._call(guard, self._one.merge, state, other)
        if self.function.kind != "values":
            return self._call(guard, self._one.add, state, self._taken(values)) if len(values) else state
        add = self._one.add
        try:
            for value in to_python(values):
                guard.next_call()
                state = add(state, value)
        except (*FAILURES, CallTimeoutError) as error:
            raise self._failed(error) from error
        return state

    def _taken(self, values: pa.Array) -> Any:
        from etl.udf.calling import as_taken

        return as_taken(values, self.function.kind)

    @cached_property
    def _one(self) -> Any:
        """An instance of the user's class."""
        try:
            return load(self.function)()
        except (*FAILURES, CallTimeoutError) as error:
            raise self._failed(error) from error

    def _call(self, guard: CallGuard, call: Callable[..., Any], *values: Any) -> Any:
        guard.next_call()
        try:
            return call(*values)
        except (*FAILURES, CallTimeoutError) as error:
            raise self._failed(error) from error

    def _array(self, values: list[Any], type_: pa.DataType) -> pa.Array:
        try:
            return to_array(values, type_)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise self._failed(error) from error

    def _failed(self, error: BaseException) -> ComponentError:
        hint = "catch it in the class, or leave such events out with filter (where …)"
        return ComponentError(f"aggregate {self.argument.aggregate!r}: {failure_of(error, self.function)}; {hint}")
