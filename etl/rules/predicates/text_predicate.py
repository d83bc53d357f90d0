"""The base class of predicates that are evaluated on the texts of one field, all in one pass over the field's texts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from etl.api import Schema
from etl.rules.predicates.predicate import Predicate

if TYPE_CHECKING:
    from etl.rules.engine.batch_engine import Switches
    from etl.rules.engine.evaluators import EvaluatorFactory, TextFinder
    from etl.rules.engine.text_tests import TextTest
    from etl.rules.search.literals import Literal


class TextPredicate(Predicate):
    """A test of a text, by literals, by a test of the whole text, or by a finder: a family overrides one of these methods."""

    __slots__ = ()

    is_tested: ClassVar[bool] = False
    """Whether `text_test` decides."""

    @property
    def is_deferrable(self) -> bool:
        """Whether its literals may be searched for only in the rows where a rule that needs it may match."""
        return False

    def group(self, number: int, schema: Schema) -> tuple[EvaluatorFactory, str]:
        """All text predicates of a field are evaluated together."""
        from etl.rules.engine.text_field import TextField

        return TextField, self.field

    def literals_to_find(self, number: int) -> Iterable[Literal]:
        """The literals that decide: the predicate holds for the texts with one of them."""
        return ()

    def finder(self) -> TextFinder | None:
        """The class that finds the texts for which predicates of this family hold; called with all of a field, by number."""
        return None

    def text_test(self, of: str, row: int, switches: Switches) -> TextTest:
        """The test of whole texts of the field ``of``; ``row`` is its row in the field's table of outcomes."""
        raise NotImplementedError
