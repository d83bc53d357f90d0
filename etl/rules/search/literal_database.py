"""Many literals as a database that is scanned once a batch: those of the rules on one field, or those of a table's patterns."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any

import numpy as np

from etl.columns.texts import Texts
from etl.rules.search.gram_choice import LiteralGrams, choose_grams, gram_frequencies
from etl.rules.search.literal_arrays import LiteralArrays, LiteralBytes
from etl.rules.search.literal_kernel import POSITIONS, find
from etl.rules.search.literal_tables import ByteLiterals, LiteralTables, build_tables

_FIRST_ROOM = 1 << 16
"""Pairs that the buffer of a search holds at first."""

_NO_BITS = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, 0), np.uint64), np.empty(0, np.int64))
"""Rows, owners, bits and hits of a scan for pairs."""


class LiteralSearch:
    """Finds the literals of given tables in texts."""

    def __init__(self, tables: LiteralTables) -> None:
        self.tables = tables._replace(bytes=tables.bytes.with_cases())
        self._arguments = self.tables.for_kernel()
        self._found, self._positions = np.empty((2, _FIRST_ROOM), np.int32), np.empty(int(POSITIONS), np.uint64)
        self._last_text = np.empty(len(tables.bytes.sizes), np.int32)

    def find(self, texts: Texts) -> Iterator[tuple[Any, int]]:
        """Yield pairs of literal and text (int32[2, …], overwritten by the next) and how many there are."""
        first, count = 0, len(texts.address)
        while first < count:
            pairs, next_text = self._scan(texts, first, (self._found, *_NO_BITS))
            yield self._found, pairs
            if next_text == first:  # one text contains more literals than the buffer holds
                self._found = np.empty((2, 2 * self._found.shape[1]), np.int32)
            first = next_text

    def mark(self, texts: Texts, rows: Any, owners: Any, bits: Any, hits: Any) -> None:
        """Set the bits of the literals' owners in each text's row (int64[n]), and count them."""
        if len(rows):
            self._scan(texts, 0, (self._found, rows, owners, bits, hits))

    def _scan(self, texts: Texts, first: int, sink: tuple[Any, ...]) -> tuple[int, int]:
        self._last_text.fill(-1)
        return find(texts.address, texts.length, first, *self._arguments, self._last_text, self._positions, sink)


class LiteralDatabase:
    """Literals whose tables are built when the first texts are scanned, by the frequencies in them."""

    def __init__(self, literals: LiteralArrays) -> None:
        self._literals, self.owners = literals, literals.owners
        self.bytes = LiteralBytes.of(literals).with_cases()
        self._grams: tuple[LiteralGrams, ...] = ()
        self._search: LiteralSearch | None = None

    def find(self, texts: Texts) -> Iterator[tuple[Any, int]]:
        """See `LiteralSearch.find`."""
        return self._get_search(texts).find(texts)

    def mark(self, texts: Texts, rows: Any, bits: Any, hits: Any) -> None:
        """See `LiteralSearch.mark`."""
        self._get_search(texts).mark(texts, rows, self.owners, bits, hits)

    def without(self, left_out: Any) -> LiteralDatabase:
        """The database without some literals that may be anywhere (bool[literals]). Texts must have been scanned before."""
        assert self._search is not None
        other = copy(self)
        other._grams = tuple(grams.only(~left_out[grams.literals]) for grams in self._grams)
        before = self._search.tables
        singles = ByteLiterals(*(part[~left_out[before.singles.literals]] for part in before.singles))
        other._search = LiteralSearch(before.with_grams(other._grams, singles))
        return other

    def _get_search(self, texts: Texts) -> LiteralSearch:
        if self._search is None:
            self._grams = choose_grams(self._literals, gram_frequencies(texts))
            self._search = LiteralSearch(build_tables(self._literals, self.bytes, self._grams))
        return self._search
