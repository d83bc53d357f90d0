"""The predicates on one field that look at a whole text: regular expressions and SQL, each text of the memory once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.texts import Texts, gathered
from etl.rules.conditions.predicates import Pattern, Sql
from etl.rules.engine.sql_predicates import sql_test
from etl.rules.engine.text_memory import Codes
from etl.rules.search.regex_literals import all_required, exactly_required, shortest
from etl.rules.search.regex_search import AutomatonTest, Test, engine, test_of
from etl.rules.search.required_literals import Required

UNKNOWN, FAILED, PASSED = range(3)

FEW_LITERALS = 8
"""Literals of which a text is soon known to have one."""


@dataclass(frozen=True)
class TextTest:
    """A predicate that looks at the text itself."""

    test: Test
    literals: tuple[str, ...]
    """One of these is in every text that passes; empty: none is known."""
    required: Required | None
    """Further literals, each set of which a text has one of that passes."""
    shortest: int
    """Bytes that a text has at least which passes."""
    place: int
    """Its row in the table of outcomes."""


class TextTests:
    """The tests of one field, by the number of their predicate."""

    def __init__(
        self, of: str, predicates: Sequence[tuple[int, Pattern | Sql]], spent: dict[int, int], literals: bool, automata: bool
    ) -> None:
        """``spent`` gets the nanoseconds of each."""
        self._spent = spent
        self.tests: Mapping[int, TextTest] = {
            number: _made(one, of, place, literals, automata) for place, (number, one) in enumerate(predicates)
        }
        self.everywhere = [number for number, one in self.tests.items() if not one.literals]
        """Those that are tried on every text."""
        self.optional = frozenset(
            number for number, one in self.tests.items() if 0 < len(one.literals) <= FEW_LITERALS and one.required is not None
        )
        """Those whose literals are looked for again before they are tried, so that a scan may leave them out."""
        self._outcomes: Any = None
        self._generation = 0

    def passed(self, number: int, texts: Texts, codes: Codes | None, values: Any) -> Any:
        """Of some values of a column (int64[n]) those that pass; what is known of a text is looked up."""
        began = time.perf_counter_ns()
        test = self.tests[number]
        values = values[texts.length[values] >= test.shortest]
        if test.required is not None and len(values):
            values = test.required.among(texts, values)
        if codes is not None:
            outcomes = self._known(codes)[test.place]
            self._learn(test, texts, codes.code, values, outcomes)
            found = values[outcomes[codes.code[values]] == PASSED]
        else:
            found = values[_tried(test, texts, values)]
        self._spent[number] = self._spent.get(number, 0) + time.perf_counter_ns() - began
        return found

    def _known(self, codes: Codes) -> Any:
        """What each test said of the texts of the memory; memory is taken only of those that are tried."""
        if self._generation != codes.generation:
            self._outcomes = np.zeros((len(self.tests), codes.room), np.uint8)
            self._generation = codes.generation
        return self._outcomes

    @staticmethod
    def _learn(test: TextTest, texts: Texts, code: Any, values: Any, outcomes: Any) -> None:
        new = values[outcomes[code[values]] == UNKNOWN]
        if len(new):
            _, first = np.unique(code[new], return_index=True)
            new = new[first]
            outcomes[code[new]] = np.where(_tried(test, texts, new), PASSED, FAILED)


def _tried(test: TextTest, texts: Texts, values: Any) -> Any:
    """Whether each text passes (bool[n])."""
    if not len(values):
        return np.zeros(0, bool)
    if isinstance(test.test, AutomatonTest):
        return test.test.at(texts, values)
    some = gathered(texts.address[values], texts.length[values]).cast(pa.string())
    return pc.fill_null(test.test(some), False).to_numpy(zero_copy_only=False)


def _made(one: Pattern | Sql, of: str, place: int, literals: bool, automata: bool) -> TextTest:
    test = test_of(one.pattern, automata) if isinstance(one, Pattern) else sql_test(one, of)
    if not literals:
        return TextTest(test, (), None, 0, place)
    if isinstance(one, Sql):
        return TextTest(test, one.literals, None, 0, place)
    sets = all_required(one.pattern, engine(one.pattern)) if one.literals else []
    exact = exactly_required(one.pattern)
    sets = sets or [one.literals] * (0 < len(one.literals) <= FEW_LITERALS)
    required = Required(sets, exact) if sets or exact else None
    return TextTest(test, one.literals, required, shortest(one.pattern), place)
