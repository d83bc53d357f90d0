"""Columns of JSON objects → columns of their declared members.

Texts, numbers, truth values and times (which are texts first) are found by a kernel and converted a column at once; arrays
are read by Arrow's reader; whatever is left is converted in Python, each distinct value once. What is no JSON is found by
a kernel too, or by Arrow where it reads. Rows in which a kernel finds something odd (an escape in a name, a name twice, an
object where none should be) and rows that are refused are read by Python, one at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import TIMESTAMP, Parsed
from etl.columns.texts import owned_array, taken
from parsers.json.arrow import ArrowReader, is_columnar
from parsers.json.convert import MisfitError, converter
from parsers.json.paths import JsonPath
from parsers.json.rest import rest_column, tree_of
from parsers.json.rows import RowLeaf, read_row
from parsers.json.shape import shaped
from parsers.json.spans import Spans, overlaid, present, spans
from parsers.timestamp.columns import read_texts
from parsers.timestamp.formats import TimeZoneContext, readers

if TYPE_CHECKING:
    from parsers.timestamp.instants import Bools

DEEP = 900
"""Brackets from which a text may be too deep for Python's reader."""

_READ_AS = {
    TIMESTAMP: pa.string(),
    pa.timestamp("us"): pa.string(),
    pa.date32(): pa.string(),
    pa.float32(): pa.float64(),
}
"""Leaves that are read as another type first, so that a value that does not fit is found."""


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
        """Whether such a member can be."""
        return self.named and len(self.path) > 1

    @property
    def ways(self) -> tuple[JsonPath, ...]:
        """Its path, and the name with dots."""
        return (self.path, (self.name,)) if self.dotted else (self.path,)

    @property
    def read_as(self) -> pa.DataType:
        """The type it is read as."""
        return read_as(self.type)


@dataclass(frozen=True)
class Reader:
    """Declared leaves, compiled."""

    leaves: tuple[Leaf, ...]
    rest: str | None

    def parse(self, texts: pa.StringArray) -> Parsed:
        """Columnar where possible; rows that are odd or refused one at a time."""
        plain = texts if self._takes_views else owned_array(texts)
        texts, odd = shaped(plain, bool(self._arrow_leaves))
        found = spans(texts, self._paths, odd)
        reasons: dict[int, str] = {}
        columns = self._by_arrow(texts, odd, reasons) if self._arrow_leaves else {}
        columns |= {leaf.name: self._by_span(found, leaf, reasons) for leaf in self.leaves if leaf.name not in columns}
        if odd.any():
            columns = self._overlaid(columns, texts, odd, reasons)
        finished = {leaf.name: _finished(columns[leaf.name], leaf.type, leaf.name, reasons) for leaf in self.leaves}
        if self.rest is not None:
            finished[self.rest] = rest_column(texts, self._tree, reasons)
        return _parsed(finished, reasons, len(texts))

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

    def _by_arrow(self, texts: pa.StringArray, odd: Bools, reasons: dict[int, str]) -> dict[str, pa.Array]:
        import numpy as np

        refused = odd.copy()
        columns = self._arrow.columns(pc.if_else(odd, "{}", texts) if odd.any() else texts, refused)
        named = {leaf.name: column for leaf, column in zip(self._arrow_leaves, columns, strict=True)}
        rows = np.flatnonzero(refused & ~odd)
        return self._one_by_one(named, texts, rows, self._arrow_leaves, reasons) if len(rows) else named

    # ── Spans ─────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def _paths(self) -> Mapping[JsonPath, bool]:
        """Every path once, in the order of the numbers that the kernel gives, and whether a text is made of its values."""
        found: dict[JsonPath, bool] = {}
        for leaf in self.leaves:
            if leaf not in self._arrow_leaves:
                found |= {path: found.get(path, False) or leaf.read_as == pa.string() for path in leaf.ways}
        return found

    @cached_property
    def _numbers(self) -> Mapping[JsonPath, int]:
        return {path: number for number, path in enumerate(self._paths)}

    def _by_span(self, found: Spans, leaf: Leaf, reasons: dict[int, str]) -> pa.Array:
        numbers = [self._numbers[path] for path in leaf.ways]
        if leaf.read_as == pa.string():
            return present([found.texts_of(number, reasons, leaf.name) for number in numbers])
        return present([found.values_of(number, leaf.read_as, reasons, leaf.name) for number in numbers])

    @cached_property
    def _takes_views(self) -> bool:
        """Whether nothing but our kernels reads the texts."""
        return not self._arrow_leaves and self.rest is None

    @cached_property
    def _tree(self) -> Any:
        return tree_of([leaf.path for leaf in self.leaves], [leaf.name for leaf in self.leaves if leaf.dotted])

    # ── Python ────────────────────────────────────────────────────────────────────────────────────

    def _overlaid(
        self, columns: dict[str, pa.Array], texts: pa.StringArray, odd: Bools, reasons: dict[int, str]
    ) -> dict[str, pa.Array]:
        import numpy as np

        return self._one_by_one(columns, texts, np.flatnonzero(odd), self.leaves, reasons)

    def _one_by_one(
        self, columns: dict[str, pa.Array], texts: pa.StringArray, rows: Any, leaves: Sequence[Leaf], reasons: dict[int, str]
    ) -> dict[str, pa.Array]:
        """The columns of these leaves with some rows read in Python."""
        how = [RowLeaf(leaf.name, leaf.path, converter(leaf.read_as), leaf.dotted) for leaf in leaves]
        values: list[list[Any]] = []
        for row, text in zip(rows.tolist(), taken(texts, rows).to_pylist(), strict=True):
            try:
                values.append(read_row(text, how))
            except MisfitError as error:
                alone = self._read_deep(text, leaves)
                values.append(alone if alone is not None else [None] * len(leaves))
                if alone is None:
                    reasons[row] = str(error)
        read = list(zip(*values, strict=True))
        return columns | {
            leaf.name: overlaid(columns[leaf.name], rows, pa.array(list(column), leaf.read_as))
            for leaf, column in zip(leaves, read, strict=True)
        }

    def _read_deep(self, text: str | None, leaves: Sequence[Leaf]) -> list[Any] | None:
        """A text that Python's reader finds too deep and Arrow's need not; for the leaves that Arrow reads."""
        if text is None or leaves is not self._arrow_leaves or text.count("[") + text.count("{") < DEEP:
            return None
        batch, _ = self._arrow.read(pa.array([text]))
        return None if batch is None else [column[0].as_py() for column in batch.columns]


