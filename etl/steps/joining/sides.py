"""Rows for a join of the events of its sides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import pyarrow as pa

from etl.api import (
    CHANGE,
    INSERT,
    OFFSET,
    SIDE,
    SIDE_PREFIXES,
    SIDE_TIME,
    TIMESTAMP,
    Outcome,
    Schema,
    SideStep,
    visible,
    with_fields,
)


class JoinSide(SideStep):
    """Make rows for a join of the events of one of its sides, or two rows of each event if both sides are the same stream."""

    type: Literal["side"] = "side"
    times: tuple[str, str] | None
    """The field with the event time, of each side."""
    rows: pa.Schema

    def fields(self, incoming: Schema) -> Schema:
        """The rows of both sides; types that the plan does not know are those of the events."""
        known = {name: incoming.field(name).type for name in visible(incoming).names}
        types = {SIDE_PREFIXES[side] + name: type_ for side in self.sides for name, type_ in known.items()}
        return with_fields(self.rows, {n: t for n, t in types.items() if n in self.rows.names and not pa.types.is_null(t)})

    def may_multiply_events(self) -> bool:
        """Whether the stream is joined with itself."""
        return len(self.sides) > 1

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        """Add the side and the event time, and nulls for the fields of the other side."""
        schema = self.fields(incoming).append(pa.field(OFFSET, pa.int64()))

        def run(batch: pa.RecordBatch) -> Outcome:
            sides = [self._rows(batch, side, schema) for side in self.sides]
            return Outcome(sides[0] if len(sides) == 1 or not sides[0].num_rows else _interleave(sides))

        return run

    def _rows(self, batch: pa.RecordBatch, side: int, schema: Schema) -> pa.RecordBatch:
        columns: Mapping[str, pa.Array] = {SIDE_PREFIXES[side] + name: batch.column(name) for name in batch.schema.names}
        given = {**columns, CHANGE: self._kinds(batch), OFFSET: batch.column(OFFSET)}
        given[SIDE] = pa.repeat(pa.scalar(side, pa.int8()), batch.num_rows)
        if self.times is not None:
            given[SIDE_TIME] = batch.column(self.times[side]).cast(TIMESTAMP, safe=False)
        arrays = [given[f.name] if f.name in given else pa.nulls(batch.num_rows, f.type) for f in schema]
        return pa.RecordBatch.from_arrays(arrays, names=schema.names)

    @staticmethod
    def _kinds(batch: pa.RecordBatch) -> pa.Array:
        known = CHANGE in batch.schema.names
        return batch.column(CHANGE) if known else pa.repeat(pa.scalar(INSERT, pa.int8()), batch.num_rows)


def _interleave(sides: list[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of both sides of each event, one after the other."""
    import numpy as np

    rows = sides[0].num_rows
    both = pa.Table.from_batches([side.cast(sides[0].schema) for side in sides]).combine_chunks()
    order = np.arange(2 * rows).reshape(2, rows).T.ravel()
    return both.take(pa.array(order)).combine_chunks().to_batches(max_chunksize=max(1, 2 * rows))[0]
