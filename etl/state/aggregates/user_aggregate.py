"""Aggregates of the user: a class with create, add, merge and finish, whose state is a column of Arrow.

A value whose `add` fails makes its event a dead letter (`FailedRowsError`). An error of `merge` or `finish` concerns many events:
its text is stored with the group, and the result of the group is a dead letter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from etl.api import ComponentError
from etl.state.aggregates.accumulator import FailedRowsError, Grouping, Numbers
from etl.state.aggregates.argument import AggregateArgument
from etl.state.aggregates.user_adds import UserAdds
from etl.udf.declaration import UserFunction
from etl.udf.failures import message_of
from etl.udf.loading import restore_state
from etl.udf.row_calls import call_for_each
from etl.udf.values import WRONG_VALUES, to_array


@dataclass(frozen=True)
class UserAggregate:
    """Columns are the state, null as long as there is none, and why the group has no result, null unless a call failed.

    Values are added one by one in Python, or as one array for each group of a batch where `add` takes an array. The order of
    events and the cut of the groups have no meaning: `merge` of two states is that of the events of both.
    """

    argument: AggregateArgument
    function: UserFunction
    others: tuple[AggregateArgument, ...] = ()
    """The arguments after the first one."""

    functions = None

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        """The state, and the text of an error."""
        assert self.function.state is not None
        return self.function.state, pa.string()

    def lift(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """A state for each event."""
        return self.lift_groups(batch, Grouping.of(np.arange(batch.num_rows), batch.num_rows))

    def lift_groups(self, batch: pa.RecordBatch, grouping: Grouping) -> list[pa.Array]:
        """The state of each group of events in the row of one of them."""
        columns = [one.values(batch) for one in (self.argument, *self.others)]
        included = self._included_events(batch, columns)
        adds = UserAdds(self.function)
        states = adds.states(columns, included, grouping) if included.any() else None
        if adds.failures:
            raise FailedRowsError(self.argument.aggregate, adds.failures)
        return [pa.nulls(batch.num_rows, self.types[0]) if states is None else states, pa.nulls(batch.num_rows, pa.string())]

    def _included_events(self, batch: pa.RecordBatch, columns: Sequence[pa.Array]) -> Any:
        """bool[n]: the events whose values are added; null only where `add` takes it."""
        mask = self.argument.mask(batch)
        included = np.ones(batch.num_rows, bool) if mask is None else mask.to_numpy(zero_copy_only=False)
        for values, parameter in zip(columns, self.function.parameters, strict=False):
            if not parameter.takes_null:
                included = included & values.is_valid().to_numpy(zero_copy_only=False)
        return included

    def merge(self, grouping: Grouping, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """States of a group as one. A group with one state has no call."""
        states, reasons = columns
        found, several = _only_states(states, grouping)
        merged, failures = self._merge_states(states, several)
        known = self._first_failures(reasons, grouping)
        failures = {number: failures[at] for at, number in enumerate(several) if at in failures} | known
        alone = states.take(pa.array(found, mask=found < 0))
        source = np.arange(grouping.count)
        source[list(several)] = grouping.count + np.arange(len(several))
        after = pa.concat_arrays([alone, merged]).take(pa.array(source)) if several else alone
        return [after, pa.array([failures.get(number) for number in range(grouping.count)], pa.string())]

    def _merge_states(self, states: pa.Array, groups: dict[int, Numbers]) -> tuple[pa.Array, dict[int, str]]:
        """The state of each of these groups of rows, and why there is none, by their order here."""

        def merge(rows: Numbers) -> Any:
            first, *others = (restore_state(self.function, one) for one in states.take(pa.array(rows)).to_pylist())
            for other in others:
                first = self._adds.check_state(self._instance.merge(first, other), "merge")
            return first

        found, failures = call_for_each(self.function, merge, zip(groups.values(), strict=True), len(groups))
        return self._as_array(found, failures, self.types[0], "state")

    @staticmethod
    def _first_failures(reasons: pa.Array, grouping: Grouping) -> dict[int, str]:
        """The first text of each group that has one."""
        if reasons.null_count == len(reasons):
            return {}
        valid = reasons.is_valid().to_numpy(zero_copy_only=False)[grouping.order]
        rows, groups = grouping.order[valid], grouping.ids[valid]
        return dict(zip(groups[::-1].tolist(), reasons.take(pa.array(rows[::-1])).to_pylist(), strict=True))

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The results. Raises ComponentError if one cannot be computed."""
        found, failures = self.finish_or_fail(columns)
        for reason in failures.values():
            raise ComponentError(f"aggregate {self.argument.aggregate!r}: {reason}")
        return found

    def finish_or_fail(self, columns: Sequence[pa.Array]) -> tuple[pa.Array, dict[int, str]]:
        """The results, and why there is none, by row."""
        states, reasons = columns
        known = {int(row): reasons[row].as_py() for row in np.flatnonzero(reasons.is_valid().to_numpy(zero_copy_only=False))}

        def finish(stored: Any) -> Any:
            one = self._instance
            return one.finish(one.create() if stored is None else restore_state(self.function, stored))

        found, failures = call_for_each(self.function, finish, zip(states.to_pylist(), strict=True), len(states))
        array, failures = self._as_array(found, failures, self.function.result, "result")
        return array, failures | known

    @cached_property
    def _adds(self) -> UserAdds:
        return UserAdds(self.function)

    @property
    def _instance(self) -> Any:
        return self._adds.instance

    def _as_array(
        self, values: list[Any], failures: dict[int, str], type_: pa.DataType, what: str
    ) -> tuple[pa.Array, dict[int, str]]:
        """Values of a type, null and a failure for those that are of another."""
        try:
            return to_array(values, type_), failures
        except WRONG_VALUES:
            pass
        for at, value in enumerate(values):
            try:
                to_array([value], type_)
            except WRONG_VALUES as error:
                failures[at], values[at] = f"{self.function.name}() returned a wrong {what}: {message_of(error)}", None
        return to_array(values, type_), failures


def _only_states(states: pa.Array, grouping: Grouping) -> tuple[Numbers, dict[int, Numbers]]:
    """The row of the only state of each group, -1 if it has none or several; and the rows of groups with several."""
    valid = states.is_valid().to_numpy(zero_copy_only=False)[grouping.order]
    rows, ids = grouping.order[valid], grouping.ids[valid]
    counts = np.bincount(ids, minlength=grouping.count)
    found = np.full(grouping.count, -1)
    alone = counts[ids] == 1
    found[ids[alone]] = rows[alone]
    ends = np.append(0, np.cumsum(counts))
    return found, {int(one): rows[ends[one] : ends[one + 1]] for one in np.flatnonzero(counts > 1)}
