"""Columns of JSON objects → columns of their declared members."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import TIMESTAMP, Parsed, Schema, nested_schema
from parsers.json_rest import rest_of, tree_of
from parsers.json_rows import MisfitError, converter, read_row
from parsers.time_columns import read_texts
from parsers.time_formats import Place, readers

if TYPE_CHECKING:
    from parsers.instants import Bools

PIECE_ROWS = 2048
"""A column that the columnar reader refuses is cut into pieces of this many rows."""

MISSES = 16
"""Refusals in a piece before what is left of it is read one row at a time, which is then faster."""

SPACE = "\ufeff \t\r\n"
"""Around an object; a byte order mark stands at the beginning of some files."""

_ROW = re.compile(r"in row (\d+)$")

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


def is_columnar(type_: pa.DataType) -> bool:
    """Whether the columnar reader reads this type as we mean it."""
    if pa.types.is_list(type_):
        return is_columnar(type_.value_type)
    if pa.types.is_struct(type_):
        return all(is_columnar(member.type) for member in type_)
    return type_ in _COLUMNAR


_COLUMNAR = {pa.string(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float64()}


# ── Reading ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Reader:
    """Declared leaves, compiled."""

    leaves: tuple[tuple[str, pa.DataType], ...]
    rest: str | None

    @cached_property
    def schema(self) -> Schema:
        """What is read: flat, before the last conversions."""
        return pa.schema([(name, read_as(type_)) for name, type_ in self.leaves])

    @cached_property
    def dotted(self) -> list[pa.Field]:
        """Leaves that may also be members with dots in their names."""
        return [field for field in self.schema if "." in field.name]

    @cached_property
    def wanted(self) -> pa.Schema:
        """What the columnar reader is to find."""
        return pa.schema([*nested_schema(self.schema), *self.dotted])

    def parse(self, texts: pa.StringArray) -> Parsed:
        """Columnar where possible; the rows that this refuses one at a time."""
        texts, odd = _shaped(texts.cast(pa.string()))
        batch = self._columnar(pc.if_else(odd, "{}", texts) if odd.any() else texts, odd)
        reasons: dict[int, str] = {}
        if odd.any():
            batch = self._overlaid(batch, texts, odd, reasons)
        columns = {name: _finished(batch.column(k), type_, name, reasons) for k, (name, type_) in enumerate(self.leaves)}
        if self.rest is not None:
            columns[self.rest] = self._rest(texts, reasons)
        return _parsed(columns, reasons, len(texts))

    def _columnar(self, texts: pa.StringArray, odd: Bools) -> pa.RecordBatch:
        if not all(is_columnar(type_) for type_ in self.schema.types):
            odd[:] = True
            return self._nulls(len(texts))
        pieces = pa.Table.from_batches(self._pieces(texts, odd), self.schema)
        return pieces.combine_chunks().to_batches()[0] if len(texts) else self._nulls(0)

    def _pieces(self, texts: pa.StringArray, odd: Bools) -> Iterator[pa.RecordBatch]:
        """The whole in one go, or else piece by piece; rows that are refused are marked odd and left null."""
        batch, _ = self._read(texts)
        if batch is not None:
            yield batch
            return
        for start in range(0, len(texts), PIECE_ROWS):
            yield from self._isolated(texts.slice(start, PIECE_ROWS), odd[start : start + PIECE_ROWS])

    def _isolated(self, texts: pa.StringArray, odd: Bools) -> Iterator[pa.RecordBatch]:
        """Cut around the row the columnar reader complains about, or in the middle where it names none."""
        todo = [(0, len(texts))]
        misses = 0
        while todo:
            start, end = todo.pop()
            batch, row = self._read(texts.slice(start, end - start)) if end - start > 1 and misses < MISSES else (None, None)
            if batch is not None:
                yield batch
            elif end - start <= 1 or misses >= MISSES:
                odd[start:end] = True
                yield self._nulls(end - start)
            else:
                misses += 1
                at = (start + end) // 2 if row is None else start + min(row, end - start - 1)
                todo += [(at, end), (start, at)] if row is None else [(at + 1, end), (at, at + 1), (start, at)]

    def _read(self, texts: pa.StringArray) -> tuple[pa.RecordBatch | None, int | None]:
        """One object a text → flat batch; or None when a text is refused, and which, where the reader says so.

        Every text begins with ``{`` and ends with ``}``, none holds NUL. No text can then run into the next (behind
        a brace that closes a member, a brace that opens is an error), so each gives at least one object: as many
        objects as texts means one each.
        """
        from pyarrow import json as columnar

        data = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts), "\n")[0].as_buffer()
        options = columnar.ParseOptions(explicit_schema=self.wanted, unexpected_field_behavior="ignore")
        blocks = columnar.ReadOptions(use_threads=False, block_size=max(1, data.size + 1))
        try:
            table = columnar.read_json(pa.BufferReader(data), read_options=blocks, parse_options=options)
        except pa.ArrowInvalid as error:
            named = _ROW.search(str(error))
            return None, int(named[1]) if named else None
        return (self._flat(table) if table.num_rows == len(texts) else None), None

    def _flat(self, table: pa.Table) -> pa.RecordBatch:
        columns = {field.name: table.column(place) for place, field in enumerate(self.wanted)}
        arrays = []
        for name in self.schema.names:
            top, *path = name.split(".")
            values = columns[top].combine_chunks()
            for part in path:
                values = values.flatten()[values.type.get_field_index(part)]
            if path and (dotted := columns[name].combine_chunks()).null_count < len(dotted):
                values = pc.coalesce(values, dotted)
            arrays.append(values)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _nulls(self, rows: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pa.nulls(rows, type_) for type_ in self.schema.types], schema=self.schema)

    def _overlaid(self, batch: pa.RecordBatch, texts: pa.StringArray, odd: Bools, reasons: dict[int, str]) -> pa.RecordBatch:
        """The batch with its odd rows read one at a time."""
        import numpy as np

        rows = np.flatnonzero(odd)
        single = self._one_by_one(texts.take(pa.array(rows)), rows.tolist(), reasons)
        place = np.arange(len(texts))
        place[rows] = len(texts) + np.arange(len(rows))
        both = pa.Table.from_batches([batch, single]).combine_chunks()
        return both.take(pa.array(place)).combine_chunks().to_batches()[0]

    def _one_by_one(self, texts: pa.StringArray, rows: list[int], reasons: dict[int, str]) -> pa.RecordBatch:
        leaves = [(field.name, field.name.split("."), converter(field.type)) for field in self.schema]
        values: list[list[Any]] = []
        for row, text in zip(rows, texts.to_pylist(), strict=True):
            try:
                values.append(read_row(text, leaves))
            except MisfitError as error:
                alone = self._read_deep(text)
                values.append(alone if alone is not None else [None] * len(leaves))
                if alone is None:
                    reasons[row] = str(error)
        columns = zip(*values, strict=True)
        return pa.RecordBatch.from_arrays(
            [pa.array(list(column), field.type) for column, field in zip(columns, self.schema, strict=True)], schema=self.schema
        )

    def _read_deep(self, text: str | None) -> list[Any] | None:
        """A text that Python's reader finds too deep and the columnar one need not."""
        if text is None or text.count("[") + text.count("{") < DEEP:
            return None
        texts, odd = _shaped(pa.array([text]))
        batch = None if odd.any() else self._read(texts)[0]
        return None if batch is None else [column[0].as_py() for column in batch.columns]

    def _rest(self, texts: pa.StringArray, reasons: dict[int, str]) -> pa.StringArray:
        tree = tree_of(name for name, _ in self.leaves)
        rest = []
        for row, text in enumerate(texts.to_pylist()):
            try:
                rest.append(None if row in reasons else rest_of(text, tree))
            except RecursionError:
                rest.append(None)
                reasons[row] = "is nested too deeply"
        return pa.array(rest, pa.string())


