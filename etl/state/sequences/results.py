"""The columns of a sequence's results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from etl.api import TIMESTAMP, nest
from etl.state.keyed.event_rows import as_times
from etl.state.sequences.kernels import list_chained_events, list_matched_events
from etl.state.sequences.key_events import KeyEvents
from etl.state.sequences.runs import CompiledPattern, EventArrays, MatchArrays, ScratchArrays, Span
from etl.state.windows.aggregation import Numbers


class Matches(NamedTuple):
    """Matches and the events that they are found in."""

    events: KeyEvents
    found: MatchArrays
    pattern: CompiledPattern
    span: Span


class ResultField(Protocol):
    """How a column of results is made."""

    def column(self, matches: Matches) -> pa.Array:
        """The value of each match."""


@dataclass(frozen=True)
class StartTime:
    """The time of the first event."""

    def column(self, matches: Matches) -> pa.Array:
        """The value of each match."""
        return as_times(matches.events.times[_first(matches.found, range(matches.found.taken.shape[1]))])


@dataclass(frozen=True)
class EndTime:
    """The time of the last event, or at which it is known that no event follows."""

    def column(self, matches: Matches) -> pa.Array:
        """The value of each match."""
        return as_times(matches.found.end)


@dataclass(frozen=True)
class Count:
    """The number of events of some elements, which have the same name."""

    elements: tuple[int, ...]

    def column(self, matches: Matches) -> pa.Array:
        """The value of each match."""
        return pa.array(matches.found.taken[:, list(self.elements), 2].sum(axis=1))


@dataclass(frozen=True)
class Value:
    """A field of the first or the last event of some elements; null if they have none."""

    field: str
    elements: tuple[int, ...]
    last: bool

    def column(self, matches: Matches) -> pa.Array:
        """The value of each match."""
        chosen = _last(matches.found, self.elements) if self.last else _first(matches.found, self.elements)
        column = matches.events.rows(np.maximum(chosen, 0), [self.field])
        if not column.num_columns:
            return pa.nulls(len(chosen))
        values = column.column(0).combine_chunks()
        return values if chosen.min(initial=0) >= 0 else values.take(pa.array(np.arange(len(chosen)), mask=chosen < 0))


NAME, TIME_OF = "event", "event_time"
"""Fields of listed events: the name that the pattern gives them, and the time."""


@dataclass(frozen=True)
class EventList:
    """The last events of each match, as structs: their name, their time, and some of their fields."""

    names: Sequence[str]
    """Of the elements."""
    fields: Mapping[str, pa.DataType]
    max_events: int
    by_turns: bool
    """Whether elements may take events by turns."""

    def column(self, matches: Matches) -> pa.Array:
        """The value of each match."""
        taken = matches.found.taken
        sizes = np.minimum(taken[:, :, 2].sum(axis=1), self.max_events)
        events, elements = np.empty((2, sizes.sum()), np.int64)
        if self.by_turns:
            self._list_chained(matches, events, elements)
        else:
            work = ScratchArrays.of(matches.pattern.automaton)
            list_matched_events(taken, matches.events.masks, matches.pattern, self.max_events, work, events, elements)
        offsets = np.append(0, np.cumsum(sizes)).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), self._structs(matches.events, events, elements))

    def _list_chained(self, matches: Matches, listed: Numbers, elements: Numbers) -> None:
        bounds, taken, pattern, span = matches.events.bounds, matches.found.taken, matches.pattern, matches.span
        ends = bounds[np.searchsorted(bounds[:, 1], taken[:, :, 1].max(axis=1), side="right"), 1]
        longest = min(span.max_events, int((bounds[:, 1] - bounds[:, 0]).max(initial=0)))
        events = EventArrays(bounds, matches.events.times, matches.events.masks)
        work = ScratchArrays.of(pattern.automaton, longest + 1)
        list_chained_events(taken, ends, events, pattern, span, self.max_events, work, listed, elements)

    def _structs(self, events: KeyEvents, chosen: Numbers, elements: Numbers) -> pa.StructArray:
        rows = events.rows(chosen, list(self.fields))
        columns: dict[str, pa.Array] = {
            NAME: pa.array(list(self.names), pa.string()).take(pa.array(elements)),
            TIME_OF: as_times(events.times[chosen]).cast(TIMESTAMP),
        }
        for name, type_ in self.fields.items():
            known = name in rows.column_names
            columns[name] = rows.column(name).combine_chunks().cast(type_) if known else pa.nulls(len(chosen), type_)
        return nest(pa.RecordBatch.from_pydict(columns)).to_struct_array()


def _first(found: MatchArrays, elements: tuple[int, ...] | range) -> Numbers:
    """The first event of these elements, or -1."""
    firsts = found.taken[:, list(elements), 0]
    firsts_of_matches: Numbers = np.where(firsts < 0, np.iinfo(np.int64).max, firsts).min(axis=1)
    return np.where(firsts_of_matches == np.iinfo(np.int64).max, -1, firsts_of_matches)


def _last(found: MatchArrays, elements: tuple[int, ...]) -> Numbers:
    """The last event of these elements, or -1."""
    last: Numbers = found.taken[:, list(elements), 1].max(axis=1)
    return last
