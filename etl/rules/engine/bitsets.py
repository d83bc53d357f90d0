"""Bit sets: the rows of a batch in which each predicate holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from etl.rules.engine.program_kernel import ALWAYS, put_bits
from etl.rules.engine.row_kernel import put_rows
from etl.rules.engine.text_cache import Hits
from etl.rules.engine.text_cache_kernel import set_row_bits


@dataclass
class Bits:
    """The rows in which predicates hold, 64 rows a word."""

    words: Any
    """uint64[predicates, rows / 64 rounded up]."""

    hits: Any
    """int64[predicates]: 0 where a predicate holds nowhere, else about how many rows it holds in."""

    rows: int

    @classmethod
    def empty(cls, predicates: int, rows: int) -> Bits:
        """Bit sets without a bit."""
        return cls(np.zeros((predicates, (rows + 63) // 64), np.uint64), np.zeros(predicates, np.int64), rows)

    def clear(self, rows: int) -> Bits:
        """Empty bit sets for another batch: this memory if it is as wide, of which only the bit sets with hits are cleared."""
        if self.words.shape[1] != (rows + 63) // 64:
            return Bits.empty(len(self.hits), rows)
        found = np.flatnonzero(self.hits)
        self.words[found] = 0
        self.hits[found] = 0
        self.rows = rows
        return self

    def put(self, predicate: int, mask: pa.BooleanArray) -> None:
        """Set the rows in which a predicate holds; null counts as false."""
        truth = (mask.fill_null(False) if mask.null_count else mask).to_numpy(zero_copy_only=False)
        self.hits[predicate] += put_bits(truth, self.words[predicate])

    def put_everywhere(self, predicate: int) -> None:
        """Set all rows: the predicate may hold in each."""
        self.words[predicate] = ALWAYS
        self.hits[predicate] = self.rows

    def put_rows(self, predicate: int, rows: Any) -> None:
        """Set some rows (int64[n])."""
        self.hits[predicate] += put_rows(rows, self.words[predicate])

    def put_hits(self, code: Any, row: Any, hits: Hits) -> None:
        """Set the rows of values by the predicates of their texts: value n has the text ``code[n]`` and is in row ``row[n]``."""
        set_row_bits(code, row, hits.first, hits.predicates, self.words, self.hits)
