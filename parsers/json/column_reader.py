"""Columns of JSON objects → columns of their declared members, by three readers.

A kernel finds texts, numbers, booleans and times (read as texts first), which are then converted a column at a time. Arrow's
reader reads arrays. Python converts the other types, each distinct value once, and reads odd rows one at a time: those that
the kernel or Arrow refuses, with an escape in a name, a name twice, or an object where none may be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import TIMESTAMP, Parsed
from etl.columns.texts import materialize_array, take_rows
from parsers.common.view_values import replace_rows
from parsers.json.arrow_reader import ArrowReader, is_columnar
from parsers.json.conversions import MisfitError, find_converter
from parsers.json.declared_members import MemberSpans, coalesce, find_members
from parsers.json.member_paths import JsonPath
from parsers.json.object_texts import trim_objects
from parsers.json.row_reader import RowLeaf, read_row
from parsers.json.tries import declared_tree
from parsers.json.undeclared_members import rest_column
from parsers.timestamp.column_reader import read_column
from parsers.timestamp.formats import TimeZoneContext, readers, unambiguous_reader

if TYPE_CHECKING:
    from parsers.timestamp.formats import Read
    from parsers.timestamp.instants import Bools

DEEP = 900
"""Brackets; a text with fewer is never too deep for Python's reader."""

_READ_AS = {
    TIMESTAMP: pa.string(),
    pa.timestamp("us"): pa.string(),
    pa.date32(): pa.string(),
    pa.float32(): pa.float64(),
}
"""Types of leaves that are read as another type first, to find the values that do not fit."""


def read_as(type_: pa.DataType) -> pa.DataType:
    """The type a leaf is read as."""
    return _READ_AS.get(type_, type_)


class Leaf(NamedTuple):
    """A declared field without members of its own."""

    name: str
    type: pa.DataType
    path: JsonPath
    named: bool
    """Whether its name is its path: then a member whose name has the dots in it counts, too."""

    @property
    def dotted(self) -> bool:
        """Whether a member whose name has the dots can give its value."""
        return self.named and len(self.path) > 1

    @property
    def paths(self) -> tuple[JsonPath, ...]:
        """Its path, and the name with dots."""
        return (self.path, (self.name,)) if self.dotted else (self.path,)

    @property
    def read_as(self) -> pa.DataType:
        """The type it is read as."""
        return read_as(self.type)


@dataclass(frozen=True)
class ColumnReader:
    """Reads the declared leaves of a column, and the rest."""

    leaves: tuple[Leaf, ...]
    rest: str | None

    def parse(self, texts: pa.StringArray) -> Parsed:
        """All columns; odd rows are read one at a time."""
        plain = texts if self._takes_views else materialize_array(texts)
        texts, odd = trim_objects(plain, bool(self._arrow_leaves))
        found = find_members(texts, self._paths, odd)
        reasons: dict[int, str] = {}
        columns = self._read_by_arrow(texts, odd, reasons) if self._arrow_leaves else {}
        columns |= {leaf.name: self._convert_member(found, leaf, reasons) for leaf in self.leaves if leaf.name not in columns}
        if odd.any():
            columns = self._read_odd_rows(columns, texts, odd, reasons)
        finished = {leaf.name: _convert_column(columns[leaf.name], leaf.type, leaf.name, reasons) for leaf in self.leaves}
        if self.rest is not None:
            finished[self.rest] = rest_column(texts, self._tree, reasons)
        return _make_parsed(finished, reasons, len(texts))

    # ── Arrow ─────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def _arrow_leaves(self) -> list[Leaf]:
        """Leaves that Arrow reads: a name may not lead into another's."""
        chosen: dict[str, Leaf] = {}
        for leaf in sorted(self.leaves, key=lambda leaf: not leaf.named):
            name = _arrow_name(leaf)
            if name is not None and not any(_clash(name, other) for other in chosen):
                chosen[name] = leaf
        return list(chosen.values())

    @cached_property
    def _arrow(self) -> ArrowReader:
        schema = pa.schema([(_arrow_name(leaf), leaf.read_as) for leaf in self._arrow_leaves])
        return ArrowReader(schema, tuple(leaf.name for leaf in self._arrow_leaves if leaf.dotted))

    def _read_by_arrow(self, texts: pa.StringArray, odd: Bools, reasons: dict[int, str]) -> dict[str, pa.Array]:
        import numpy as np

        refused = odd.copy()
        columns = self._arrow.columns(pc.if_else(odd, "{}", texts) if odd.any() else texts, refused)
        named = {leaf.name: column for leaf, column in zip(self._arrow_leaves, columns, strict=True)}
        rows = np.flatnonzero(refused & ~odd)
        return self._read_rows(named, texts, rows, self._arrow_leaves, reasons) if len(rows) else named

    # ── Spans ─────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def _paths(self) -> Mapping[JsonPath, bool]:
        """Every path once, in the order of the kernel's numbers, and whether its values become texts."""
        found: dict[JsonPath, bool] = {}
        for leaf in self.leaves:
            if leaf not in self._arrow_leaves:
                found |= {path: found.get(path, False) or leaf.read_as == pa.string() for path in leaf.paths}
        return found

    @cached_property
    def _numbers(self) -> Mapping[JsonPath, int]:
        return {path: number for number, path in enumerate(self._paths)}

    def _convert_member(self, found: MemberSpans, leaf: Leaf, reasons: dict[int, str]) -> pa.Array:
        numbers = [self._numbers[path] for path in leaf.paths]
        if len(numbers) > 1:
            numbers = [number for number in numbers if found.occurs(number)] or numbers[:1]
        if leaf.read_as == pa.string():
            return coalesce([found.texts_of(number, reasons, leaf.name) for number in numbers])
        return coalesce([found.values_of(number, leaf.read_as, reasons, leaf.name) for number in numbers])

    @cached_property
    def _takes_views(self) -> bool:
        """Whether kernels alone read the texts."""
        return not self._arrow_leaves and self.rest is None

    @cached_property
    def _tree(self) -> Any:
        return declared_tree([leaf.path for leaf in self.leaves], [leaf.name for leaf in self.leaves if leaf.dotted])

    # ── Python ────────────────────────────────────────────────────────────────────────────────────

    def _read_odd_rows(
        self, columns: dict[str, pa.Array], texts: pa.StringArray, odd: Bools, reasons: dict[int, str]
    ) -> dict[str, pa.Array]:
        import numpy as np

        return self._read_rows(columns, texts, np.flatnonzero(odd), self.leaves, reasons)

    def _read_rows(
        self, columns: dict[str, pa.Array], texts: pa.StringArray, rows: Any, leaves: Sequence[Leaf], reasons: dict[int, str]
    ) -> dict[str, pa.Array]:
        """The columns of these leaves with some rows read in Python."""
        how = [RowLeaf(leaf.name, leaf.path, find_converter(leaf.read_as), leaf.dotted) for leaf in leaves]
        values: list[list[Any]] = []
        for row, text in zip(rows.tolist(), take_rows(texts, rows).to_pylist(), strict=True):
            try:
                values.append(read_row(text, how))
            except MisfitError as error:
                alone = self._read_deep(text, leaves)
                values.append(alone if alone is not None else [None] * len(leaves))
                if alone is None:
                    reasons[row] = str(error)
        read = list(zip(*values, strict=True))
        return columns | {
            leaf.name: replace_rows(columns[leaf.name], rows, pa.array(list(column), leaf.read_as))
            for leaf, column in zip(leaves, read, strict=True)
        }

    def _read_deep(self, text: str | None, leaves: Sequence[Leaf]) -> list[Any] | None:
        """A text that is too deep for Python's reader but perhaps not for Arrow's; for the leaves that Arrow reads."""
        if text is None or leaves is not self._arrow_leaves or text.count("[") + text.count("{") < DEEP:
            return None
        batch, _ = self._arrow.read(pa.array([text]))
        return None if batch is None else [column[0].as_py() for column in batch.columns]


