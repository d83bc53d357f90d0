"""Values added to the states of an aggregate of the user, group by group. A value whose `add` fails costs only its event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from etl.api import ComponentError
from etl.state.aggregates.accumulator import Grouping
from etl.udf.call_guard import CallGuard, CallTimeoutError
from etl.udf.calling import to_argument
from etl.udf.declaration import UserFunction
from etl.udf.failures import FAILURES, failure_of, message_of
from etl.udf.loading import load
from etl.udf.row_calls import MAX_TIMEOUTS, call_for_each
from etl.udf.values import WRONG_VALUES, to_array, to_python

Columns: TypeAlias = Sequence[pa.Array]
"""The values of each argument of an aggregate."""


def _as_rows(columns: Columns) -> list[tuple[Any, ...]]:
    """The values of each event as those of Python."""
    return list(zip(*map(to_python, columns), strict=True))


@dataclass
class UserAdds:
    """Adds values to new states, one for each group. ``failures``: the rows whose values are not added, and why."""

    function: UserFunction
    failures: dict[int, str] = field(default_factory=dict)
    _timeouts: int = 0

    @cached_property
    def instance(self) -> Any:
        """An instance of the user's class."""
        made = load(self.function)
        try:
            with CallGuard(self.function.timeout.total_seconds()):
                return made()
        except (*FAILURES, CallTimeoutError) as error:
            raise ComponentError(failure_of(error, self.function)) from error

    def states(self, columns: Columns, included: Any, grouping: Grouping) -> pa.Array:
        """The state of each group of rows in the first row that is included (bool[n]), null in all others."""
        assert self.function.state is not None
        order, ends = grouping.order[included[grouping.order]], np.append(0, np.cumsum(included[grouping.order]))[grouping.ends]
        groups = [order[first:last] for first, last in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True) if last > first]
        found: list[Any] = [None] * len(columns[0])
        array, failed = self._added_groups(columns, groups)
        for rows, state in zip(groups, array, strict=True):
            found[rows[0]] = state
        for at, _ in failed.items():
            found[groups[at][0]] = self._add_what_can_be(columns, groups[at].tolist())
        return to_array(found, self.function.state)

    def _added_groups(self, columns: Columns, groups: Sequence[Any]) -> tuple[list[Any], dict[int, str]]:
        """The state of each group, and those for which a call fails, by number."""
        guard, instance = CallGuard(self.function.timeout.total_seconds()), self.instance
        if self.function.kind == "values":
            python = _as_rows(columns)

            def fold(rows: Any) -> Any:
                state, add = instance.create(), instance.add
                for row in rows.tolist():
                    guard.next_call()
                    state = add(state, *python[row])
                return self.check_state(state, "add")
        else:

            def fold(rows: Any) -> Any:
                added = instance.add(instance.create(), *self._arrays(columns, rows))
                return self.check_state(added, "add")

        states, failed = call_for_each(self.function, fold, zip(groups, strict=True), len(groups), guard)
        return states, failed | self._wrong_states(states, failed)

    def check_state(self, state: Any, method: str) -> Any:
        """A state that a method returned. Raises TypeError for None where that is not a state."""
        if state is None and not self.function.state_may_be_none:
            raise TypeError(f"{method} returned None, and no state")
        return state

    def _wrong_states(self, states: list[Any], failed: dict[int, str]) -> dict[int, str]:
        """The states that are not of the declared type, by number."""
        try:
            to_array(states, self.function.state)
            return {}
        except WRONG_VALUES:
            return {at: text for at, one in enumerate(states) if at not in failed and (text := self._wrong(one))}

    def _wrong(self, state: Any) -> str:
        """Why a state cannot be stored; empty if it can."""
        try:
            to_array([state], self.function.state)
            return ""
        except WRONG_VALUES as error:
            return f"{self.function.name}() returned a wrong state: {message_of(error)}"

    # ── Groups with values that fail ──

    def _arrays(self, columns: Columns, rows: Any) -> list[Any]:
        """The values of some rows as the arrays that `add` takes."""
        return [to_argument(one.take(pa.array(rows)), self.function.kind) for one in columns]

    def _add_what_can_be(self, columns: Columns, rows: list[int]) -> Any:
        """The state of a group after the values that can be added; ``failures`` gets the others."""
        if self.function.kind == "values":
            return self._add_one_by_one(_as_rows([one.take(pa.array(rows)) for one in columns]), rows)
        return self._add_halves(self.instance.create, columns, rows)

    def _add_one_by_one(self, values: list[tuple[Any, ...]], rows: list[int]) -> Any:
        make: Callable[[], Any] = self.instance.create
        at, state = 0, None
        while at < len(rows):
            added, state, reason = self._try(make, values[at:])
            if not reason:
                return state
            base = self._try(make, values[at : at + added])[1]  # the call that failed may have changed its state
            make = partial(deepcopy, base)
            self.failures[rows[at + added]] = reason
            at, state = at + added + 1, base
            if self._timeouts >= MAX_TIMEOUTS:
                self._give_up(rows[at:])
                return state
        return state

    def _try(self, make: Callable[[], Any], values: Sequence[tuple[Any, ...]]) -> tuple[int, Any, str]:
        """How many values are added to a new state before one fails, the state after all of them, and why one failed."""
        added = 0
        try:
            with CallGuard(self.function.timeout.total_seconds()) as guard:
                state = make()
                for value in values:
                    guard.next_call()
                    state = self.check_state(self.instance.add(state, *value), "add")
                    if reason := self._wrong(state):
                        return added, None, reason
                    added += 1
                return added, state, ""
        except (*FAILURES, CallTimeoutError) as error:
            self._timeouts += isinstance(error, CallTimeoutError)
            return added, None, failure_of(error, self.function)

    def _add_halves(self, make: Callable[[], Any], columns: Columns, rows: list[int]) -> Any:
        """Add an array; if that fails its halves, and halves of those, down to the values that fail."""
        if self._timeouts >= MAX_TIMEOUTS:
            self._give_up(rows)
            return make()
        state, reason, is_timeout = self._try_array(make, self._arrays(columns, rows))
        if not reason:
            return state
        if len(rows) == 1 or is_timeout:
            self.failures |= dict.fromkeys(rows, reason)
            return make()
        middle = len(rows) // 2
        left = self._add_halves(make, columns, rows[:middle])
        return self._add_halves(partial(deepcopy, left), columns, rows[middle:])

    def _try_array(self, make: Callable[[], Any], arrays: Sequence[Any]) -> tuple[Any, str, bool]:
        try:
            with CallGuard(self.function.timeout.total_seconds()):
                state = self.check_state(self.instance.add(make(), *arrays), "add")
            return state, self._wrong(state), False
        except (*FAILURES, CallTimeoutError) as error:
            is_timeout = isinstance(error, CallTimeoutError)
            self._timeouts += is_timeout
            return None, failure_of(error, self.function), is_timeout

    def _give_up(self, rows: list[int]) -> None:
        reason = f"{self.function.name}() was not called: it took too long for {self._timeouts} events before it"
        self.failures |= dict.fromkeys(rows, reason)
