"""Values that are computed from all rows of a key, when the sources have ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.aggregates.all_rows import NEIGHBOURS, RANKS, Frame
from etl.aggregates.calls import AggregateCall, TextPart, read_call
from etl.api import AfterRun, Finding, PaneSpan, PartRows, Schema, WatermarkAdvance, visible
from etl.expressions import compile_expression
from etl.state.aggregates import accumulator
from etl.state.aggregates.accumulator import Numbers
from etl.state.aggregates.argument import AggregateArgument, check_arguments, read_argument
from etl.state.changes.recomputed_results import RecomputedResults
from etl.state.keyed.decisions import TIME
from etl.state.keyed.event_rows import as_events, hashes_of, whole
from etl.state.over import frame_values
from etl.state.over.frame_values import Function
from etl.state.over.sorted_rows import SortedRows

_FAST = ("count", "sum", "avg", "min", "max", "first", "last")


@dataclass(frozen=True, kw_only=True)
class AllRows(RecomputedResults):
    """Computes the new fields of a key's rows from all of them, once the sources have ended. Memory: the rows of a key."""

    order_by: Sequence[tuple[AggregateArgument, bool]]
    """Values, each with whether the smallest comes first."""
    frame: Frame
    functions: Mapping[str, Function]
    """New field → what computes it."""
    arguments: Sequence[AggregateArgument] = ()
    """Those of the functions."""

    after_run: ClassVar[AfterRun] = "rewritten"

    def is_due(self, clock: WatermarkAdvance, arrived: PaneSpan | None, stored: PaneSpan | None) -> bool:
        """Whether the sources have ended."""
        return clock.ended and (arrived is not None or stored is not None)

    def run(self, clock: WatermarkAdvance, arrived: PartRows, stored: PartRows) -> Iterator[pa.RecordBatch]:
        """All rows of these parts with their values; nothing is remembered."""
        tables = [*stored.tables(), *arrived.tables()]
        if tables:
            yield from self.results(self._expanded(whole(tables))).combine_chunks().to_batches()

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """Rows whose values can be computed. Raises FailedRowsError."""
        check_arguments(events, [*(one for one, _ in self.order_by), *self.arguments])
        return super().prepare(events, watermark)

    def results(self, rows: pa.Table) -> pa.Table:
        events = as_events(rows, self._rows)
        by = [(one.values(events), ascending) for one, ascending in self.order_by]
        ordered = SortedRows.of(list(hashes_of(rows)), by)
        taken = pa.array(ordered.order)
        low, high = ordered.frames(self.frame, *self._distances(by, taken))
        given = events.take(taken)
        timed = given.append_column(self.time, rows.column(TIME).combine_chunks().take(taken).cast(pa.timestamp("us")))
        new = [function(timed, ordered, low, high) for function in self.functions.values()]
        columns = [*given.columns, *new]
        schema = pa.schema([field for field in self.fields if field.name in (*given.schema.names, *self.functions)])
        return pa.table([one.cast(field.type) for one, field in zip(columns, schema, strict=True)], schema=schema)

    def _distances(self, by: Sequence[tuple[pa.Array, bool]], taken: pa.Array) -> tuple[Numbers | None, Numbers | None]:
        """The values by which a frame goes, in ascending order, and which are null."""
        if not self.frame.goes_by_value:
            return None, None
        column, ascending = by[0][0].take(taken), by[0][1]
        type_ = column.type
        if pa.types.is_date(type_):
            column, type_ = column.cast(pa.timestamp("us")), pa.timestamp("us")
        is_whole = pa.types.is_integer(type_) or pa.types.is_temporal(type_)
        numbers = column.cast(pa.int64() if is_whole else pa.float64())
        values = numbers.fill_null(0).to_numpy(zero_copy_only=False)
        return (values if ascending else -values), column.is_null().to_numpy(zero_copy_only=False)

    def is_over(self, last_pane: int, watermark: int) -> bool:
        """Rows are needed until the end."""
        return False


def function_of(text: str, incoming: Schema, type_: pa.DataType, time: str) -> Function:
    """The function that a text says; it has been checked."""
    call = read_call(text)
    assert not isinstance(call, Finding)
    if call.function in RANKS:
        return lambda events, rows, low, high: frame_values.rank(call.function, rows)
    if call.function == "ntile":
        groups = int(call.arguments[0].text)
        return lambda events, rows, low, high: frame_values.ntile(groups, rows)
    if call.function in NEIGHBOURS:
        return _neighbour(call, incoming, type_)
    known = visible(incoming)
    argument = read_argument(text, call.arguments[0], call.where, known)
    assert not isinstance(argument, str), argument
    if call.function in _FAST and not pa.types.is_decimal(argument.type):
        return partial(_fast, call.function, argument, type_)
    made = accumulator(text, incoming, time)
    assert not isinstance(made, str), made
    return lambda events, rows, low, high: frame_values.aggregate(events, made, type_, low, high)


def arguments_of(text: str, incoming: Schema) -> list[AggregateArgument]:
    """The expressions in a function's call; the number of a neighbour or of groups is none."""
    call = read_call(text)
    assert not isinstance(call, Finding)
    parts = [part for at, part in enumerate(call.arguments) if not (call.function in NEIGHBOURS and at == 1)]
    found = [read_argument(text, part, call.where, visible(incoming)) for part in parts if call.function != "ntile"]
    return [one for one in found if not isinstance(one, str)]


def _neighbour(call: AggregateCall, incoming: Schema, type_: pa.DataType) -> Function:
    value = _values(call.arguments[0], incoming)
    distance = int(call.arguments[1].text) if len(call.arguments) > 1 else 1
    if call.function == "nth_value":
        return lambda events, rows, low, high: frame_values.nth(value(events), distance, low, high)
    default = _values(call.arguments[2], incoming) if len(call.arguments) > 2 else None
    signed = -distance if call.function == "lag" else distance

    def run(events: pa.RecordBatch, rows: SortedRows, low: Numbers, high: Numbers) -> pa.Array:
        other = None if default is None else default(events).cast(type_)
        return frame_values.neighbour(value(events), signed, other, rows)

    return run


def _values(part: TextPart, incoming: Schema):  # type: ignore[no-untyped-def]
    compiled = compile_expression(part.text, visible(incoming))
    argument = AggregateArgument(part.text, pa.null(), compiled, None)
    return argument.values


def _fast(
    name: str,
    argument: AggregateArgument,
    type_: pa.DataType,
    events: pa.RecordBatch,
    rows: SortedRows,
    low: Numbers,
    high: Numbers,
) -> pa.Array:
    if argument.value is None:
        mask = argument.mask(events)
        valid = np.ones(events.num_rows, bool) if mask is None else mask.to_numpy(zero_copy_only=False)
        return pa.array(frame_values.count(valid, low, high))
    values = argument.values(events)
    if name == "count":
        return pa.array(frame_values.count(values.is_valid().to_numpy(zero_copy_only=False), low, high))
    if name in ("min", "max"):
        return frame_values.extreme(values, name == "max", low, high)
    if name in ("first", "last"):
        return frame_values.first_or_last(values, name == "last", low, high)
    sums, counts = frame_values.total(values, rows, low, high)
    if name == "avg":
        sums = sums / np.maximum(counts, 1)
    return pc.if_else(pa.array(counts > 0), pa.array(sums), None).cast(type_)
