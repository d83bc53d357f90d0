"""Whether a field has a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from etl.api import Schema
from etl.rules.conditions.column_types import has_field
from etl.rules.conditions.tree import FALSE, Condition, Leaf
from etl.rules.predicates.predicate import Predicate, SigmaBuilder, SqlBuilder
from etl.rules.predicates.sql_nodes import is_column
from etl.rules.wording import count_noun

if TYPE_CHECKING:
    from etl.rules.engine.bitsets import Bits
    from etl.rules.engine.column_texts import Column
    from etl.rules.engine.evaluators import EvaluatorContext, EvaluatorFactory


def _sigma_null(field: str, value: Any) -> Condition:
    return Leaf(Present(field), negated=True)


def _sigma_exists(field: str, value: Any) -> Condition:
    return Leaf(Present(field), negated=not value.exists)


def _sql_is_null(node: Any, field: str, type_: pa.DataType) -> Condition | None:
    is_null = is_column(node.this) and type(node.expression).__name__ == "Null"
    return Leaf(Present(field), negated=True) if is_null else None


@dataclass(frozen=True, slots=True)
class Present(Predicate):
    """The field has a value: it is not null."""

    sigma_types: ClassVar[Mapping[str, SigmaBuilder]] = {"SigmaNull": _sigma_null, "SigmaExists": _sigma_exists}
    sql_nodes: ClassVar[Mapping[str, SqlBuilder]] = {"Is": _sql_is_null}

    field: str

    def bind(self, schema: Schema) -> Condition:
        """On any type of column."""
        return Leaf(self) if has_field(schema, self.field) else FALSE

    def group(self, number: int, schema: Schema) -> tuple[EvaluatorFactory, str]:
        """One evaluator for the predicates on one field."""
        return PresentEvaluator, self.field

    @property
    def expected_share(self) -> float:
        """Most events have a value."""
        return 1.0

    @property
    def words(self) -> str:
        """Such as ``name is not null``."""
        return f"{self.field} is not null"

    @staticmethod
    def summarize(predicates: Sequence[Present]) -> str:
        """By the validity bitmap."""
        return f"{count_noun(len(predicates), 'test')} for null"


class PresentEvaluator:
    """Evaluates whether one column has values."""

    deferred: frozenset[int] = frozenset()

    def __init__(self, field: str, predicates: Sequence[tuple[int, Present]], context: EvaluatorContext) -> None:
        self._field, self._predicates = field, predicates

    def evaluate(self, batch: pa.RecordBatch, columns: Mapping[str, Column], bits: Bits) -> None:
        """Set the bits of the rows with a value."""
        array = columns[self._field].array
        nulls = array.null_count
        for number, _ in self._predicates:
            if nulls == 0:
                bits.put_everywhere(number)
            elif nulls < len(array):
                bits.put(number, array.is_valid())
