"""One text field of a batch: what the bytes of its texts decide at once, and its tests where they matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from etl.columns.texts import Texts
from etl.rules.bits import Bits
from etl.rules.columns import Column
from etl.rules.predicates import Pattern, Sql
from etl.rules.seen import Codes, Seen
from etl.rules.text_decider import TextDecider
from etl.rules.text_tests import TextTests


class TextField:
    """The predicates on a field, by number."""

    def __init__(
        self, of: str, predicates: Sequence[tuple[int, Any]], spent: dict[int, int], distinct: bool, together: bool,
        literals: bool, automata: bool,
    ) -> None:  # fmt: skip
        tested = [(number, one) for number, one in predicates if isinstance(one, Pattern | Sql)]
        self._of, self.tests = of, TextTests(of, tested, spent, literals, automata)
        self._look, self._seen = TextDecider(predicates, self.tests.tests, together), Seen(distinct)
        self._codes: Codes | None = None
        self._texts: Texts | None = None

    def decide(self, batch: pa.RecordBatch, columns: Mapping[str, Column], bits: Bits) -> None:
        """Look at the texts that have not been seen. Of tests it says where they may hold."""
        column, self._codes, self._texts = columns[self._of], None, None
        if column.array.null_count == len(column.array):
            return
        code, hits = self._seen.hits(column.values, self._look)
        self._codes = self._seen.codes(code)
        bits.spread(code, column.rows, hits)
        for number in self.tests.everywhere:
            bits.put_everywhere(number)

    def settle(self, number: int, rows: Any, columns: Mapping[str, Column], bits: Bits) -> None:
        """Decide a test in some rows, in which it may hold."""
        column, codes = columns[self._of], self._codes
        assert codes is not None
        if self._texts is None:
            self._texts = Texts.of(column.values)
        values = column.values_in(rows)
        found = self.tests.passed(number, self._texts, codes, values[codes.code[values] >= 0])
        bits.put_rows(number, column.rows[found])