def _arrow_name(leaf: Leaf) -> str | None:
    """The name by which Arrow finds an array; None for a leaf that it cannot find, or would convert otherwise or more slowly."""
    if not pa.types.is_list(leaf.type) or not is_columnar(leaf.type):
        return None
    if any(isinstance(part, int) or "." in part for part in leaf.path):
        return None
    return ".".join(map(str, leaf.path))


def _clash(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")


def _make_parsed(columns: dict[str, pa.Array], reasons: Mapping[int, str], rows: int) -> Parsed:
    if not reasons:
        return Parsed(columns)
    import numpy as np

    failed = np.zeros(rows, bool)
    failed[list(reasons)] = True
    texts = np.full(rows, None, object)
    texts[list(reasons)] = list(reasons.values())
    mask = pa.array(failed)
    nulled = {name: pc.if_else(mask, None, materialize_array(column)) for name, column in columns.items()}
    return Parsed(nulled, mask, pa.array(texts, pa.string()))


# ── Last conversions ──────────────────────────────────────────────────────────────────────────────


def _convert_column(column: pa.Array, type_: pa.DataType, name: str, reasons: dict[int, str]) -> pa.Array:
    """The column as its declared type; ``reasons`` gets the rows whose value does not fit."""
    if type_ == pa.float32():
        values = column.cast(type_)
        bad = pc.is_inf(values)
    elif type_ in _READ_AS:
        values, bad = _times(column, type_)
    else:
        return column
    if bad is None:
        return values
    for row in pc.indices_nonzero(pc.fill_null(bad, False)).to_pylist():
        reasons.setdefault(row, f"field {name!r} is {str(column[row])[:60]!r}, not {_NAMES.get(type_, type_)}")
    return values


_NAMES = {TIMESTAMP: "an ISO 8601 timestamp", pa.timestamp("us"): "an ISO 8601 time", pa.date32(): "a date such as 2024-12-31"}


def _times(texts: pa.Array, type_: pa.DataType) -> tuple[pa.Array, pa.BooleanArray | None]:
    """Times, and which texts are none, or None if all are times."""
    values = read_column(texts, *_time_readers("yyyy-MM-dd" if type_ == pa.date32() else "iso8601"))
    bad = None if values.null_count == texts.null_count else pc.and_(pc.is_null(values), pc.is_valid(texts))
    return values if type_ == TIMESTAMP else values.cast(pa.timestamp("us")).cast(type_), bad


@cache
def _time_readers(format_: str) -> tuple[Read | None, list[Read]]:
    """Of the texts that only one pattern reads, and of the others: for `read_column`."""
    context = TimeZoneContext("UTC", now=0)
    return unambiguous_reader([format_], context), list(readers(format_, context))
