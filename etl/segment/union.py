"""The union of several branches of a segment: the steps after it run once, on one batch of the events of all branches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from etl.api import OFFSET, Schema, widen
from etl.columns.texts import concat_arrays, take_rows

if TYPE_CHECKING:
    from etl.segment.compiled_branch import CompiledBranch


class BranchUnion:
    """Collects the events of each branch for one batch; `flush` passes them, one branch after the other, to the next branch."""

    def __init__(self) -> None:
        self._collected: list[pa.RecordBatch] = []
        self._next: CompiledBranch | None = None
        self._schema = pa.schema([])

    def connect(self, next_branch: CompiledBranch, schema: Schema) -> None:
        """Set the branch after the union, and the fields of the union."""
        self._next, self._schema = next_branch, schema

    def __call__(self, batch: pa.RecordBatch) -> None:
        self._collected.append(batch)

    def flush(self) -> None:
        """Pass the collected events on, after every branch has processed the batch."""
        collected, self._collected = self._collected, []
        if collected and self._next is not None:
            filled = [batch for batch in collected if batch.num_rows]  # most batches of a log have lines of one branch
            self._next(unite(filled or collected[:1], self._schema))

    def preview_unfiltered(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """As `CompiledBranch.preview_unfiltered`, for the events of one branch."""
        if self._next is not None:
            yield from self._next.preview_unfiltered(unite([batch], self._schema))


def unite(batches: Sequence[pa.RecordBatch], schema: Schema) -> pa.RecordBatch:
    """The rows of all batches with the fields of a schema: missing ones null, narrower types cast; then hidden columns."""
    hidden = [name for name in batches[0].schema.names if name not in schema.names]
    columns = {field.name: _column(batches, field) for field in schema}
    columns |= {name: pa.concat_arrays([batch.column(name) for batch in batches]) for name in hidden}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def in_order(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Sort events by their offset, as they were read; a stable sort keeps the order of events of one offset."""
    import numpy as np

    offsets = batch.column(OFFSET).to_numpy()
    if (offsets[1:] >= offsets[:-1]).all():
        return batch
    rows = np.argsort(offsets, kind="stable")
    return pa.RecordBatch.from_arrays([take_rows(column, rows) for column in batch.columns], names=batch.schema.names)


def _column(batches: Sequence[pa.RecordBatch], field: pa.Field) -> pa.Array:
    indices = [batch.schema.get_field_index(field.name) for batch in batches]
    pieces = [batch.column(at) if at >= 0 else None for batch, at in zip(batches, indices, strict=True)]
    non_null = [piece for piece in pieces if piece is not None and piece.null_count < len(piece)]
    type_ = field.type if not pa.types.is_null(field.type) else next((piece.type for piece in non_null), field.type)
    if not non_null:
        return pa.nulls(sum(batch.num_rows for batch in batches), type_)
    cast = _cast(type_)
    return concat_arrays(
        [(batch.num_rows, None if piece is None else cast(piece)) for batch, piece in zip(batches, pieces, strict=True)]
    )


def _cast(type_: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    same = (type_, pa.string_view()) if type_ == pa.string() else (type_,)
    return lambda piece: piece if piece.type in same else widen(piece, type_)
