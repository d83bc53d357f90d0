"""Building a table file from record batches, and looking values up in a mapped table file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa

from etl.api import cut
from etl.tables import section_file
from etl.tables.column_values import ColumnCollector, PackedColumn
from etl.tables.exact_index import (
    DomainCollector,
    ExactIndex,
    KeyCollector,
    NotAnAddressError,
    PrefixIndex,
    SuffixIndex,
    bucket_bits,
)
from etl.tables.hash_kernel import runs
from etl.tables.interval_index import NetworkCollector, NetworkIndex, RangeCollector, RangeIndex
from etl.tables.pattern_index import PatternCollector, PatternIndex
from etl.tables.section_file import SectionFile

Match = Literal["exact", "cidr", "range", "prefix", "suffix", "like", "regex"]
"""How a row's key matches a value: it is equal, a network or range that contains the value, a prefix, a suffix, or a pattern."""


_KEY_ERRORS: Mapping[Match, str] = {
    "cidr": ", which is not an address or network",
    "range": ", so that it ends before it begins",
    "like": ", which is not a pattern",
    "regex": ", which is not a pattern",
}
"""Appended to a key of this kind that is not valid."""
_MAX_SHOWN = 60
"""Longest key shown in a message, in characters."""


@dataclass(frozen=True)
class Shape:
    """The key and value columns of a table file, and how keys match. A range's ``key`` names its first and last column.

    ``repr`` of this value is part of the name of a table's folder: renaming the class or a field makes runs build tables again.
    """

    key: tuple[str, ...]
    columns: pa.Schema
    match: Match = "exact"
    several: bool = False
    """Whether all rows of a key are stored, not only the first."""


@dataclass(frozen=True)
class TableCounts:
    """Counts of a table file; field names are those of ``current.json``."""

    keys: int
    rows: int
    again: int
    """Rows whose key an earlier row has."""
    missing: int
    """Rows without a valid key, which are left out."""
    first: str = field(default="", compare=False)
    """Description of the first invalid key."""
    first_row: int = field(default=-1, compare=False)
    """Its row number, counted from 0."""


class _Collector(Protocol):
    missing: int

    def add(self, columns: Sequence[pa.Array]) -> Any | None: ...
    def sections(self, several: bool) -> tuple[dict[str, Any], Any, int]: ...


class _Index(Protocol):
    def find(self, columns: Sequence[pa.Array]) -> Any: ...


_INDEXES: Mapping[Match, tuple[Callable[[], _Collector], Callable[[SectionFile], _Index]]] = {
    "exact": (KeyCollector, ExactIndex),
    "prefix": (partial(KeyCollector, "text"), PrefixIndex),
    "suffix": (partial(DomainCollector, "text"), SuffixIndex),
    "cidr": (NetworkCollector, NetworkIndex),
    "range": (RangeCollector, RangeIndex),
    "like": (partial(PatternCollector, "like"), PatternIndex),
    "regex": (partial(PatternCollector, "regex"), PatternIndex),
}


def build(path: Path, batches: Callable[[], Iterable[pa.RecordBatch]], shape: Shape) -> TableCounts:
    """Write a table file of the rows of ``batches``, which may be called twice.

    Memory: the size of the file and 40 bytes a row. Raises what ``batches`` raises; the file appears only when it is complete.
    """
    try:
        return _build(path, batches(), shape, _INDEXES[shape.match][0]())
    except NotAnAddressError:
        return _build(path, batches(), shape, KeyCollector("text"))


def _build(path: Path, batches: Iterable[pa.RecordBatch], shape: Shape, keys: _Collector) -> TableCounts:
    values = {column.name: ColumnCollector(column.type) for column in shape.columns}
    rows, first, first_row = 0, "", -1
    for batch in batches:
        present = keys.add([batch.column(name) for name in shape.key])
        if present is not None and not first:
            at = int(np.flatnonzero(~present)[0])
            first, first_row = _describe_key(batch, at, shape), rows + at
        rows += batch.num_rows
        present_rows = batch if present is None else batch.filter(pa.array(present))
        for name, gathered in values.items():
            gathered.add(present_rows.column(name))
    arrays, order, again = keys.sections(shape.several)
    stored: dict[str, pa.Array] = {}
    for name, gathered in values.items():
        numbers, dictionaries = gathered.sections(name, order)
        arrays |= numbers
        stored |= dictionaries
    count = len(order) - again if shape.several else len(order)
    form = keys.form if isinstance(keys, KeyCollector) else None
    about = {"match": shape.match, "form": form, "shift": 64 - bucket_bits(count), "columns": shape.columns.names}
    section_file.write(path, about, arrays, stored)
    return TableCounts(count, len(order), again, keys.missing, first, first_row)


def _describe_key(batch: pa.RecordBatch, row: int, shape: Shape) -> str:
    """Describe the invalid key of a row."""
    values = {name: batch.column(name)[row].as_py() for name in shape.key}
    empty = [name for name, value in values.items() if value is None or value == ""]
    if empty:
        return f"{', '.join(empty)} {'is' if len(empty) == 1 else 'are'} null"
    description = ", ".join(f"{name} is {_show(value)}" for name, value in values.items())
    return description + _KEY_ERRORS.get(shape.match, "")


def _show(value: object) -> str:
    """The value, shortened and with escapes."""
    text = cut(str(value), _MAX_SHOWN)
    return repr(text) if isinstance(value, str) else text


class MappedTable:
    """A table file mapped into memory."""

    def __init__(self, path: Path) -> None:
        self._sections = SectionFile(path)
        self._index = _INDEXES[self._sections.about["match"]][1](self._sections)
        self._rows = self._sections.numbers("rows") if "rows" in self._sections else None
        self._values = {name: PackedColumn(self._sections, name) for name in self._sections.about["columns"]}

    def find(self, columns: Sequence[pa.Array]) -> Any:
        """int64[n]: the number of each key in the table, -1 for other keys and nulls."""
        return self._index.find(columns)

    def first_rows(self, found: Any) -> Any:
        """int64[n]: the first row of each key that `find` found."""
        if self._rows is None:
            return found
        return np.where(found >= 0, self._rows[found].astype(np.int64), -1)

    def all_rows(self, found: Any) -> tuple[Any, Any]:
        """The number of rows of each key (int64[n]), and these rows, key after key."""
        if self._rows is None:
            return (found >= 0).astype(np.int64), found[found >= 0]
        counts = np.empty(len(found), np.int64)
        total = runs(found, self._rows, counts)
        begins = np.repeat(self._rows[found[found >= 0]].astype(np.int64), counts[found >= 0])
        ends = np.cumsum(counts)
        return counts, begins + np.arange(total) - np.repeat((ends - counts)[found >= 0], counts[found >= 0])

    def find_all_rows(self, columns: Sequence[pa.Array]) -> tuple[Any, Any]:
        """As `all_rows` of the keys that `find` finds; for patterns, the rows of all patterns that match."""
        if isinstance(self._index, PatternIndex):
            return self._index.find_all(columns)
        return self.all_rows(self.find(columns))

    def values(self, name: str, rows: Any) -> pa.Array:
        """A column's values in rows (int64[n]); null where a row is below 0."""
        return self._values[name].at(rows)
