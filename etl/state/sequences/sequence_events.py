"""Sequences of events of a key: state holds the events that a run can still take, and where matches have ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.api import ALWAYS, NEVER, OFFSET, PANE, AfterRun, ComponentError, PaneSpan, PartRows, Schema, WatermarkAdvance, cut
from etl.expressions import CompiledExpression
from etl.state.key_hash import HASH, HASH2
from etl.state.keyed.decisions import TIME
from etl.state.keyed.event_rows import numbers, prepare_rows
from etl.state.sequences.automaton import Automaton
from etl.state.sequences.event_tests import EventTest, table_of_tests, value_codes
from etl.state.sequences.kernels import find_matches, find_open, find_overlapping, find_unanswered
from etl.state.sequences.key_events import MASK, ORDER, KeyEvents, keys_of, rows_of_keys
from etl.state.sequences.results import Matches, ResultField
from etl.state.sequences.runs import CompiledPattern, EventArrays, MatchArrays, ScratchArrays, Span
from etl.state.windows.aggregation import Numbers

_PANES = 4
"""Panes in the time of a pattern: state stays a quarter longer than needed, and look-ups read six panes."""


@dataclass(frozen=True, kw_only=True)
class SequenceEvents:
    """Matches of a pattern. Events are decided in the order of their times when the watermark has passed them."""

    fields: Schema
    """Of results."""
    results: Sequence[ResultField]
    """How the columns of results are made."""
    columns: Schema
    """The columns of events that state rows have."""
    group_by: tuple[str, ...]
    time: str
    arrival: bool
    """Whether the time is that of reading: later micro-batches have later times."""
    conditions: Mapping[str, CompiledExpression]
    """By the name of an event; the first has bit 0 of masks."""
    automaton: Automaton
    within: int
    """Microseconds."""
    max_events: int
    """Events of a run."""
    strict: bool
    """Whether events that meet no condition matter."""
    unanswered: bool
    """Whether the pattern ends with absent events."""
    overlap: bool
    """Whether a run may begin within a match."""
    by_turns: bool = False
    """Whether elements may take events by turns."""
    skip: tuple[int, bool] = (0, False)
    """The bit of the name at whose event the next match may begin, 0 for after the last event; whether its last one is meant."""
    tests: Sequence[EventTest] = ()
    """Comparisons with earlier events."""
    open_fields: Schema
    """Of sequences that have begun."""
    open_results: Sequence[ResultField]
    hashed: bool = True
    after_run: AfterRun = "added"

    @property
    def keys(self) -> tuple[str, ...]:
        """The fields that make a key."""
        return self.group_by

    @property
    def pane(self) -> int:
        """The length of a pane."""
        return -(-self.within // _PANES)

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """The events that meet a condition; those older than the watermark are late."""
        masks = self._masks(events)
        if not self.strict and not masks.all():
            matter = masks != 0
            events, masks = events.filter(pa.array(matter)), masks[matter]
        more = {MASK: masks, ORDER: events.column(OFFSET).to_numpy()}
        return prepare_rows(events, self.columns, self.time, self.pane, watermark, more)

    def _masks(self, events: pa.RecordBatch) -> Numbers:
        """int64[n]: a bit for each condition that an event meets. Raises ComponentError if one cannot be computed."""
        masks = np.zeros(events.num_rows, np.int64)
        for bit, (name, condition) in enumerate(self.conditions.items()):
            found, failed, reasons = condition(events)
            if failed is not None and reasons is not None and failed.true_count:
                reason = cut(str(reasons.filter(failed)[0]), 500)
                hint = "use a try_ function such as try_cast"
                raise ComponentError(f"sequence: condition {name!r} failed for an event: {reason}; {hint}")
            holds = pc.fill_null(found.cast(pa.bool_()), False).to_numpy(zero_copy_only=False)
            masks |= holds.astype(np.int64) << bit
        return masks

    def combine(self, rows: pa.Table) -> pa.Table:
        """All rows: each event may be one of a match."""
        return rows

    def is_due(self, clock: WatermarkAdvance, arrived: PaneSpan | None, stored: PaneSpan | None) -> bool:
        """Whether the watermark has passed an event, or the end of the time of a pattern."""
        span = self._span(clock)
        longest = self.pane + (self.within if self.unanswered else 0)
        return span.before < span.settled and any(
            rows.first < span.settled and rows.last + longest >= span.before for rows in (arrived, stored) if rows is not None
        )

    def _span(self, clock: WatermarkAdvance) -> Span:
        own = 1 if self.arrival else 0
        return Span(self.within, self.max_events, clock.before + own, clock.now + own)

    def run(self, clock: WatermarkAdvance, arrived: PartRows, stored: PartRows) -> Iterator[pa.RecordBatch | pa.Table]:
        """The matches that are decided now, in the order of their ends; and where they end."""
        span = self._span(clock)
        first = span.before - self.within - self.pane
        tables = [*stored.tables(first, span.settled), *arrived.tables(first, span.settled)]
        events = rows_of_keys(
            tables, keys_of(tables, lambda table: self._is_due(table, span)), span.before - self.within, span.settled
        )
        matches = self._find(events, span)
        if len(matches.found.end):
            yield _columns(matches, self.results, self.fields)
            if not self.overlap:
                yield _ends(matches)

    def _is_due(self, table: pa.Table, span: Span) -> Numbers:
        """bool[n]: the rows because of which a key may have a match now."""
        times, masks = numbers(table, TIME), numbers(table, MASK)
        if self.unanswered:
            over = times + self.within
            return (span.before < over) & (over <= span.settled) & (masks > 0)
        due: Numbers = (span.before <= times) & (times < span.settled) & (masks > 0) & (masks & self._last != 0)
        return due

    @cached_property
    def _last(self) -> int:
        """The mask of events with which a match can end."""
        automaton = self.automaton
        ends = automaton.elements[(automaton.targets >= 0) & automaton.accepts[automaton.targets]]
        return int(np.bitwise_or.reduce(automaton.names[ends], initial=0))

    def _find(self, events: KeyEvents, span: Span, still_open: bool = False) -> Matches:
        """The matches that are decided now, or the sequences that have begun."""
        rows, work = len(events.times), ScratchArrays.of(self.automaton)
        skip = np.array(self.skip, np.int64)
        pattern = CompiledPattern(self.automaton, table_of_tests(self.tests), value_codes(events, self.tests), skip)
        taken = np.empty((rows, len(self.automaton.names), 3), np.int64)
        found = MatchArrays(np.empty(rows, np.int64), taken, np.empty(rows, np.int64))
        given = (EventArrays(events.bounds, events.times, events.masks), pattern, span)
        if still_open:
            count = find_open(*given, found, work)
        elif self.unanswered:
            count = find_unanswered(*given, self.overlap, found, work)
        elif self.overlap:
            count = find_overlapping(*given, found, work)
        else:
            count = find_matches(*given, not self.tests, found, work)
        order = np.argsort(found.end[:count], kind="stable")
        return Matches(events, MatchArrays(*(one[:count][order] for one in found)), pattern, span)

    @property
    def state_fields(self) -> Schema:
        """Keys, the times of the first and the last event, and the number of events of each name."""
        return self.open_fields

    def read_state(self, stored: PartRows, watermark: int) -> Iterator[pa.RecordBatch]:
        """The earliest sequence of each key that has begun, is not over and not complete, with all events that are read."""
        tables = stored.tables(watermark - self.within - self.pane)
        own = watermark + (1 if self.arrival else 0)
        events = rows_of_keys(tables, keys_of(tables, _is_event), own - self.within, ALWAYS)
        found = self._find(events, Span(self.within, self.max_events, NEVER, own), still_open=True)
        yield _columns(found, self.open_results, self.open_fields)

    def warm_up(self) -> None:
        """Compile the kernels, which sample events that meet no condition do not reach."""
        ones = pa.array(np.ones(2, np.int64))
        hashes = ones.cast(pa.uint64())
        table = pa.table({PANE: ones, TIME: ones, ORDER: ones, MASK: ones, HASH: hashes, HASH2: hashes})
        events = rows_of_keys([table], keys_of([table], _is_event), NEVER, ALWAYS)
        span = self._span(WatermarkAdvance(NEVER, ALWAYS))
        for still_open in (False, True):
            matches = self._find(events, span, still_open)
            none = MatchArrays(*(one[:0] for one in matches.found))
            _columns(matches._replace(found=none), self.results, self.fields)

    def is_over(self, last_pane: int, watermark: int) -> bool:
        """Whether no run can begin in the pane."""
        return last_pane + self.pane + self.within <= watermark

    def watermark_after(self, watermark: int) -> int:
        """Runs that begin before are decided."""
        return watermark - self.within


def _is_event(table: pa.Table) -> Numbers:
    """bool[n]: the rows that are not ends of matches."""
    return numbers(table, MASK) >= 0


def _columns(matches: Matches, results: Sequence[ResultField], fields: Schema) -> pa.RecordBatch:
    columns = [result.column(matches).cast(field.type) for result, field in zip(results, fields, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=fields)


def _ends(matches: Matches) -> pa.Table:
    """A row for the event of each match after which the next one may begin, and for the copies before it."""
    last = matches.events.up_to(matches.found.following - 1)
    rows = matches.events.rows(last, [PANE, TIME, ORDER, HASH, HASH2])
    return rows.append_column(MASK, pa.array(~matches.events.masks[last]))
