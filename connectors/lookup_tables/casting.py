"""Texts of a table → the types of its columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import cut, format_type

_FEW = 64
"""Values that are looked at one by one; more of them are cut in two, and tried again."""
_MOST_SHOWN = 40
"""Characters of a value that are shown."""


@dataclass(frozen=True)
class Misfit:
    """A value that is none of its column's type."""

    row: int
    """Counted from 0."""
    column: str
    value: str
    type: pa.DataType

    def __str__(self) -> str:
        return f"column {self.column!r}, is {cut(self.value, _MOST_SHOWN)!r}, not {format_type(self.type)}"


@dataclass
class Casting:
    """Batches on their way to the types of their columns, and how many texts were none of them."""

    type_of: Callable[[str], pa.DataType]
    count: int = 0
    first: Misfit | None = None
    _rows: int = field(default=0, init=False)

    def batch(self, given: pa.RecordBatch) -> pa.RecordBatch:
        """The columns in their types; a text that is none is null. Raises pa.ArrowInvalid for what is no text."""
        texts = {name: _plain(column) for name, column in zip(given.schema.names, given.columns, strict=True)}
        columns = {
            name: as_type(column, self.type_of(name)) if column.type == pa.string() else column.cast(self.type_of(name))
            for name, column in texts.items()
        }
        found = [misfit for name, column in columns.items() for misfit in self._misfits(name, texts[name], column)]
        if found and self.first is None:
            self.first = min(found, key=lambda one: one.row)
        batch = pa.RecordBatch.from_pydict(columns)
        self._rows += batch.num_rows
        return batch

    def _misfits(self, name: str, texts: pa.Array, column: pa.Array) -> list[Misfit]:
        """The first of a column's, if it has any; all are counted."""
        if texts.type != pa.string() or column.null_count == texts.null_count:
            return []
        lost = pc.and_(column.is_null(), pc.not_equal(pc.fill_null(pc.utf8_trim_whitespace(texts), ""), ""))
        self.count += lost.true_count
        row = pc.index(lost, True).as_py()
        return [Misfit(self._rows + row, name, texts[row].as_py(), column.type)] if row >= 0 else []

    def said(self, where: Callable[[int], str]) -> str:
        """About all of them; ``where`` a row stands, in words."""
        many = "1 value is" if self.count == 1 else f"{self.count:,} values are"
        theirs = "its column's type and counts" if self.count == 1 else "their column's type and count"
        return f"{many} not of {theirs} as null: the first, in {where(self.first.row) if self.first else ''}, {self.first}"


def _plain(column: pa.Array) -> pa.Array:
    """Texts in whatever form as the usual one."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.cast(pa.string()) if column.type in (pa.large_string(), pa.string_view()) else column


def as_type(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """A column of texts as another type; null where a text is none of it. Fast where all or most are."""
    if type_ in (pa.string(), pa.null()):
        return texts
    trimmed = pc.utf8_trim_whitespace(texts)
    trimmed = pc.if_else(pc.equal(trimmed, ""), None, trimmed)
    try:
        return trimmed.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # which one is wrong is not said
        distinct = trimmed.dictionary_encode()
        return pa.concat_arrays(_parts(distinct.dictionary, type_)).take(distinct.indices)


def _parts(texts: pa.Array, type_: pa.DataType) -> list[pa.Array]:
    try:
        return [texts.cast(type_)]
    except pa.ArrowNotImplementedError:
        return [pa.nulls(len(texts), type_)]
    except pa.ArrowInvalid:
        if len(texts) <= _FEW:
            return [pa.array([_one(text, type_) for text in texts.to_pylist()], type_)]
        half = len(texts) // 2
        return [*_parts(texts.slice(0, half), type_), *_parts(texts.slice(half), type_)]


def _one(text: str | None, type_: pa.DataType) -> object:
    try:
        return None if text is None else pa.scalar(text).cast(type_).as_py()
    except pa.ArrowInvalid:
        return None
