"""One text field of a batch: what the bytes of its texts decide at once, and its tests where they matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from etl.columns.texts import Texts
from etl.rules.conditions.column_types import is_list
from etl.rules.conditions.predicates import Pattern, Sql, Text
from etl.rules.engine.bitsets import Bits
from etl.rules.engine.column_texts import Column
from etl.rules.engine.text_memory import Codes, Seen
from etl.rules.engine.text_predicates import TextDecider
from etl.rules.engine.whole_text_predicates import TextTests
from etl.rules.search.deferred_kernel import look_up


class TextField:
    """The predicates on a field, by number."""

    def __init__(
        self, of: str, predicates: Sequence[tuple[int, Any]], spent: dict[int, int], distinct: bool, together: bool,
        literals: bool, automata: bool,
    ) -> None:  # fmt: skip
        tested = [(number, one) for number, one in predicates if isinstance(one, Pattern | Sql)]
        self._of, self.tests = of, TextTests(of, tested, spent, literals, automata)
        self._look, self._seen = TextDecider(predicates, self.tests.tests, together), Seen(distinct)
        self._scanned, self._all_looked_for = self._look, True
        """What looks at texts that are not remembered, and whether it looked for all literals in the last batch."""
        self.literals = frozenset(
            number for number, one in predicates if isinstance(one, Text) and one.kind == "contains" and one.text
        )
        self._tried_anywhere: frozenset[int] = frozenset()
        """Tests whose literals were left out: of texts that are not remembered it is not known where they may hold."""
        self._lists = False
        self._codes: Codes | None = None
        self._texts: Texts | None = None

    def decide(self, batch: pa.RecordBatch, columns: Mapping[str, Column], bits: Bits) -> None:
        """Look at the texts that have not been seen. Of tests it says where they may hold."""
        column, self._codes, self._texts, self._all_looked_for = columns[self._of], None, None, True
        self._lists = is_list(column.array.type)
        if column.array.null_count == len(column.array):
            return
        remembered = self._seen.remembered(column.values, self._look)
        if remembered is None:
            self._scanned.mark(column.values, column.rows, bits)
            self._all_looked_for = self._scanned is self._look
            for number in self._tried_anywhere:
                bits.put_everywhere(number)
        else:
            code, hits = remembered
            self._codes = self._seen.codes(code)
            bits.spread(code, column.rows, hits)
        for number in self.tests.everywhere:
            bits.put_everywhere(number)

    @property
    def is_fresh(self) -> bool:
        """Whether its texts do not repeat, so that it is worth while to leave literals out of their scan."""
        return self._seen.is_paused and not self._lists and self._look.database is not None

    def leave_out(self, left_out: frozenset[int]) -> None:
        """Look for these literals, and for those of these tests, no longer in texts that are not remembered."""
        self._scanned = self._look.without(left_out) if left_out else self._look
        self._tried_anywhere = left_out & self.tests.optional

    def by_rule(self, wanted: Sequence[Sequence[int]]) -> tuple[Any, Any]:
        """Of predicates by rule, those of this field as literals: those of rule r are ``entries[first[r]:first[r + 1]]``."""
        database = self._look.database
        assert database is not None
        forms: dict[int, list[int]] = {number: [] for number in self.literals}
        for literal, number in enumerate(database.predicate.tolist()):
            if number in forms:
                forms[number].append(literal)
        rules = [[literal for number in one for literal in forms.get(number, ())] for one in wanted]
        first = np.concatenate([[0], np.cumsum([len(one) for one in rules])]).astype(np.int64)
        return first, np.array([literal for one in rules for literal in one], np.int32)

    def look_up(self, truth: Any, first: Any, entries: Any, columns: Mapping[str, Column], bits: Bits) -> int:
        """Look for what was left out, in rows in which a rule may be true. Returns how many times something was looked for."""
        if self._all_looked_for:
            return 0
        database = self._look.database
        assert database is not None
        texts = self._located(columns)
        return look_up(
            truth, first, entries, texts.address, texts.length, database.needles, database.predicate, bits.words, bits.hits
        )

    def _located(self, columns: Mapping[str, Column]) -> Texts:
        if self._texts is None:
            self._texts = Texts.of(columns[self._of].values)
        return self._texts

    def settle(self, number: int, rows: Any, columns: Mapping[str, Column], bits: Bits) -> None:
        """Decide a test in some rows, in which it may hold."""
        column, texts = columns[self._of], self._located(columns)
        values = column.values_in(rows)
        found = self.tests.passed(number, texts, self._codes, values[texts.length[values] >= 0])
        bits.put_rows(number, column.rows[found])
