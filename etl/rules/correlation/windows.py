"""Windows over the events of slots, and what alerts show of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from etl.rules.correlation.row_kernels import first_distinct
from etl.rules.correlation.slots import Slots

MAX_SHOWN = 10
"""Values and samples that an alert carries."""


@dataclass(frozen=True)
class Windows:
    """Windows over the rows of slots: each from a first row to the one before an end."""

    slots: Slots
    slot: Any
    firsts: Any
    ends: Any
    measures: Any

    @property
    def member(self) -> Any:
        """int64[windows]: the number of each one's member."""
        return self.slots.member[self.slot]

    def filter(self, selection: Any) -> Windows:
        """Some of them, by a mask or by number."""
        return Windows(self.slots, self.slot[selection], self.firsts[selection], self.ends[selection], self.measures[selection])

    def followed_by(self, others: Windows) -> Windows:
        """These, and others over the same slots."""
        pairs = ((getattr(self, name), getattr(others, name)) for name in ("slot", "firsts", "ends", "measures"))
        return Windows(self.slots, *map(np.concatenate, pairs))

    def column(self, name: str, first: bool = True) -> pa.Array:
        """A column of the first or last row of each."""
        rows = self.firsts if first else self.ends - 1
        return self.slots.column(name, rows)

    def counts(self) -> Any:
        """int64[windows]: events of each: rows of the same time and offset are one."""
        if not len(self.slots.order):
            return np.zeros(len(self.firsts), np.int64)
        micros, offset = self.slots.micros, self.slots.numbers("offset")
        changes = np.append(0, np.cumsum((micros[1:] != micros[:-1]) | (offset[1:] != offset[:-1])))
        return changes[self.ends - 1] - changes[self.firsts] + 1

    def first(self, name: str) -> pa.Array:
        """The first value of a column in each that is not null."""
        found = self.distinct(name, 1)
        firsts = np.where(np.diff(found.offsets.to_numpy()) > 0, found.offsets.to_numpy()[:-1], -1)
        return found.values.take(pa.array(firsts, mask=firsts < 0))

    def distinct(self, name: str, limit: int = MAX_SHOWN) -> pa.ListArray:
        """The distinct values of a column in each, in the order of their first rows, up to ``limit`` of them."""
        codes = self.slots.text_codes(name)
        marks, rows = np.zeros(int(codes.max(initial=-1)) + 1, np.int64), np.empty(len(self.firsts) * limit, np.int64)
        offsets = np.empty(len(self.firsts) + 1, np.int64)
        first_distinct(self.firsts, self.ends, codes, marks, np.int64(limit), rows, offsets)
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), self.slots.column(name, rows[: offsets[-1]]))
