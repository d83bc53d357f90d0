"""Regular expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from etl.api import Schema
from etl.rules.conditions.column_types import has_field
from etl.rules.conditions.tree import FALSE, Condition, Leaf
from etl.rules.predicates.predicate import SigmaBuilder, UnsupportedError
from etl.rules.predicates.text_predicate import TextPredicate
from etl.rules.wording import count_noun

if TYPE_CHECKING:
    from etl.rules.engine.batch_engine import Switches
    from etl.rules.engine.text_tests import TextTest


def _sigma_regex(field: str, value: Any) -> Condition:
    from sigma.types import SigmaRegularExpressionFlag as Flag

    from etl.rules.search.regex_literals import required_literals
    from etl.rules.search.regex_search import choose_engine

    if value.contains_placeholder():
        raise UnsupportedError("placeholders in regular expressions are not supported")
    letters = {Flag.IGNORECASE: "i", Flag.MULTILINE: "m", Flag.DOTALL: "s"}
    flags = "".join(sorted(letters[flag] for flag in value.flags))
    pattern = (f"(?{flags})" if flags else "") + str(value.regexp)
    known = f"(?{flags.replace('m', '')}){value.regexp}" if flags.strip("m") else str(value.regexp)
    return Leaf(Pattern(field, pattern, required_literals(known, choose_engine(pattern))))


def summarize_expressions(predicates: Sequence[Any]) -> str:
    """How expressions that test whole texts are evaluated: where a scan finds their literals, or on every distinct text."""
    everywhere = [one for one in predicates if not one.literals]
    slow = sum(isinstance(one, Pattern) and one.backtracks for one in predicates)
    literals = count_noun(sum(len(one.literals) for one in predicates), "literal")
    prefiltered = f"{len(predicates) - len(everywhere):,} prefiltered by {literals} of the scan"
    more = f", {slow:,} backtracking" if slow else ""
    return f"{count_noun(len(predicates), 'expression')} ({prefiltered}, {len(everywhere):,} on every distinct text{more})"


@dataclass(frozen=True, slots=True)
class Pattern(TextPredicate):
    """A regular expression is found in a text: one of RE2, or, if RE2 does not support it, of Python's package ``regex``.

    ``literals``: every text with a match contains one of these, in any case; empty if none is known.
    """

    sigma_types: ClassVar[Mapping[str, SigmaBuilder]] = {"SigmaRegularExpression": _sigma_regex}
    keyword_types: ClassVar[frozenset[str]] = frozenset(sigma_types)
    has_text_test: ClassVar[bool] = True

    field: str
    pattern: str
    literals: tuple[str, ...] = ()

    def bind(self, schema: Schema) -> Condition:
        """On any type of column."""
        return Leaf(self) if has_field(schema, self.field) else FALSE

    @property
    def words(self) -> str:
        """Such as ``name like 'a.*b'``."""
        return f"{self.field} like {self.pattern!r}"

    @property
    def backtracks(self) -> bool:
        """Whether it runs text by text, in limited time."""
        from etl.rules.search.regex_search import choose_engine

        return choose_engine(self.pattern) == "regex"

    def slow_reason(self) -> str | None:
        """It backtracks, or has no literal to search for first."""
        if self.backtracks:
            return f"{self.pattern!r} backtracks, text by text"
        if not self.literals:
            return f"{self.pattern!r} has no text that must be there: it is tried on every distinct text"
        return None

    def text_test(self, field: str, row: int, switches: Switches) -> TextTest:
        """RE2, an automaton, or the package ``regex``; prefiltered by literals."""
        from etl.rules.engine.text_tests import pattern_test

        return pattern_test(self, row, switches)

    summarize = staticmethod(summarize_expressions)
