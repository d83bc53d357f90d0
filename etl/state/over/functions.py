"""Running aggregates: the columns that state holds of each event, and their running values over frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from etl.aggregates.calls import read_call
from etl.aggregates.running import RUNNING_FUNCTIONS, lag_distance
from etl.api import Finding, Schema, visible
from etl.state.aggregates.accumulator import Accumulator
from etl.state.aggregates.argument import AggregateArgument, read_argument
from etl.state.aggregates.extremes import MinOrMax
from etl.state.aggregates.sums import Average, Count, Sum, sum_form
from etl.state.over.frames import Frames


class RunningAggregate(Protocol):
    """A running aggregate: its value for an event is computed from the columns of the events in the frame of that event."""

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        """The types of the columns that `lift` makes."""

    @property
    def is_total(self) -> bool:
        """Whether the running columns of an event stand for all events up to it, so that state needs no others."""

    @property
    def distance(self) -> int:
        """How many events before its own it reads, as `lag` does; 0 if only the frame decides."""

    @property
    def distinct(self) -> bool:
        """Whether state needs the first event of each value of its column."""

    def lift(self, events: pa.RecordBatch) -> list[pa.Array]:
        """The columns of events."""

    def slide(self, columns: Sequence[pa.Array], frames: Frames) -> list[pa.Array]:
        """The running columns of rows."""

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The results of running columns."""


class _RunningTotal:
    """An aggregate whose running columns are its state."""

    is_total, distance, distinct = True, 0, False


class _FrameAggregate:
    """An aggregate of the values of one column, which looks at the events of its frame."""

    is_total, distance, distinct = False, 0, False
    argument: AggregateArgument

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (self.argument.type,)

    def lift(self, events: pa.RecordBatch) -> list[pa.Array]:
        return [self.argument.values(events)]

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        return columns[0]


@dataclass(frozen=True)
class MergedAggregate(_RunningTotal):
    """An aggregate of windows whose columns are merged by sums, minima and maxima."""

    accumulator: Accumulator

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return self.accumulator.types

    def lift(self, events: pa.RecordBatch) -> list[pa.Array]:
        return self.accumulator.lift(events)

    def slide(self, columns: Sequence[pa.Array], frames: Frames) -> list[pa.Array]:
        slides: Mapping[str, Callable[[pa.Array], pa.Array]] = {
            "sum": frames.sum,
            "min": frames.smallest,
            "max": lambda column: frames.smallest(column, greatest=True),
        }
        return [slides[name](column) for name, column in zip(self.accumulator.functions or (), columns, strict=True)]

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        return self.accumulator.finish(columns)


@dataclass(frozen=True)
class PerSecond(MergedAggregate):
    """``per_second(count(*))``, ``per_second(sum(x))``: the count or sum, per second of the frame's length."""

    seconds: float

    def finish(self, columns: Sequence[pa.Array]) -> pa.Array:
        return pc.divide(self.accumulator.finish(columns).cast(pa.float64(), safe=False), self.seconds)


@dataclass(frozen=True)
class FirstOrLast(_FrameAggregate):
    """``first(x)``, ``last(x)``: the first or last value that is not null."""

    argument: AggregateArgument
    is_last: bool
    is_total = True

    def slide(self, columns: Sequence[pa.Array], frames: Frames) -> list[pa.Array]:
        return [frames.last(columns[0]) if self.is_last else frames.first(columns[0])]


@dataclass(frozen=True)
class Lag(_FrameAggregate):
    """``lag(x, n)``: x of the event n before."""

    argument: AggregateArgument
    distance: int

    def slide(self, columns: Sequence[pa.Array], frames: Frames) -> list[pa.Array]:
        return [frames.before(columns[0], self.distance)]


@dataclass(frozen=True)
class Distinct(_FrameAggregate):
    """``count(distinct x)``."""

    argument: AggregateArgument
    distinct = True

    def slide(self, columns: Sequence[pa.Array], frames: Frames) -> list[pa.Array]:
        return [pa.array(frames.distinct(columns[0]))]


@dataclass(frozen=True)
class IsNew(_FrameAggregate):
    """``is_new(x)``: whether no event before it has this x; null for a null."""

    argument: AggregateArgument
    distinct = True

    def slide(self, columns: Sequence[pa.Array], frames: Frames) -> list[pa.Array]:
        return [pa.array(frames.is_new(columns[0]), mask=columns[0].is_null().to_numpy(zero_copy_only=False))]


def running_aggregate(text: str, incoming: Schema, within: int | None) -> RunningAggregate:
    """The aggregate of a text without errors; ``within`` in microseconds."""
    fields, call = visible(incoming), read_call(text)
    assert not isinstance(call, Finding), text
    argument = read_argument(text, call.arguments[0], call.where, fields)
    assert not isinstance(argument, str), argument
    merged = _merging_accumulator(call.function, argument)
    if merged is not None:
        return PerSecond(merged, (within or 0) / 1e6) if call.per_second else MergedAggregate(merged)
    match call.function:
        case "first" | "last":
            return FirstOrLast(argument, call.function == "last")
        case "lag":
            return Lag(argument, lag_distance(call.arguments[1:]))
        case "count distinct":
            return Distinct(argument)
    assert call.function == "is_new"
    return IsNew(argument)


def _merging_accumulator(function: str, argument: AggregateArgument) -> Accumulator | None:
    """The accumulator of an aggregate whose columns are merged by sums, minima and maxima; None for the others."""
    match function:
        case "count" | "count_if":
            return Count(argument, true_only=function == "count_if")
        case "sum" | "avg":
            result = RUNNING_FUNCTIONS[function].result(argument.type)
            assert result is not None
            return (Sum if function == "sum" else Average)(argument, sum_form(argument.type, result))
        case "min" | "max":
            return MinOrMax(argument, function)
    return None
