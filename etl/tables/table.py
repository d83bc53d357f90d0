"""Record batches → a table file, and a mapped table file → values by key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa

from etl.api import cut
from etl.tables import sections
from etl.tables.exact import Beginnings, Endings, Exact, GatheredDomains, GatheredKeys, NoAddressError, bucket_bits
from etl.tables.hash_kernel import runs
from etl.tables.intervals import GatheredNetworks, GatheredRanges, Networks, Ranges
from etl.tables.patterns import GatheredPatterns, Patterns
from etl.tables.sections import Sections
from etl.tables.values import Gathered, Packed

Match = Literal["exact", "cidr", "range", "prefix", "suffix", "like", "regex"]
"""When a row belongs to a value: its key is the value, a network or a range around it, what it begins or ends with, or a
pattern that it fits."""


_WANTED: Mapping[Match, str] = {
    "cidr": ", which is no address or network",
    "range": ", so that it ends before it begins",
    "like": ", which is no pattern",
    "regex": ", which is no pattern",
}
"""What is wrong with a key that cannot be read."""
_MOST_SHOWN = 60
"""Characters of a key that are shown."""


@dataclass(frozen=True)
class Shape:
    """What is kept of a table, and how it is asked. ``key`` are the columns of the key: of a range the first and last value."""

    key: tuple[str, ...]
    columns: pa.Schema
    match: Match = "exact"
    several: bool = False
    """Whether all rows of a key are kept, not only the first."""


@dataclass(frozen=True)
class Built:
    """What went into a table file."""

    keys: int
    rows: int
    again: int
    """Rows whose key another row in front of them has."""
    missing: int
    """Rows without a key, or with one that cannot be read, left out."""
    first: str = field(default="", compare=False)
    """The key of the first of those, in words."""
    first_row: int = field(default=-1, compare=False)
    """And its number, counted from 0."""


class _Gathering(Protocol):
    missing: int

    def add(self, columns: Sequence[pa.Array]) -> Any | None: ...
    def sections(self, several: bool) -> tuple[dict[str, Any], Any, int]: ...


class _Index(Protocol):
    def find(self, columns: Sequence[pa.Array]) -> Any: ...


_KINDS: Mapping[Match, tuple[Callable[[], _Gathering], Callable[[Sections], _Index]]] = {
    "exact": (GatheredKeys, Exact),
    "prefix": (partial(GatheredKeys, "text"), Beginnings),
    "suffix": (partial(GatheredDomains, "text"), Endings),
    "cidr": (GatheredNetworks, Networks),
    "range": (GatheredRanges, Ranges),
    "like": (partial(GatheredPatterns, "like"), Patterns),
    "regex": (partial(GatheredPatterns, "regex"), Patterns),
}


def build(path: Path, batches: Callable[[], Iterable[pa.RecordBatch]], shape: Shape) -> Built:
    """Write a table of the rows of ``batches``, which may be asked twice.

    Memory: what the file will take, and 40 bytes a row. Raises what ``batches`` raises; the file is there only at the end.
    """
    try:
        return _build(path, batches(), shape, _KINDS[shape.match][0]())
    except NoAddressError:
        return _build(path, batches(), shape, GatheredKeys("text"))


def _build(path: Path, batches: Iterable[pa.RecordBatch], shape: Shape, keys: _Gathering) -> Built:
    values = {column.name: Gathered(column.type) for column in shape.columns}
    rows, first, first_row = 0, "", -1
    for batch in batches:
        present = keys.add([batch.column(name) for name in shape.key])
        if present is not None and not first:
            at = int(np.flatnonzero(~present)[0])
            first, first_row = _key(batch, at, shape), rows + at
        rows += batch.num_rows
        kept = batch if present is None else batch.filter(pa.array(present))
        for name, gathered in values.items():
            gathered.add(kept.column(name))
    arrays, order, again = keys.sections(shape.several)
    stored: dict[str, pa.Array] = {}
    for name, gathered in values.items():
        numbers, dictionaries = gathered.sections(name, order)
        arrays |= numbers
        stored |= dictionaries
    count = len(order) - again if shape.several else len(order)
    form = keys.form if isinstance(keys, GatheredKeys) else None
    about = {"match": shape.match, "form": form, "shift": 64 - bucket_bits(count), "columns": shape.columns.names}
    sections.write(path, about, arrays, stored)
    return Built(count, len(order), again, keys.missing, first, first_row)


def _key(batch: pa.RecordBatch, row: int, shape: Shape) -> str:
    """The key of a row that was left out, in words."""
    values = {name: batch.column(name)[row].as_py() for name in shape.key}
    empty = [name for name, value in values.items() if value is None or value == ""]
    if empty:
        return f"{', '.join(empty)} {'is' if len(empty) == 1 else 'are'} null"
    said = ", ".join(f"{name} is {_shown(value)}" for name, value in values.items())
    return said + _WANTED.get(shape.match, "")


def _shown(value: object) -> str:
    """Cut, with what is no letter as an escape."""
    text = cut(str(value), _MOST_SHOWN)
    return repr(text) if isinstance(value, str) else text


class MappedTable:
    """A mapped table."""

    def __init__(self, path: Path) -> None:
        self._sections = Sections(path)
        self._index = _KINDS[self._sections.about["match"]][1](self._sections)
        self._rows = self._sections.numbers("rows") if "rows" in self._sections else None
        self._values = {name: Packed(self._sections, name) for name in self._sections.about["columns"]}

    def find(self, columns: Sequence[pa.Array]) -> Any:
        """int64[n]: the number of each key, -1 where the table has none; null keys are in no table."""
        return self._index.find(columns)

    def first(self, found: Any) -> Any:
        """int64[n]: the first row of each key that `find` found."""
        if self._rows is None:
            return found
        return np.where(found >= 0, self._rows[found].astype(np.int64), -1)

    def all(self, found: Any) -> tuple[Any, Any]:
        """How many rows each key has (int64[n]), and all of those rows, one key's behind the other's."""
        if self._rows is None:
            return (found >= 0).astype(np.int64), found[found >= 0]
        counts = np.empty(len(found), np.int64)
        total = runs(found, self._rows, counts)
        begins = np.repeat(self._rows[found[found >= 0]].astype(np.int64), counts[found >= 0])
        ends = np.cumsum(counts)
        return counts, begins + np.arange(total) - np.repeat((ends - counts)[found >= 0], counts[found >= 0])

    def every(self, columns: Sequence[pa.Array]) -> tuple[Any, Any]:
        """As `all` of what `find` finds; of patterns, the rows of all that a value fits."""
        if isinstance(self._index, Patterns):
            return self._index.every(columns)
        return self.all(self.find(columns))

    def values(self, name: str, rows: Any) -> pa.Array:
        """A column's values in rows (int64[n]); null where a row is below 0."""
        return self._values[name].at(rows)
