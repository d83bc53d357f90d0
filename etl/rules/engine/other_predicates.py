"""Predicates that are no texts: numbers, whether a field is there, two fields, conditions over several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.texts import Texts, owned_array, taken
from etl.rules.conditions.predicates import Number, Present, SameField
from etl.rules.engine.address_kernel import compare_texts
from etl.rules.engine.bitsets import Bits
from etl.rules.engine.column_texts import Column
from etl.rules.engine.text_memory import Hits
from etl.rules.engine.text_memory_kernel import by_text

_COMPARE = {"<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}


@dataclass
class NumberDecider:
    """Comparisons of one column of numbers; equal ones by one look-up of all values."""

    predicates: Sequence[tuple[int, Number]]

    def decide(self, column: Column, bits: Bits) -> None:
        """Find where they hold."""
        equal = [(number, one.value) for number, one in self.predicates if one.order == "="]
        if equal:
            self._equal(column.array, equal, bits)
        for number, one in self.predicates:
            if one.order != "=":
                bits.put(number, _COMPARE[one.order](column.array, pa.scalar(one.value)))

    def _equal(self, array: pa.Array, equal: list[tuple[int, int | float]], bits: Bits) -> None:
        fitting = [(number, value) for number, value in equal if _fits(value, array.type)]
        if not fitting:
            return
        known = list(dict.fromkeys(value for _, value in fitting))
        found = pc.index_in(array, value_set=pa.array(known, array.type))
        rows = pc.indices_nonzero(pc.is_valid(found)).to_numpy().astype(np.int64)
        which = found.drop_null().to_numpy().astype(np.int32)
        first = np.zeros(len(known) + 2, np.int64)
        predicates = np.empty(len(fitting), np.int32)
        values = np.array([known.index(value) for _, value in fitting], np.int64)
        by_text(values, np.array([number for number, _ in fitting], np.int64), first, predicates)
        bits.spread(which, rows, Hits(first[:-1], predicates))


def _fits(value: int | float, type_: pa.DataType) -> bool:
    try:
        return bool(pa.scalar(value, type_).as_py() == value)
    except (pa.ArrowException, OverflowError):
        return False


@dataclass
class PresentDecider:
    """Whether one field has a value."""

    predicates: Sequence[tuple[int, Present]]

    def decide(self, column: Column, bits: Bits) -> None:
        """Find where it has."""
        nulls = column.array.null_count
        for number, _ in self.predicates:
            if nulls == 0:
                bits.put_everywhere(number)
            elif nulls < len(column.array):
                bits.put(number, column.array.is_valid())


@dataclass
class SameDecider:
    """Whether two fields of an event go together; decided where a rule may be true."""

    number: int
    predicate: SameField

    def decide(self, batch: pa.RecordBatch, columns: Mapping[str, Column], bits: Bits) -> None:
        """Everywhere they may."""
        bits.put_everywhere(self.number)

    def settle(self, number: int, rows: Any, columns: Mapping[str, Column], bits: Bits) -> None:
        """Decide in some rows."""
        one, other = columns[self.predicate.field], columns[self.predicate.other]
        found = same(self.predicate, taken(one.values, rows), taken(other.values, rows))
        bits.put_rows(number, rows[found])


def same(predicate: SameField, one: pa.Array, other: pa.Array) -> Any:
    """Which texts of two columns go together (bool[n]); null equals nothing."""
    kinds = {"equals": 0, "contains": 1, "startswith": 2, "endswith": 3}
    texts = [owned_array(array).cast(pa.string()) for array in (one, other)]
    left, right = (Texts.of(array if predicate.cased else pc.utf8_lower(array)) for array in texts)
    result = np.zeros(len(left.address), bool)
    compare_texts(left.address, left.length, right.address, right.length, kinds[predicate.kind], result)
    return result