def _arrow_name(leaf: Leaf) -> str | None:
    """The name by which Arrow finds an array; None for what it cannot find, would not read as we mean, or only slower."""
    if not pa.types.is_list(leaf.type) or not is_columnar(leaf.type):
        return None
    if any(isinstance(part, int) or "." in part for part in leaf.path):
        return None
    return ".".join(map(str, leaf.path))


def _clash(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")


def _parsed(columns: dict[str, pa.Array], reasons: Mapping[int, str], rows: int) -> Parsed:
    if not reasons:
        return Parsed(columns)
    import numpy as np

    failed = np.zeros(rows, bool)
    failed[list(reasons)] = True
    texts = np.full(rows, None, object)
    texts[list(reasons)] = list(reasons.values())
    mask = pa.array(failed)
    nulled = {name: pc.if_else(mask, None, owned_array(column)) for name, column in columns.items()}
    return Parsed(nulled, mask, pa.array(texts, pa.string()))


# ── Last conversions ──────────────────────────────────────────────────────────────────────────────


def _finished(column: pa.Array, type_: pa.DataType, name: str, reasons: dict[int, str]) -> pa.Array:
    """The column as its declared type; values that do not fit are noted."""
    if type_ in _READ_AS and column.type == pa.string_view():
        column = owned_array(column)
    if type_ == pa.float32():
        values = column.cast(type_)
        bad = pc.is_inf(values)
    elif type_ in _READ_AS:
        values, bad = _times(column, type_)
    else:
        return column
    for row in pc.indices_nonzero(pc.fill_null(bad, False)).to_pylist():
        reasons.setdefault(row, f"field {name!r} is {str(column[row])[:60]!r}, not {_NAMES.get(type_, type_)}")
    return values


_NAMES = {TIMESTAMP: "an ISO 8601 timestamp", pa.timestamp("us"): "an ISO 8601 time", pa.date32(): "a date such as 2024-12-31"}


def _times(texts: pa.StringArray, type_: pa.DataType) -> tuple[pa.Array, pa.BooleanArray]:
    format_ = "yyyy-MM-dd" if type_ == pa.date32() else "iso8601"
    values = read_texts(texts, list(readers(format_, TimeZoneContext("UTC", now=0))))
    bad = pc.and_(pc.is_null(values), pc.is_valid(texts))
    return values if type_ == TIMESTAMP else values.cast(pa.timestamp("us")).cast(type_), bad
