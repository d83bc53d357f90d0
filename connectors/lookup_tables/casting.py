"""Casts the texts of a table to the types of its columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import cut, format_type

_MAX_SINGLE_VALUES = 64
"""Up to this number, values are cast one by one; more are halved and tried again."""
_MAX_SHOWN_CHARS = 40
"""Characters of a value shown in a message."""


@dataclass(frozen=True)
class UnreadableValue:
    """A value that does not fit its column's type."""

    row: int
    """Counted from 0."""
    column: str
    value: str
    type: pa.DataType

    def __str__(self) -> str:
        return f"column {self.column!r}, is {cut(self.value, _MAX_SHOWN_CHARS)!r}, not {format_type(self.type)}"


@dataclass
class ColumnCaster:
    """Casts batches to the types of their columns, and counts the texts that do not fit."""

    type_of: Callable[[str], pa.DataType]
    count: int = 0
    first: UnreadableValue | None = None
    _rows: int = field(default=0, init=False)

    def cast_batch(self, given: pa.RecordBatch) -> pa.RecordBatch:
        """Cast the columns; a text that does not fit becomes null. Raises pa.ArrowInvalid for a value that is not text."""
        texts = {name: _to_plain_strings(column) for name, column in zip(given.schema.names, given.columns, strict=True)}
        columns = {
            name: cast_texts(column, self.type_of(name)) if column.type == pa.string() else column.cast(self.type_of(name))
            for name, column in texts.items()
        }
        found = [value for name, column in columns.items() for value in self._find_unreadable(name, texts[name], column)]
        if found and self.first is None:
            self.first = min(found, key=lambda one: one.row)
        batch = pa.RecordBatch.from_pydict(columns)
        self._rows += batch.num_rows
        return batch

    def _find_unreadable(self, name: str, texts: pa.Array, column: pa.Array) -> list[UnreadableValue]:
        """Return the first unreadable value of a column, if there is one; all are counted."""
        if texts.type != pa.string() or column.null_count == texts.null_count:
            return []
        lost = pc.and_(column.is_null(), pc.not_equal(pc.fill_null(pc.utf8_trim_whitespace(texts), ""), ""))
        self.count += lost.true_count
        row = pc.index(lost, True).as_py()
        return [UnreadableValue(self._rows + row, name, texts[row].as_py(), column.type)] if row >= 0 else []

    def describe(self, where: Callable[[int], str]) -> str:
        """Return a message about all of them; ``where`` describes the position of a row."""
        many = "1 value is" if self.count == 1 else f"{self.count:,} values are"
        theirs = "its column's type and counts" if self.count == 1 else "their column's type and count"
        return f"{many} not of {theirs} as null: the first, in {where(self.first.row) if self.first else ''}, {self.first}"


def _to_plain_strings(column: pa.Array) -> pa.Array:
    """Convert other string types to string."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.cast(pa.string()) if column.type in (pa.large_string(), pa.string_view()) else column


def cast_texts(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Cast a column of texts to a type; null where a text does not fit. Fast if all or most fit."""
    if type_ in (pa.string(), pa.null()):
        return texts
    trimmed = pc.utf8_trim_whitespace(texts)
    trimmed = pc.if_else(pc.equal(trimmed, ""), None, trimmed)
    try:
        return trimmed.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # the error does not name the value
        distinct = trimmed.dictionary_encode()
        return pa.concat_arrays(_cast_in_parts(distinct.dictionary, type_)).take(distinct.indices)


def _cast_in_parts(texts: pa.Array, type_: pa.DataType) -> list[pa.Array]:
    try:
        return [texts.cast(type_)]
    except pa.ArrowNotImplementedError:
        return [pa.nulls(len(texts), type_)]
    except pa.ArrowInvalid:
        if len(texts) <= _MAX_SINGLE_VALUES:
            return [pa.array([_cast_value(text, type_) for text in texts.to_pylist()], type_)]
        half = len(texts) // 2
        return [*_cast_in_parts(texts.slice(0, half), type_), *_cast_in_parts(texts.slice(half), type_)]


def _cast_value(text: str | None, type_: pa.DataType) -> object:
    try:
        return None if text is None else pa.scalar(text).cast(type_).as_py()
    except pa.ArrowInvalid:
        return None
