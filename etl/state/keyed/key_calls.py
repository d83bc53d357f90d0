"""Calls of a function of the user with the events and the state of each key.

An event for which the function fails costs its key nothing but that event: the function gets the key's events again in halves,
and halves of those, down to the events that make it fail. The results are the same because the number of events in a call must
not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from etl.api import Schema
from etl.udf.call_guard import CallGuard, CallTimeoutError
from etl.udf.declaration import UserFunction
from etl.udf.event_calls import as_dicts
from etl.udf.failures import FAILURES, failure_of, message_of
from etl.udf.loading import load, restore_state
from etl.udf.row_calls import MAX_TIMEOUTS, as_list, call_for_each
from etl.udf.values import WRONG_VALUES, to_array

Event = dict[str, Any]


class KeyResults(NamedTuple):
    """What the calls for all keys gave."""

    events: pa.RecordBatch
    states: pa.Array
    """The state of each key after its calls."""
    failures: dict[int, str]
    """The events for which the function failed, by number, and why."""


@dataclass
class KeyCalls:
    """Calls a function for the keys of a micro-batch. ``fields`` are those of results.

    Key ``n`` has the rows ``firsts[n]`` to ``firsts[n + 1]`` of ``events``, and the state ``stored[n]``.
    """

    function: UserFunction
    fields: Schema
    events: pa.RecordBatch
    firsts: Sequence[int]
    stored: pa.Array
    failures: dict[int, str] = field(default_factory=dict)
    timeouts: int = 0

    def run(self) -> KeyResults:
        """Call the function for all keys at the least cost; then again for those for which it failed."""
        call, events, states, keys = load(self.function), as_dicts(self.events), self.states(), len(self.stored)

        def call_key(number: int) -> tuple[list[Event], Any]:
            try:
                returned = call(events[self.firsts[number] : self.firsts[number + 1]], states[number])
            except CallTimeoutError as error:
                self.timeouts += 1
                self.fail(self.firsts[number], self.firsts[number + 1], failure_of(error, self.function))
                return [], self.state(number)
            given, after = parts_of(returned, EVENTS_AND_STATE)
            return as_list(given), after

        found, failed = call_for_each(self.function, call_key, zip(range(keys), strict=True), keys)
        for number in self._wrong_keys(found, failed):
            first, last = self.firsts[number], self.firsts[number + 1]
            found[number] = self._call_halves(call, first, last, partial(self.state, number))
        return KeyResults(
            *self.convert([one for given, _ in found for one in given], [after for _, after in found]), self.failures
        )

    def states(self) -> list[Any]:
        """The state of each key as the function takes it."""
        return [None if one is None else restore_state(self.function, one) for one in self.stored.to_pylist()]

    def state(self, number: int) -> Any:
        """The state of a key before its first event, as a new object."""
        stored = self.stored[number].as_py()
        return None if stored is None else restore_state(self.function, stored)

    def fail(self, first: int, last: int, reason: str) -> None:
        """The function failed for these rows."""
        self.failures |= dict.fromkeys(range(first, last), reason)

    def give_up(self, first: int, last: int) -> bool:
        """Whether too many calls have taken too long: then these rows fail without a call."""
        if self.timeouts < MAX_TIMEOUTS:
            return False
        self.fail(first, last, f"{self.function.name}() was not called: it took too long {self.timeouts} times before")
        return True

    # ── What it returns ──

    def convert(self, results: Sequence[Any], states: Sequence[Any]) -> tuple[pa.RecordBatch, pa.Array]:
        """Results and states as columns. Raises ValueError, or another of ``WRONG_VALUES``, for what is not as declared."""
        known = frozenset(self.fields.names)
        for one in results:
            if not isinstance(one, dict):
                raise ValueError(f"it returned {type(one).__name__}, and no event")
            if not one.keys() <= known:
                unknown = sorted(map(str, one.keys() - known))[0]
                raise ValueError(f"it returned the field {unknown!r}, which `fields` does not declare")
        columns = [self._array([one.get(each.name) for one in results], each.type, each.name) for each in self.fields]
        assert self.function.state is not None
        return pa.RecordBatch.from_arrays(columns, names=self.fields.names), self._array(
            list(states), self.function.state, "state"
        )

    def _array(self, values: list[Any], type_: pa.DataType, what: str) -> pa.Array:
        try:
            return to_array(values, type_)
        except WRONG_VALUES as error:
            raise ValueError(f"it returned a wrong {what}: {message_of(error)}") from error

    def problem(self, results: Sequence[Any], state: Any) -> str:
        """Why results or a state are not as declared; empty if they are."""
        try:
            self.convert(results, [state])
            return ""
        except WRONG_VALUES as error:
            return message_of(error)

    def _wrong_keys(self, found: list[Any], failed: dict[int, str]) -> list[int]:
        """The keys for which the function failed, or returned what is not declared."""
        good = [one for at, one in enumerate(found) if at not in failed]
        try:
            self.convert([one for given, _ in good for one in given], [after for _, after in good])
            return sorted(failed)
        except WRONG_VALUES:
            return [at for at, one in enumerate(found) if at in failed or self.problem(*one)]

    # ── Keys with events for which it fails ──

    def _call_halves(self, call: Callable[..., Any], first: int, last: int, state: Callable[[], Any]) -> tuple[list[Event], Any]:
        """The results for some rows of a key, and the state after those for which the function does not fail."""
        if self.give_up(first, last):
            return [], state()
        found, reason, is_timeout = self.attempt(lambda: self._check_results(call(self._rows(first, last), state())))
        if not reason:
            return found[0], found[1]
        if last - first == 1 or is_timeout:
            self.fail(first, last, reason)
            return [], state()
        middle = (first + last) // 2
        left, between = self._call_halves(call, first, middle, state)
        right, after = self._call_halves(call, middle, last, partial(deepcopy, between))
        return left + right, after

    def _check_results(self, returned: Any) -> tuple[list[Event], Any]:
        given, after = parts_of(returned, EVENTS_AND_STATE)
        results = as_list(given)
        if problem := self.problem(results, after):
            raise ValueError(problem)
        return results, after

    def _rows(self, first: int, last: int) -> list[Event]:
        """Events as new dicts: a call that failed may have changed those that it got."""
        return as_dicts(self.events.slice(first, last - first))

    def attempt(self, call: Callable[[], Any], function: UserFunction | None = None) -> tuple[Any, str, bool]:
        """What a call gives; why it gives nothing; and whether it took too long."""
        called = function or self.function
        try:
            with CallGuard(called.timeout.total_seconds()):
                return call(), "", False
        except (*FAILURES, CallTimeoutError) as error:
            is_timeout = isinstance(error, CallTimeoutError)
            self.timeouts += is_timeout
            return None, failure_of(error, called), is_timeout


EVENTS_AND_STATE = ("events", "a state")


def parts_of(found: Any, names: Sequence[str]) -> Sequence[Any]:
    """The values that a call returned as a tuple. Raises TypeError if they are not as many as these names."""
    if isinstance(found, (tuple, list)) and len(found) == len(names):
        return found
    shown = f"{len(found)} values" if isinstance(found, tuple) else type(found).__name__
    raise TypeError(f"it returned {shown}, and not {' and '.join(names)}")
