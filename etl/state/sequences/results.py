"""The columns of a sequence's results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from etl.state.keyed.event_rows import as_times
from etl.state.sequences.kernels import Found
from etl.state.sequences.key_events import KeyEvents
from etl.state.windows.aggregation import Numbers


class ResultField(Protocol):
    """How a column of results is made."""

    def column(self, events: KeyEvents, found: Found) -> pa.Array:
        """The value of each match."""


@dataclass(frozen=True)
class StartTime:
    """The time of the first event."""

    def column(self, events: KeyEvents, found: Found) -> pa.Array:
        """The value of each match."""
        return as_times(events.times[_first(found, range(found.taken.shape[1]))])


@dataclass(frozen=True)
class EndTime:
    """The time of the last event, or at which it is known that no event follows."""

    def column(self, events: KeyEvents, found: Found) -> pa.Array:
        """The value of each match."""
        return as_times(found.end)


@dataclass(frozen=True)
class Count:
    """The number of events of some elements, which have the same name."""

    elements: tuple[int, ...]

    def column(self, events: KeyEvents, found: Found) -> pa.Array:
        """The value of each match."""
        return pa.array(found.taken[:, list(self.elements), 2].sum(axis=1))


@dataclass(frozen=True)
class Value:
    """A field of the first or the last event of some elements; null if they have none."""

    field: str
    elements: tuple[int, ...]
    last: bool

    def column(self, events: KeyEvents, found: Found) -> pa.Array:
        """The value of each match."""
        chosen = _last(found, self.elements) if self.last else _first(found, self.elements)
        column = events.rows(np.maximum(chosen, 0), [self.field])
        if not column.num_columns:
            return pa.nulls(len(chosen))
        values = column.column(0).combine_chunks()
        return values if chosen.min() >= 0 else values.take(pa.array(np.arange(len(chosen)), mask=chosen < 0))


def _first(found: Found, elements: tuple[int, ...] | range) -> Numbers:
    """The first event of these elements, or -1."""
    firsts = found.taken[:, list(elements), 0]
    least: Numbers = np.where(firsts < 0, np.iinfo(np.int64).max, firsts).min(axis=1)
    return np.where(least == np.iinfo(np.int64).max, -1, least)


def _last(found: Found, elements: tuple[int, ...]) -> Numbers:
    """The last event of these elements, or -1."""
    last: Numbers = found.taken[:, list(elements), 1].max(axis=1)
    return last
