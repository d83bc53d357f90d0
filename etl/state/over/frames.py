"""Rows of keys in the order of time, and for each row those that count for its running values."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.state.aggregates.accumulator import Numbers
from etl.state.aggregates.group_keys import canonical
from etl.state.aggregates.lists import order_keys
from etl.state.over.kernels import add_floats, count_distinct, find_previous, find_smallest, find_starts

_NO_BOUND = np.int64(1 << 62)

_WORD, _WORD_MASK = 32, 0xFFFFFFFF


@dataclass(frozen=True)
class Frames:
    """Rows by key and time. The frame of a row is what counts for it: the rows of its key from `starts` to itself."""

    begins: Numbers
    """int64[keys + 1]: where the rows of each key begin."""

    starts: Numbers
    """int64[rows]"""

    @classmethod
    def of(cls, begins: Numbers, times: Numbers, within: int | None, rows: int | None) -> Frames:
        """Frames of the rows less than ``within`` microseconds earlier, and among the last ``rows``."""
        starts = np.empty(len(times), np.int64)
        find_starts(begins, times, np.int64(within or _NO_BOUND), np.int64(rows or _NO_BOUND), starts)
        return cls(begins, starts)

    @cached_property
    def rows(self) -> Numbers:
        """int64[rows]: row numbers."""
        return np.arange(len(self.starts))

    def sum(self, column: pa.Array) -> pa.Array:
        """The sums of values (int64, double or decimal), null where none is valid."""
        valid = _valid(column)
        missing = self._differences(valid) == 0 if column.null_count else None
        if pa.types.is_decimal(column.type):
            return self._decimal_sums(column, missing)
        numbers = (column.fill_null(0) if column.null_count else column).to_numpy()
        if not pa.types.is_floating(column.type):
            return pa.array(self._differences(numbers), mask=missing)
        sums, suffixes = np.empty((2, len(numbers)))
        add_floats(self.begins, self.starts, numbers, valid, suffixes, sums)
        return pa.array(sums, mask=missing)

    def _differences(self, numbers: Numbers) -> Numbers:
        """int64[rows]: sums of whole numbers; where those of all rows overflow, their differences are right nevertheless."""
        until = np.concatenate(([0], np.cumsum(numbers, dtype=np.int64)))
        differences: Numbers = until[1:] - until[self.starts]
        return differences

    def _decimal_sums(self, column: pa.Array, missing: Numbers | None) -> pa.Array:
        """The sums of decimals, of words of 32 bits each: exact where the type holds them, whatever those of all rows are."""
        filled = column.fill_null(Decimal(0)) if column.null_count else column
        words = column.type.byte_width // 4
        numbers = np.frombuffer(filled.buffers()[1], np.uint32).reshape(-1, words)[filled.offset : filled.offset + len(filled)]
        sums, carry = np.empty((len(column), words), np.uint32), np.zeros(len(column), np.int64)
        for word in range(words):
            total = self._differences(numbers[:, word]) + carry
            sums[:, word], carry = total & _WORD_MASK, total >> _WORD
        found = pa.Array.from_buffers(column.type, len(column), [None, pa.py_buffer(sums)])
        return found if missing is None else pc.if_else(pa.array(missing), pa.scalar(None, column.type), found)

    def smallest(self, column: pa.Array, greatest: bool = False) -> pa.Array:
        """The smallest or greatest values, null where none is valid."""
        keys, rows = order_keys(column), np.empty(len(column), np.int64)
        find_smallest(self.begins, self.starts, ~keys if greatest else keys, _valid(column), np.empty_like(rows), rows)
        return self.take(column, rows)

    def first(self, column: pa.Array) -> pa.Array:
        """The first values that are not null."""
        present = np.append(np.flatnonzero(_valid(column)), len(column))
        found = present[np.searchsorted(present, self.starts)]
        return self.take(column, np.where(found <= self.rows, found, -1))

    def last(self, column: pa.Array) -> pa.Array:
        """The last values that are not null."""
        rows = np.where(_valid(column), self.rows, -1)
        found = np.maximum.accumulate(rows) if len(rows) else rows
        return self.take(column, np.where(found >= self.starts, found, -1))

    def before(self, column: pa.Array, distance: int) -> pa.Array:
        """The values a number of rows before; null where that row does not count."""
        found = self.rows - distance
        return self.take(column, np.where(found >= self.starts, found, -1))

    def distinct(self, column: pa.Array) -> Numbers:
        """int64[rows]: the numbers of distinct values."""
        codes, number = self._codes(column)
        counts, distinct = np.zeros(number, np.int64), np.empty(len(codes), np.int64)
        count_distinct(self.begins, self.starts, codes, counts, distinct)
        return distinct

    def is_new(self, column: pa.Array) -> Numbers:
        """bool[rows]: which values do not occur before in their frame; null is not new."""
        codes, number = self._codes(column)
        last, previous = np.full(number, -1), np.empty(len(codes), np.int64)
        find_previous(self.begins, codes, last, previous)
        return (previous < self.starts) & (codes >= 0)

    def _codes(self, column: pa.Array) -> tuple[Numbers, int]:
        """int64[rows]: a number for each distinct value, -1 for null; and how many there are."""
        encoded = canonical(column).dictionary_encode()
        codes: Numbers = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return codes, len(encoded.dictionary)

    @staticmethod
    def take(column: pa.Array, rows: Numbers) -> pa.Array:
        """The values of these rows, null for -1."""
        return column.take(pa.array(rows, mask=rows < 0))


def _valid(column: pa.Array) -> Numbers:
    """bool[rows]"""
    valid: Numbers = column.is_valid().to_numpy(zero_copy_only=False)
    return valid
