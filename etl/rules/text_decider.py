"""All predicates on the texts of one field: literals in one scan, then regular expressions where their literals are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions import compile_expression
from etl.rules.literals import shortest
from etl.rules.needles import Database, Needle, needles
from etl.rules.networks import Networks
from etl.rules.predicates import Network, Pattern, Predicate, Sql, Text
from etl.rules.regexes import Test, test_of
from etl.rules.seen import Hits
from etl.rules.seen_kernel import by_text
from etl.scanner.texts import Texts, owned, owned_array, taken


@dataclass
class _Tested:
    """A predicate that has to look at a text itself, in texts that hold one of its literals (or in all)."""

    number: int
    test: Test
    literals: tuple[str, ...]
    shortest: int
    """Bytes that a text has at least."""


@dataclass
class TextDecider:
    """Predicates on one field, by number: a function of texts."""

    of: str
    predicates: Sequence[tuple[int, Predicate]]
    spent: dict[int, int] = field(default_factory=dict)
    """Nanoseconds of predicates that are tried on texts, by number."""
    literals: bool = True
    """Whether literals narrow down where a regular expression is tried."""
    together: bool = True
    """Whether all literals share a scan."""
    automata: bool = True
    """Whether automata take over what RE2 compiles slowly."""
    _tested: list[_Tested] = field(init=False)
    _databases: list[Database] = field(init=False)

    def __post_init__(self) -> None:
        self._tested = [self._made(number, one) for number, one in self.predicates if isinstance(one, Pattern | Sql)]
        self._first_tested = max((number for number, _ in self.predicates), default=0) + 1
        wanted = list(self._needles())
        groups = [wanted] if self.together else [[one] for one in wanted]
        self._databases = [Database(group) for group in groups if group]
        networks = [(number, one) for number, one in self.predicates if isinstance(one, Network)]
        self._networks = Networks(networks) if networks else None

    def _made(self, number: int, one: Pattern | Sql) -> _Tested:
        test = test_of(one.pattern, self.automata) if isinstance(one, Pattern) else sql_test(one, self.of)
        if not self.literals:
            return _Tested(number, test, (), 0)
        return _Tested(number, test, one.literals, shortest(one.pattern) if isinstance(one, Pattern) else 0)

    def _needles(self) -> Iterator[Needle]:
        for number, one in self.predicates:
            if isinstance(one, Text):
                yield from needles(number, one.text, one.kind, one.cased)
        for place, tested in enumerate(self._tested):
            for literal in tested.literals:
                yield from needles(self._first_tested + place, literal, "contains", False)

    def __call__(self, array: pa.Array) -> Hits:
        """Which predicates hold for each text."""
        located = Texts.of(array)
        texts: list[Any] = []
        numbers: list[Any] = []
        for database in self._databases:
            for found, count in database.find(located):
                texts.append(found[1, :count].copy())
                numbers.append(database.predicate[found[0, :count]])
        if self._networks is not None:
            self._add(self._networks.find(array, located), texts, numbers)
        if self._tested:
            self._look(array, located.length, texts, numbers)
        return _gathered(texts, numbers, len(array), self._first_tested)

    def _look(self, array: pa.Array, length: Any, texts: list[Any], numbers: list[Any]) -> None:
        """Try what has to be tried, where it may be found."""
        text = np.concatenate([np.empty(0, np.int32), *texts])
        number = np.concatenate([np.empty(0, np.int64), *numbers])
        chosen = number >= self._first_tested
        place, text = number[chosen] - self._first_tested, text[chosen]
        order = np.argsort(place, kind="stable")
        bounds = np.searchsorted(place[order], np.arange(len(self._tested) + 1)).tolist()
        for at, tested in enumerate(self._tested):
            if tested.literals and bounds[at] == bounds[at + 1]:
                continue
            mine = np.unique(text[order[bounds[at] : bounds[at + 1]]]) if tested.literals else np.arange(len(array))
            mine = mine[length[mine] >= tested.shortest] if tested.shortest else mine
            if len(mine):
                began = time.perf_counter_ns()
                self._add([(tested.number, _passed(tested.test, array, mine))], texts, numbers)
                self.spent[tested.number] = self.spent.get(tested.number, 0) + time.perf_counter_ns() - began

    @staticmethod
    def _add(found: Sequence[tuple[int, Any]], texts: list[Any], numbers: list[Any]) -> None:
        for number, places in found:
            texts.append(places.astype(np.int32))
            numbers.append(np.full(len(places), number, np.int64))


def _passed(test: Test, array: pa.Array, places: Any) -> Any:
    """The places whose text passes a test."""
    some = array if len(places) == len(array) else taken(array, places)
    mask = pc.fill_null(test(owned_array(some).cast(pa.string())), False)
    return places[mask.to_numpy(zero_copy_only=False)]


def _gathered(texts: list[Any], numbers: list[Any], count: int, most: int) -> Hits:
    """Pairs by text, without those that only say where to try."""
    text = np.concatenate([np.empty(0, np.int32), *texts])
    number = np.concatenate([np.empty(0, np.int64), *numbers])
    decided = number < most
    if not decided.all():
        text, number = text[decided], number[decided]
    first, predicates = np.zeros(count + 2, np.int64), np.empty(len(text), np.int32)
    by_text(text, number, first, predicates)
    return Hits(first[:-1], predicates)


def sql_test(predicate: Sql, of: str) -> Test:
    """A condition on one text field, for a column of texts."""
    holds = holding(predicate, pa.schema([(of, pa.string())]))
    return lambda texts: holds(pa.RecordBatch.from_arrays([texts], names=[of]))


def holding(predicate: Sql, schema: pa.Schema) -> Callable[[pa.RecordBatch], pa.BooleanArray]:
    """Events → where a condition is true (or false); where it cannot be computed it is neither."""
    evaluate = compile_expression(predicate.where, schema)

    def run(batch: pa.RecordBatch) -> pa.BooleanArray:
        values, failed, _ = evaluate(owned(batch.select(predicate.fields)) if predicate.fields else batch)
        mask = pc.fill_null(values.cast(pa.bool_()), not predicate.truth)
        mask = mask if predicate.truth else pc.invert(mask)
        return mask if failed is None else pc.and_not(mask, failed)

    return run
