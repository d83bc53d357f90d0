"""The base class of predicates on texts. All text predicates of a field are evaluated in one pass over its texts."""

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
    """A predicate on a text. A family overrides one method: `literals_to_find`, `text_test` or `make_finder`."""

    __slots__ = ()

    has_text_test: ClassVar[bool] = False
    """Whether `text_test` evaluates the predicate."""

    @property
    def is_deferrable(self) -> bool:
        """Whether the search for its literals may be limited to the rows where a rule that needs it may match."""
        return False

    def group(self, number: int, schema: Schema) -> tuple[EvaluatorFactory, str]:
        """Return one group for all text predicates of a field."""
        from etl.rules.engine.text_field import TextField

        return TextField, self.field

    def literals_to_find(self, number: int) -> Iterable[Literal]:
        """Return literals: the predicate holds for exactly the texts that contain one of them."""
        return ()

    def make_finder(self) -> TextFinder | None:
        """Return the function that makes a search for all predicates of this family on one field, given by number."""
        return None

    def text_test(self, field: str, row: int, switches: Switches) -> TextTest:
        """Return the test of whole texts of this field; ``row`` is its row in the field's table of outcomes."""
        raise NotImplementedError
