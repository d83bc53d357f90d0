"""Predicates that test whole texts of one field: regular expressions and SQL, each text of the cache once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.texts import Texts, copy_texts
from etl.rules.engine.text_cache import Codes
from etl.rules.search.contains_kernel import contain_all_sets
from etl.rules.search.literal_arrays import LiteralBytes, pack
from etl.rules.search.literals import ANYWHERE, FOLD, Literal
from etl.rules.search.regex_literals import all_required_literals, exact_required_literals, min_length
from etl.rules.search.regex_search import AutomatonMatcher, Matcher, choose_engine, compile_matcher

if TYPE_CHECKING:
    from etl.rules.engine.batch_engine import Switches
    from etl.rules.engine.evaluators import EvaluatorContext
    from etl.rules.predicates.pattern import Pattern
    from etl.rules.predicates.text_predicate import TextPredicate

UNKNOWN, FAILED, PASSED = range(3)

FEW_LITERALS = 8
"""Number of literals up to which searching a text for each of them is fast."""

MAX_SETS = 6
"""Sets of required literals that a text is searched for before a regular expression is tested on it."""


class RequiredLiterals:
    """Sets of literals that a regular expression requires: a text must contain one of each set."""

    def __init__(self, sets: Sequence[Sequence[str]], exact: Sequence[Sequence[str]] = ()) -> None:
        """The case of ASCII letters counts only in ``exact``."""
        some = [*((one, True) for one in exact), *((one, False) for one in sets)][:MAX_SETS]
        self._literals = LiteralBytes.of(pack([_to_literal(text, cased) for texts, cased in some for text in texts])).with_cases()
        self._sets = np.concatenate([[0], np.cumsum([len(texts) for texts, _ in some])]).astype(np.int64)

    def filter(self, texts: Texts, values: Any) -> Any:
        """Those of some texts (int64[n], their indexes) that contain a literal of each set."""
        found = np.empty(len(values), np.bool_)
        contain_all_sets(texts.address, texts.length, values, self._literals.addresses, self._sets, found)
        return values[found]


def _to_literal(text: str, cased: bool) -> Literal:
    data = text.encode("utf-8", "surrogatepass")
    return Literal(0, data if cased else data.translate(FOLD), ANYWHERE, cased)


@dataclass(frozen=True)
class TextTest:
    """A test of whole texts, and what every text that passes contains."""

    test: Matcher
    literals: tuple[str, ...]
    """Every text that passes contains one of these; empty if none is known."""
    required: RequiredLiterals | None
    """Further sets of literals: every text that passes contains one of each set."""
    min_length: int
    """The minimum number of bytes of a text that passes."""
    row: int
    """The test's row in the table of outcomes."""


class TextTests:
    """The tests of one field, by the number of their predicate."""

    def __init__(self, field: str, predicates: Sequence[tuple[int, TextPredicate]], context: EvaluatorContext) -> None:
        """``context.spent`` gets the time of each test."""
        self._spent = context.spent
        self.tests: Mapping[int, TextTest] = {
            number: one.text_test(field, row, context.switches) for row, (number, one) in enumerate(predicates)
        }
        self.everywhere = [number for number, one in self.tests.items() if not one.literals]
        """Tests without literals, which run on every text."""
        self.optional = frozenset(
            number for number, one in self.tests.items() if 0 < len(one.literals) <= FEW_LITERALS and one.required is not None
        )
        """Tests whose literals are searched for again before they run, so that a scan may leave them out."""
        self._outcomes: Any = None
        self._generation = 0

    def filter(self, number: int, texts: Texts, codes: Codes | None, values: Any) -> Any:
        """Those of some values of a column (int64[n]) that pass; outcomes of texts in the cache are looked up."""
        began = time.perf_counter_ns()
        test = self.tests[number]
        values = values[texts.length[values] >= test.min_length]
        if test.required is not None and len(values):
            values = test.required.filter(texts, values)
        if codes is not None:
            outcomes = self._outcomes_of(codes)[test.row]
            self._test_new(test, texts, codes.code, values, outcomes)
            found = values[outcomes[codes.code[values]] == PASSED]
        else:
            found = values[_run(test, texts, values)]
        self._spent[number] = self._spent.get(number, 0) + time.perf_counter_ns() - began
        return found

    def _outcomes_of(self, codes: Codes) -> Any:
        """uint8[tests, texts]: the outcomes of the texts in the cache."""
        if self._generation != codes.generation:
            self._outcomes = np.zeros((len(self.tests), codes.room), np.uint8)
            self._generation = codes.generation
        return self._outcomes

    @staticmethod
    def _test_new(test: TextTest, texts: Texts, code: Any, values: Any, outcomes: Any) -> None:
        new = values[outcomes[code[values]] == UNKNOWN]
        if len(new):
            _, first = np.unique(code[new], return_index=True)
            new = new[first]
            outcomes[code[new]] = np.where(_run(test, texts, new), PASSED, FAILED)


def _run(test: TextTest, texts: Texts, values: Any) -> Any:
    """Whether each text passes (bool[n])."""
    if not len(values):
        return np.zeros(0, bool)
    if isinstance(test.test, AutomatonMatcher):
        return test.test.match_rows(texts, values)
    some = copy_texts(texts.address[values], texts.length[values]).cast(pa.string())
    return pc.fill_null(test.test(some), False).to_numpy(zero_copy_only=False)


def pattern_test(predicate: Pattern, row: int, switches: Switches) -> TextTest:
    """A regular expression as a test."""
    pattern, literals = predicate.pattern, predicate.literals
    test = compile_matcher(pattern, switches.automata)
    if not switches.literals:
        return TextTest(test, (), None, 0, row)
    sets = all_required_literals(pattern, choose_engine(pattern)) if literals else []
    exact = exact_required_literals(pattern)
    sets = sets or [literals] * (0 < len(literals) <= FEW_LITERALS)
    required = RequiredLiterals(sets, exact) if sets or exact else None
    return TextTest(test, literals, required, min_length(pattern), row)
