"""What has been found in a batch: for each predicate a bit a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from etl.rules.engine.deferred_kernel import put_rows
from etl.rules.engine.program_kernel import ALWAYS, put_bits
from etl.rules.engine.text_memory import Hits
from etl.rules.engine.text_memory_kernel import spread


@dataclass
class Bits:
    """The rows in which predicates hold, 64 a word."""

    words: Any
    """uint64[predicates, rows / 64 rounded up]."""

    hits: Any
    """int64[predicates]: 0 where a predicate holds nowhere, else about how many rows it holds in."""

    rows: int

    @classmethod
    def empty(cls, predicates: int, rows: int) -> Bits:
        """Nothing found yet."""
        return cls(np.zeros((predicates, (rows + 63) // 64), np.uint64), np.zeros(predicates, np.int64), rows)

    def cleared(self, rows: int) -> Bits:
        """Nothing found, for another batch: in the same memory where it is as wide, and only what was found is wiped."""
        if self.words.shape[1] != (rows + 63) // 64:
            return Bits.empty(len(self.hits), rows)
        found = np.flatnonzero(self.hits)
        self.words[found] = 0
        self.hits[found] = 0
        self.rows = rows
        return self

    def put(self, predicate: int, mask: pa.BooleanArray) -> None:
        """Where a predicate holds; null is not."""
        truth = (mask.fill_null(False) if mask.null_count else mask).to_numpy(zero_copy_only=False)
        self.hits[predicate] += put_bits(truth, self.words[predicate])

    def put_everywhere(self, predicate: int) -> None:
        """A predicate that may hold in every row."""
        self.words[predicate] = ALWAYS
        self.hits[predicate] = self.rows

    def put_rows(self, predicate: int, rows: Any) -> None:
        """Where a predicate holds, by the numbers of rows."""
        self.hits[predicate] += put_rows(rows, self.words[predicate])

    def spread(self, code: Any, row: Any, hits: Hits) -> None:
        """What holds for texts, in the rows of the values that have them."""
        spread(code, row, hits.first, hits.predicates, self.words, self.hits)