def _parsed(columns: dict[str, pa.Array], reasons: Mapping[int, str], rows: int) -> Parsed:
    if not reasons:
        return Parsed(columns)
    import numpy as np

    failed = np.zeros(rows, bool)
    failed[list(reasons)] = True
    texts = np.full(rows, None, object)
    texts[list(reasons)] = list(reasons.values())
    mask = pa.array(failed)
    nulled = {name: pc.if_else(mask, None, column) for name, column in columns.items()}
    return Parsed(nulled, mask, pa.array(texts, pa.string()))


# ── Shape ─────────────────────────────────────────────────────────────────────────────────────────

_SUSPECT = {b"\0": r"\x00", b"NaN": r"[:\[,]\s*-?NaN", b"Inf": r"[:\[,]\s*-?Inf"}
"""What the columnar reader takes for the end or for a number: bytes worth a search, and the expression that finds them."""


def _shape(texts: pa.StringArray) -> Any:
    good = pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))
    return pc.fill_null(good, False).to_numpy(zero_copy_only=False)


def _shaped(texts: pa.StringArray) -> tuple[pa.StringArray, Bools]:
    """Texts without what may stand around an object, and which the columnar reader must not see."""
    odd = ~_shape(texts)
    if odd.any():
        texts = pc.utf8_trim(texts, SPACE)
        odd = ~_shape(texts)
    characters = _characters(texts) if len(texts) else b""
    for mark, pattern in _SUSPECT.items():
        if mark in characters:
            odd |= pc.fill_null(pc.match_substring_regex(texts, pattern), False).to_numpy(zero_copy_only=False)
    return texts, odd


def _characters(texts: pa.StringArray) -> bytes:
    """The characters of all texts."""
    import numpy as np

    ends = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1, texts.offset * 4)
    return texts.buffers()[2].slice(int(ends[0]), int(ends[-1] - ends[0])).to_pybytes()


# ── Last conversions ──────────────────────────────────────────────────────────────────────────────


def _finished(column: pa.Array, type_: pa.DataType, name: str, reasons: dict[int, str]) -> pa.Array:
    """The column as its declared type; values that do not fit are noted."""
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
    values = read_texts(texts, list(readers(format_, Place("UTC", now=0))))
    bad = pc.and_(pc.is_null(values), pc.is_valid(texts))
    return values if type_ == TIMESTAMP else values.cast(pa.timestamp("us")).cast(type_), bad
