"""The best rows of each key by a value, and their ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa

from etl.state.aggregates.accumulator import Numbers
from etl.state.aggregates.group_keys import canonical
from etl.state.aggregates.lists import order_keys
from etl.state.key_hash import HASH, HASH2, sort_by_hash
from etl.state.keyed.decisions import TIME
from etl.state.keyed.event_rows import hashes_of, numbers
from etl.state.keyed.waiting_events import ORDER

Ties: TypeAlias = Literal["row_number", "rank", "dense_rank"]

VALUE = "\0value"
"""Column: what rows are ranked by."""


@dataclass(frozen=True)
class Ranking:
    """How the rows of a key are ranked."""

    limit: int
    ties: Ties
    ascending: bool
    """Whether the smallest value is the best one."""
    distinct: tuple[str, ...]
    """Fields of which each combination of values counts once, with its best row."""
    nulls: bool = False
    """Whether rows are ranked whose value is null, which is the smallest one; others are left out."""
    then: tuple[bool, ...] = ()
    """Of further values, for rows with equal ones, whether the smallest is the best: columns `further_value`."""

    @property
    def columns(self) -> list[str]:
        """The columns by which rows are ranked."""
        return list(dict.fromkeys([HASH, HASH2, TIME, ORDER, *self.value_columns]))

    @property
    def value_columns(self) -> list[str]:
        """The columns by which rows of a key are ranked that do not have the same value."""
        further = (further_value(at) for at in range(len(self.then)))
        return list(dict.fromkeys([VALUE, *further, *self.distinct]))

    def best(self, rows: pa.Table) -> tuple[Numbers, Numbers]:
        """The numbers of the best rows by key and rank, and their ranks, which begin with 1 (int64 each)."""
        values = self._all_value_keys(rows)
        times = numbers(rows, TIME)
        by_time = (times,) if len(times) and times.min() != times.max() else ()
        by_value = (numbers(rows, ORDER), *by_time, *values[::-1])
        keys = tuple(hashes_of(rows)[::-1])
        return self._best(sort_by_hash(keys[-1], *by_value, *keys[:-1]), keys, values, rows)

    def best_of_keys(self, keys: Numbers, rows: pa.Table, read: Callable[[str, Numbers], Numbers]) -> Numbers:
        """The same row numbers, of rows with numbers of keys (int64[rows]) and only `value_columns`. ``read`` gives `TIME` and
        `ORDER` (int64[rows]) of those for which they count (bool[rows])."""
        values = self._all_value_keys(rows)
        order = sort_by_hash(keys, *values[::-1])
        same = ~_changes(order, (keys, *values))
        if same.any():
            ties = np.zeros(len(order), bool)
            ties[order[same]] = ties[order[:-1][same[1:]]] = True
            order = sort_by_hash(keys, read(ORDER, ties), read(TIME, ties), *values[::-1])
        return self._best(order, (keys,), values, rows)[0]

    def _best(
        self, order: Numbers, keys: Sequence[Numbers], values: Sequence[Numbers], rows: pa.Table
    ) -> tuple[Numbers, Numbers]:
        """The best rows in this order, and their ranks."""
        if self.distinct:
            order = order[_firsts(order, keys, _combinations(rows, self.distinct))]
        ranks = self._ranks(order, keys, values)
        chosen = ranks <= self.limit
        return order[chosen], ranks[chosen]

    def ranked(self, rows: pa.Table) -> pa.Table:
        """The rows that are ranked."""
        values = rows.column(VALUE)
        return rows.filter(values.is_valid()) if values.null_count and not self.nulls else rows

    def value_keys(self, rows: pa.Table) -> Numbers:
        """int64[rows]: the smaller, the better."""
        return _value_keys(rows.column(VALUE), self.ascending)

    def _all_value_keys(self, rows: pa.Table) -> list[Numbers]:
        further = enumerate(self.then)
        return [self.value_keys(rows), *(_value_keys(rows.column(further_value(at)), up) for at, up in further)]

    def subjects(self, rows: pa.Table) -> Numbers:
        """int64[rows]: a number for each combination of the values of ``distinct``, or for each row."""
        return _combinations(rows, self.distinct) if self.distinct else np.arange(len(rows))

    def _ranks(self, order: Numbers, keys: Sequence[Numbers], values: Sequence[Numbers]) -> Numbers:
        """int64[n]: the ranks of rows in this order."""
        begins = _changes(order, keys)
        first_rows = np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))
        if self.ties == "row_number":
            return np.arange(len(order)) - first_rows + 1
        differs = _changes(order, (*keys, *values))
        if self.ties == "rank":
            return np.maximum.accumulate(np.where(differs, np.arange(len(order)), 0)) - first_rows + 1
        number = np.cumsum(differs)
        return number - number[first_rows] + 1


def further_value(number: int) -> str:
    """The column of a further value."""
    return f"{VALUE}{number + 1}"


def _value_keys(column: pa.ChunkedArray, ascending: bool) -> Numbers:
    """int64[n]: the smaller, the better; null is the smallest value."""
    values = canonical(column.combine_chunks())
    keys = order_keys(values)
    if values.null_count:
        keys = np.where(values.is_valid().to_numpy(zero_copy_only=False), keys, np.iinfo(np.int64).min)
    return keys if ascending else ~keys


def _changes(order: Numbers, columns: Sequence[Numbers]) -> Numbers:
    """bool[n]: which rows in this order differ from the row before them."""
    found = np.zeros(len(order), bool)
    found[:1] = True
    for column in columns:
        found[1:] |= column[order[1:]] != column[order[:-1]]
    return found


def _firsts(order: Numbers, keys: Sequence[Numbers], combinations: Numbers) -> Numbers:
    """bool[n]: which rows in this order are the first of their key with their combination."""
    positions = np.arange(len(order))
    by_combination = np.lexsort((positions, combinations[order], *(key[order] for key in keys)))
    found = np.empty(len(order), bool)
    found[by_combination] = _changes(order[by_combination], (*keys, combinations))
    return found


def _combinations(rows: pa.Table, names: Sequence[str]) -> Numbers:
    """int64[rows]: a number for each combination of the values of these columns."""
    codes = np.zeros(len(rows), np.int64)
    for name in names:
        encoded = canonical(rows.column(name).combine_chunks()).dictionary_encode()
        indices = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
        codes = np.unique(codes * (len(encoded.dictionary) + 1) + indices, return_inverse=True)[1]
    return codes
