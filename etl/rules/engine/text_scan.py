"""One pass over the texts of a field: all literals in one scan, and families with a search of their own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from etl.columns.texts import Texts
from etl.rules.engine.bitsets import Bits
from etl.rules.engine.evaluators import TextFinder, TextSearch
from etl.rules.engine.text_cache import Hits
from etl.rules.engine.text_cache_kernel import group_by_text
from etl.rules.engine.text_tests import TextTest
from etl.rules.predicates.text_predicate import TextPredicate
from etl.rules.search.literal_arrays import pack
from etl.rules.search.literal_database import LiteralDatabase
from etl.rules.search.literals import Literal, literals_of


@dataclass
class TextScan:
    """Finds the predicates that hold for texts; for tests, those that may hold because a text contains one of their literals."""

    predicates: Sequence[tuple[int, TextPredicate]]
    tests: Mapping[int, TextTest]
    together: bool = True
    """Whether all literals share a scan."""
    _databases: list[LiteralDatabase] = field(init=False)
    _searches: list[TextSearch] = field(init=False)

    def __post_init__(self) -> None:
        literals = list(self._literals())
        groups = [literals] if self.together else [[one] for one in literals]
        self._databases = [LiteralDatabase(pack(group)) for group in groups if group]
        searched: defaultdict[TextFinder, list[tuple[int, Any]]] = defaultdict(list)
        for number, one in self.predicates:
            if (finder := one.make_finder()) is not None:
                searched[finder].append((number, one))
        self._searches = [finder(mine) for finder, mine in searched.items()]

    def _literals(self) -> Iterator[Literal]:
        for number, one in self.predicates:
            yield from one.literals_to_find(number)
        for number, test in self.tests.items():
            for literal in test.literals:
                yield from literals_of(number, literal, "contains", False)

    @property
    def database(self) -> LiteralDatabase | None:
        """The database of all literals, if they share a scan."""
        return self._databases[0] if self.together and self._databases else None

    def without(self, left_out: frozenset[int]) -> TextScan:
        """The scan without these predicates' literals that may be anywhere. Texts must have been scanned before."""
        other = copy(self)
        other._databases = [one.without(np.isin(one.owners, list(left_out))) for one in self._databases]
        return other

    def __call__(self, array: pa.Array) -> Hits:
        """The predicates of each text."""
        located = Texts.of(array)
        texts, numbers = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
        for database in self._databases:
            for found, count in database.find(located):
                texts.append(found[1, :count].copy())
                numbers.append(database.owners[found[0, :count]])
        for number, indexes in self._search(array, located):
            texts.append(indexes.astype(np.int32))
            numbers.append(np.full(len(indexes), number, np.int64))
        return _group(np.concatenate(texts), np.concatenate(numbers), len(array))

    def mark(self, array: pa.Array, rows: Any, bits: Bits) -> None:
        """Set the bits of each text's row (int64[n]) by its predicates."""
        located = Texts.of(array)
        for database in self._databases:
            database.mark(located, rows, bits.words, bits.hits)
        for number, indexes in self._search(array, located):
            bits.put_rows(number, rows[indexes])

    def _search(self, array: pa.Array, located: Texts) -> Iterator[tuple[int, Any]]:
        for search in self._searches:
            yield from search.find(array, located)


def _group(text: Any, number: Any, count: int) -> Hits:
    first, predicates = np.zeros(count + 2, np.int64), np.empty(len(text), np.int32)
    group_by_text(text, number, first, predicates)
    return Hits(first[:-1], predicates)
