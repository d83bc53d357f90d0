"""Evaluates the predicates on one text field: one scan finds all literals; tests run only on rows where a rule may match."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from etl.columns.texts import Texts
from etl.rules.conditions.column_types import is_list_type
from etl.rules.engine.bitsets import Bits
from etl.rules.engine.column_texts import Column
from etl.rules.engine.evaluators import EvaluatorContext
from etl.rules.engine.text_cache import Codes, TextCache
from etl.rules.engine.text_scan import TextScan
from etl.rules.engine.text_tests import TextTests
from etl.rules.predicates.text_predicate import TextPredicate
from etl.rules.search.contains_kernel import find_in_rows


class TextField:
    """The predicates on one field, and what was observed of its texts."""

    def __init__(self, field: str, predicates: Sequence[tuple[int, TextPredicate]], context: EvaluatorContext) -> None:
        tested = [(number, one) for number, one in predicates if one.has_text_test]
        self._field, self.tests = field, TextTests(field, tested, context)
        self.deferred = self.tests.tests.keys()
        self._scan = TextScan(predicates, self.tests.tests, context.switches.together)
        self._cache = TextCache(context.switches.distinct)
        self._uncached_scan, self._found_all = self._scan, True
        """The scan of texts that are not in the cache, and whether it searched for all literals in the last batch."""
        self.literals = frozenset(number for number, one in predicates if one.is_deferrable)
        self._tested_everywhere: frozenset[int] = frozenset()
        """Tests whose literals are not searched: they may hold in any text that is not in the cache."""
        self._is_list = False
        self._codes: Codes | None = None
        self._texts: Texts | None = None

    def evaluate(self, batch: pa.RecordBatch, columns: Mapping[str, Column], bits: Bits) -> None:
        """Scan the texts that are not in the cache. A test is not run: its bits mark the rows in which it may hold."""
        column, self._codes, self._texts, self._found_all = columns[self._field], None, None, True
        self._is_list = is_list_type(column.array.type)
        if column.array.null_count == len(column.array):
            return
        cached = self._cache.look_up(column.values, self._scan)
        if cached is None:
            self._uncached_scan.mark(column.values, column.rows, bits)
            self._found_all = self._uncached_scan is self._scan
            for number in self._tested_everywhere:
                bits.put_everywhere(number)
        else:
            code, hits = cached
            self._codes = self._cache.codes(code)
            bits.put_hits(code, column.rows, hits)
        for number in self.tests.everywhere:
            bits.put_everywhere(number)

    @property
    def has_distinct_texts(self) -> bool:
        """Whether most texts differ from each other: then the cache does not help, and a scan with fewer literals saves time."""
        return self._cache.is_paused and not self._is_list and self._scan.database is not None

    def leave_out(self, left_out: frozenset[int]) -> None:
        """Do not search for the literals of these predicates and tests in texts that are not in the cache."""
        self._uncached_scan = self._scan.without(left_out) if left_out else self._scan
        self._tested_everywhere = left_out & self.tests.optional

    def literals_by_rule(self, predicates: Sequence[Sequence[int]]) -> tuple[Any, Any]:
        """The literals of the predicates of each rule: those of rule r are ``entries[first[r]:first[r + 1]]``."""
        database = self._scan.database
        assert database is not None
        forms: dict[int, list[int]] = {number: [] for number in self.literals}
        for literal, number in enumerate(database.owners.tolist()):
            if number in forms:
                forms[number].append(literal)
        rules = [[literal for number in one for literal in forms.get(number, ())] for one in predicates]
        first = np.concatenate([[0], np.cumsum([len(one) for one in rules])]).astype(np.int64)
        return first, np.array([literal for one in rules for literal in one], np.int32)

    def find_in_rows(self, truth: Any, first: Any, entries: Any, columns: Mapping[str, Column], bits: Bits) -> int:
        """Search for the literals that the scan left out, in rows where a rule may match. Returns the number of searches."""
        if self._found_all:
            return 0
        database = self._scan.database
        assert database is not None
        texts = self._locate(columns)
        return find_in_rows(
            truth, first, entries, texts.address, texts.length, database.bytes.addresses, database.owners, bits.words, bits.hits
        )

    def evaluate_rows(self, number: int, rows: Any, columns: Mapping[str, Column], bits: Bits) -> None:
        """Run a test on the rows (int64[n]) in which it may hold."""
        column, texts = columns[self._field], self._locate(columns)
        values = column.values_in(rows)
        found = self.tests.filter(number, texts, self._codes, values[texts.length[values] >= 0])
        bits.put_rows(number, column.rows[found])

    def _locate(self, columns: Mapping[str, Column]) -> Texts:
        if self._texts is None:
            self._texts = Texts.of(columns[self._field].values)
        return self._texts
