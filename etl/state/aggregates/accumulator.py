"""The contract of an aggregate's accumulator, and the groups whose rows it merges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from etl.api import ComponentError

Numbers = np.ndarray[Any, Any]

MAX_EVENTS = 1 << 32
"""Events of one group up to which sums of integers are exact, whatever their values."""


@dataclass(frozen=True)
class Grouping:
    """Rows divided into groups."""

    order: Numbers
    """int64[rows]: row numbers, those of the first group first, within a group ascending."""

    ends: Numbers
    """int64[groups + 1]: group g has the rows ``order[ends[g]:ends[g + 1]]``; no group is empty."""

    @classmethod
    def of(cls, ids: Numbers, count: int) -> Grouping:
        """The rows of groups 0 to ``count``, from the group number of each row."""
        ends = np.concatenate(([0], np.cumsum(np.bincount(ids, minlength=count))))
        return cls(np.argsort(ids, kind="stable"), ends)

    @property
    def count(self) -> int:
        """The number of groups."""
        return len(self.ends) - 1

    @cached_property
    def ids(self) -> Numbers:
        """int64[rows]: the group number of each row **in the order of** ``order``, so ascending."""
        return np.repeat(np.arange(self.count), np.diff(self.ends))


class Accumulator(Protocol):
    """An aggregate whose partial results merge in any order and any cut: the result is that of all events at once.

    Sums of floating-point numbers are an exception: they depend on the order in their last digits.
    """

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        """The types of the columns of a partial result."""

    @property
    def functions(self) -> tuple[str, ...] | None:
        """Functions of pyarrow's group_by that merge the columns one by one (the fast path); None where `merge` does."""

    def lift(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """One partial result per event. Raises ComponentError where Spark would fail, such as for a cast of a bad text.

        The batch has the event time and `etl.api.OFFSET`.
        """

    def merge(self, grouping: Grouping, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """One partial result per group; called only where ``functions`` is None."""

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The result of each group, of the type that the window declares."""


class FailedRowsError(ComponentError):
    """Events for which an aggregate cannot be computed. Where there are no dead letters, it ends the run."""

    def __init__(self, aggregate: str, failures: Mapping[int, str], hint: str = "") -> None:
        """``failures``: why, by row of the batch; at least one."""
        self.reasons = {row: f"aggregate {aggregate!r} failed for an event: {reason}" for row, reason in failures.items()}
        super().__init__(f"{next(iter(self.reasons.values()))}{f'; {hint}' if hint else ''}")


@runtime_checkable
class LiftsGroups(Protocol):
    """An accumulator that makes partial results of groups of events at less cost than of single ones."""

    def lift_groups(self, batch: pa.RecordBatch, grouping: Grouping) -> list[pa.Array]:
        """As `Accumulator.lift`, but the row of one event of each group may have the partial result of all of them. Raises
        FailedRowsError for events that cannot be added."""


@runtime_checkable
class FinishesOrFails(Protocol):
    """An accumulator whose results may be missing for some groups."""

    def finish_or_fail(self, columns: Sequence[pa.Array]) -> tuple[pa.Array, dict[int, str]]:
        """The results, and why there is none, by row."""


class MergedByFunctions:
    """An accumulator whose ``functions`` merge it."""

    def merge(self, grouping: Grouping, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """Never called."""
        raise NotImplementedError(f"{type(self).__name__} is merged by its functions")
