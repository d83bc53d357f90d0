"""The base class of predicates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

from etl.api import Schema, cut
from etl.rules.wording import count_noun

if TYPE_CHECKING:
    import pyarrow as pa

    from etl.rules.conditions.tree import Condition
    from etl.rules.engine.evaluators import EvaluatorFactory

ANY_FIELD = ""
"""The field of a keyword: it stands for each text field of the event."""

LONGEST = 60
"""Characters of a predicate that messages show."""

TextKind = Literal["equals", "contains", "startswith", "endswith"]

SigmaBuilder: TypeAlias = "Callable[[str, Any], Condition]"
"""Field and value of pySigma → condition. Raises UnsupportedError."""

SqlBuilder: TypeAlias = "Callable[[Any, str, pa.DataType], Condition | None]"
"""A node of a Spark SQL expression, its only field and the field's type → condition; None if the node has no such form."""


class UnsupportedError(ValueError):
    """A value of a Sigma rule that cannot be evaluated; the message says why."""


class Predicate:
    """A test of one event that rules share: a frozen dataclass. Equal predicates of all rules are evaluated once."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def field(self) -> str:
            """The field that is tested; a family without it overrides what depends on it."""
            raise NotImplementedError

    sigma_types: ClassVar[Mapping[str, SigmaBuilder]] = {}
    """The types of pySigma's values that this family evaluates, by class name."""

    keyword_types: ClassVar[frozenset[str]] = frozenset()
    """Those of `sigma_types` that may be keywords, whose field is `ANY_FIELD`."""

    sql_nodes: ClassVar[Mapping[str, SqlBuilder]] = {}
    """The nodes of Spark SQL expressions that this family evaluates, by sqlglot's class name."""

    sql_functions: ClassVar[Mapping[str, Callable[[str, Sequence[str]], Condition | None]]] = {}
    """The functions of a text field and constant texts that this family evaluates, by name."""

    def bind(self, schema: Schema) -> Condition:
        """The condition over predicates that can be evaluated on columns of these types; false if the field is missing."""
        raise NotImplementedError

    def group(self, number: int, schema: Schema) -> tuple[EvaluatorFactory, str]:
        """The class that evaluates it on columns of these types, and its group: one object evaluates all predicates of a group.

        The group is a field, or the number of a predicate that is evaluated alone.
        """
        raise NotImplementedError

    @property
    def field_names(self) -> frozenset[str]:
        """The fields that it tests."""
        return frozenset([self.field])

    @property
    def expected_share(self) -> float:
        """The share of events for which it may hold, as a guess before events are observed."""
        return 0.1

    @property
    def words(self) -> str:
        """The predicate in words."""
        return str(self)

    def describe(self) -> str:
        """The first `LONGEST` characters of `words`, and an ellipsis if there are more."""
        return cut(self.words, LONGEST)

    def slow_reason(self) -> str | None:
        """Why it is slow, for a report on rules; None if it is not."""
        return None

    def renamed(self, names: Mapping[str, str]) -> Self:
        """The same test of other fields: ``names`` maps old names to new ones."""
        return replace(self, field=names.get(self.field, self.field))  # type: ignore[type-var]

    @staticmethod
    def summarize(predicates: Sequence[Any]) -> str:
        """How several predicates of this family on one field are evaluated, for `etl explain`."""
        return count_noun(len(predicates), "predicate")
