"""Predicates on the texts of one field that the texts' bytes decide: literals in one scan, and networks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from etl.columns.texts import Texts
from etl.rules.conditions.predicates import Network, Predicate, Text
from etl.rules.engine.bitsets import Bits
from etl.rules.engine.networks import Networks
from etl.rules.engine.text_memory import Hits
from etl.rules.engine.text_memory_kernel import by_text
from etl.rules.engine.whole_text_predicates import TextTest
from etl.rules.search.literal_search import Database, Needle, needles


@dataclass
class TextDecider:
    """Predicates on one field, by number: a function of texts. Of tests it says where a literal of theirs is."""

    predicates: Sequence[tuple[int, Predicate]]
    tests: Mapping[int, TextTest]
    together: bool = True
    """Whether all literals share a scan."""
    _databases: list[Database] = field(init=False)

    def __post_init__(self) -> None:
        wanted = list(self._needles())
        groups = [wanted] if self.together else [[one] for one in wanted]
        self._databases = [Database(group) for group in groups if group]
        networks = [(number, one) for number, one in self.predicates if isinstance(one, Network)]
        self._networks = Networks(networks) if networks else None

    def _needles(self) -> Iterator[Needle]:
        for number, one in self.predicates:
            if isinstance(one, Text):
                yield from needles(number, one.text, one.kind, one.cased)
        for number, test in self.tests.items():
            for literal in test.literals:
                yield from needles(number, literal, "contains", False)

    @property
    def database(self) -> Database | None:
        """That of all literals, if they share a scan."""
        return self._databases[0] if self.together and self._databases else None

    def without(self, left_out: frozenset[int]) -> TextDecider:
        """The same, but for predicates of one literal or more that may stand anywhere; once texts were looked at."""
        other = copy(self)
        other._databases = [one.without(np.isin(one.predicate, list(left_out))) for one in self._databases]
        return other

    def __call__(self, array: pa.Array) -> Hits:
        """Which predicates hold for each text, and which tests may."""
        located = Texts.of(array)
        texts, numbers = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
        for database in self._databases:
            for found, count in database.find(located):
                texts.append(found[1, :count].copy())
                numbers.append(database.predicate[found[0, :count]])
        if self._networks is not None:
            for number, places in self._networks.find(array, located):
                texts.append(places.astype(np.int32))
                numbers.append(np.full(len(places), number, np.int64))
        return _gathered(np.concatenate(texts), np.concatenate(numbers), len(array))

    def mark(self, array: pa.Array, rows: Any, bits: Bits) -> None:
        """Put what holds for each text, and which tests may, into the bits of its row (int64[n])."""
        located = Texts.of(array)
        for database in self._databases:
            database.mark(located, rows, bits.words, bits.hits)
        if self._networks is not None:
            for number, places in self._networks.find(array, located):
                bits.put_rows(number, rows[places])


def _gathered(text: Any, number: Any, count: int) -> Hits:
    """Pairs by text."""
    first, predicates = np.zeros(count + 2, np.int64), np.empty(len(text), np.int32)
    by_text(text, number, first, predicates)
    return Hits(first[:-1], predicates)
