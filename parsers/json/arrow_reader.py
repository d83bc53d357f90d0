"""Arrow's JSON reader over texts of objects: the members whose types it converts as this parser does, the rows it refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import Schema, nested_schema

if TYPE_CHECKING:
    from parsers.timestamp.instants import Bools

PIECE_ROWS = 2048
"""A column that the reader refuses is cut into pieces of this many rows."""

MISSES = 16
"""Refusals in a piece after which its other rows are read one at a time, which is then faster."""

_ROW = re.compile(r"in row (\d+)$")


def is_columnar(type_: pa.DataType) -> bool:
    """Whether Arrow's reader converts values to this type as this parser does."""
    if pa.types.is_list(type_):
        return is_columnar(type_.value_type)
    if pa.types.is_struct(type_):
        return all(is_columnar(member.type) for member in type_)
    return type_ in _COLUMNAR


_COLUMNAR = {pa.string(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float64()}


@dataclass(frozen=True)
class ArrowReader:
    """Reads members by their dotted names, those in ``dotted`` also where the dots are part of a member's name."""

    schema: Schema
    dotted: tuple[str, ...]

    @cached_property
    def explicit_schema(self) -> pa.Schema:
        """The schema that the reader is given."""
        return pa.schema([*nested_schema(self.schema), *(self.schema.field(name) for name in self.dotted)])

    def columns(self, texts: pa.StringArray, refused: Bools) -> list[pa.Array]:
        """A column for each field; rows that are refused are marked and left null."""
        batches = list(self._pieces(texts, refused)) if len(texts) else [self._nulls(0)]
        return [pa.concat_arrays([batch.column(index) for batch in batches]) for index in range(len(self.schema))]

    def _pieces(self, texts: pa.StringArray, refused: Bools) -> Iterator[pa.RecordBatch]:
        """The whole in one go, or else piece by piece; rows that are refused are marked and left null."""
        batch, _ = self.read(texts)
        if batch is not None:
            yield batch
            return
        for start in range(0, len(texts), PIECE_ROWS):
            yield from self._isolate(texts.slice(start, PIECE_ROWS), refused[start : start + PIECE_ROWS])

    def _isolate(self, texts: pa.StringArray, refused: Bools) -> Iterator[pa.RecordBatch]:
        """Cut around the row that the reader names in its error, or in the middle where it names none."""
        todo = [(0, len(texts))]
        misses = 0
        while todo:
            start, end = todo.pop()
            batch, row = self.read(texts.slice(start, end - start)) if end - start > 1 and misses < MISSES else (None, None)
            if batch is not None:
                yield batch
            elif end - start <= 1 or misses >= MISSES:
                refused[start:end] = True
                yield self._nulls(end - start)
            else:
                misses += 1
                at = (start + end) // 2 if row is None else start + min(row, end - start - 1)
                todo += [(at, end), (start, at)] if row is None else [(at + 1, end), (at, at + 1), (start, at)]

    def read(self, texts: pa.StringArray) -> tuple[pa.RecordBatch | None, int | None]:
        """One object a text → flat batch; or None when a text is refused, and its row, if the reader names it.

        Every text begins with ``{`` and ends with ``}``, none holds NUL. No text can then run into the next (after
        a brace that closes a member, a brace that opens is an error), so each gives at least one object: as many
        objects as texts means one each.
        """
        from pyarrow import json as columnar

        data = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts), "\n")[0].as_buffer()
        options = columnar.ParseOptions(explicit_schema=self.explicit_schema, unexpected_field_behavior="ignore")
        blocks = columnar.ReadOptions(use_threads=False, block_size=max(1, data.size + 1))
        try:
            table = columnar.read_json(pa.BufferReader(data), read_options=blocks, parse_options=options)
        except pa.ArrowInvalid as error:
            named = _ROW.search(str(error))
            return None, int(named[1]) if named else None
        return (self._flat(table) if table.num_rows == len(texts) else None), None

    def _flat(self, table: pa.Table) -> pa.RecordBatch:
        columns = {field.name: table.column(index) for index, field in enumerate(self.explicit_schema)}
        arrays = []
        for name in self.schema.names:
            top, *path = name.split(".")
            values = columns[top].combine_chunks()
            for part in path:
                values = values.flatten()[values.type.get_field_index(part)]
            if name in self.dotted and (dotted := columns[name].combine_chunks()).null_count < len(dotted):
                values = pc.coalesce(values, dotted)
            arrays.append(values)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _nulls(self, rows: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pa.nulls(rows, type_) for type_ in self.schema.types], schema=self.schema)
