"""The internal step that gives the inputs of a union one schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pyarrow as pa

from etl.api import ArrowStep, Outcome, Schema, with_columns


class Align(ArrowStep):
    """Give events the fields of a union; missing ones are null."""

    type: Literal["align"] = "align"
    to: pa.Schema

    def fields(self, incoming: Schema) -> Schema:
        """The union's fields."""
        return self.to

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        """Add missing columns as nulls and cast narrower numbers; hidden columns follow at the end."""
        known = set(self.to.names)

        def run(batch: pa.RecordBatch) -> Outcome:
            columns = {field.name: _column(batch, field) for field in self.to}
            hidden = {name: batch.column(name) for name in batch.schema.names if name not in known}
            return Outcome(with_columns(pa.RecordBatch.from_pydict(columns), hidden))

        return run


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    at = batch.schema.get_field_index(field.name)
    if at < 0:
        return pa.nulls(batch.num_rows, field.type)
    column = batch.column(at)
    return column if column.type.equals(field.type) else column.cast(field.type)
