"""The events of several branches as one batch: what stands behind a union runs once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from etl.api import OFFSET, Schema
from etl.columns.texts import joined, taken

if TYPE_CHECKING:
    from etl.segment.compiled_branch import CompiledBranch


class BranchUnion:
    """Collects what branches make of one batch; `flush` hands it on, branch behind branch, to what stands behind the union."""

    def __init__(self) -> None:
        self._collected: list[pa.RecordBatch] = []
        self._behind: CompiledBranch | None = None
        self._schema = pa.schema([])

    def lead_to(self, behind: CompiledBranch, schema: Schema) -> None:
        """What takes the events, with the fields of the union."""
        self._behind, self._schema = behind, schema

    def __call__(self, batch: pa.RecordBatch) -> None:
        self._collected.append(batch)

    def flush(self) -> None:
        """Every branch has had the batch."""
        collected, self._collected = self._collected, []
        if collected and self._behind is not None:
            self._behind(united(collected, self._schema))

    def preview_unfiltered(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """As `CompiledBranch.preview_unfiltered`, for the events of one branch."""
        if self._behind is not None:
            yield from self._behind.preview_unfiltered(united([batch], self._schema))


def united(batches: Sequence[pa.RecordBatch], schema: Schema) -> pa.RecordBatch:
    """The rows of all batches with the fields of a schema: missing ones null, narrower numbers cast; then hidden columns."""
    hidden = [name for name in batches[0].schema.names if name not in schema.names]
    columns = {field.name: _column(batches, field) for field in schema}
    columns |= {name: pa.concat_arrays([batch.column(name) for batch in batches]) for name in hidden}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def in_order(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The events as they were read: sorted by their offset, those of one offset as they stand."""
    import numpy as np

    offsets = batch.column(OFFSET).to_numpy()
    if (offsets[1:] >= offsets[:-1]).all():
        return batch
    rows = np.argsort(offsets, kind="stable")
    return pa.RecordBatch.from_arrays([taken(column, rows) for column in batch.columns], names=batch.schema.names)


def _column(batches: Sequence[pa.RecordBatch], field: pa.Field) -> pa.Array:
    places = [batch.schema.get_field_index(field.name) for batch in batches]
    pieces = [batch.column(at) if at >= 0 else None for batch, at in zip(batches, places, strict=True)]
    given = [piece for piece in pieces if piece is not None and piece.null_count < len(piece)]
    type_ = field.type if not pa.types.is_null(field.type) else next((piece.type for piece in given), field.type)
    if not given:
        return pa.nulls(sum(batch.num_rows for batch in batches), type_)
    cast = _cast(type_)
    return joined(
        [(batch.num_rows, None if piece is None else cast(piece)) for batch, piece in zip(batches, pieces, strict=True)]
    )


def _cast(type_: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    same = (type_, pa.string_view()) if type_ == pa.string() else (type_,)
    return lambda piece: piece if piece.type in same else piece.cast(type_)
