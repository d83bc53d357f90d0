"""Comparisons of two fields of an event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import Schema
from etl.rules.conditions.column_types import is_list_type
from etl.rules.conditions.tree import FALSE, Condition, Leaf
from etl.rules.predicates.predicate import Predicate, SigmaBuilder, TextKind
from etl.rules.wording import count_noun

if TYPE_CHECKING:
    from etl.rules.engine.bitsets import Bits
    from etl.rules.engine.column_texts import Column
    from etl.rules.engine.evaluators import EvaluatorContext, EvaluatorFactory

_KINDS: Mapping[tuple[bool, bool], TextKind] = {
    (False, False): "equals",
    (True, False): "startswith",
    (False, True): "endswith",
    (True, True): "contains",
}
"""By whether a reference has the modifiers ``startswith`` and ``endswith``."""


def _sigma_reference(field: str, value: Any) -> Condition:
    return Leaf(SameField(field, _KINDS[value.starts_with, value.ends_with], value.field))


@dataclass(frozen=True, slots=True)
class SameField(Predicate):
    """A text equals, contains, begins or ends with the text of another field of the event."""

    sigma_types: ClassVar[Mapping[str, SigmaBuilder]] = {"SigmaFieldReference": _sigma_reference}

    field: str
    kind: TextKind
    other: str
    cased: bool = False

    def bind(self, schema: Schema) -> Condition:
        """On columns of single values."""
        single = self.field_names <= set(schema.names) and not any(
            is_list_type(schema.field(name).type) for name in self.field_names
        )
        return Leaf(self) if single else FALSE

    def group(self, number: int, schema: Schema) -> tuple[EvaluatorFactory, str]:
        """Each alone."""
        return SameFieldEvaluator, str(number)

    @property
    def field_names(self) -> frozenset[str]:
        """Both."""
        return frozenset([self.field, self.other])

    @property
    def words(self) -> str:
        """Such as ``name equals the field user``."""
        return f"{self.field} {self.kind} the field {self.other}"

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Both fields."""
        return replace(self, field=names.get(self.field, self.field), other=names.get(self.other, self.other))

    @staticmethod
    def summarize(predicates: Sequence[SameField]) -> str:
        """Row by row, where a rule may match."""
        return count_noun(len(predicates), "comparison")


class SameFieldEvaluator:
    """Evaluates one comparison of two columns, in the rows where a rule may match."""

    def __init__(self, field: str, predicates: Sequence[tuple[int, SameField]], context: EvaluatorContext) -> None:
        ((self._number, self._predicate),) = predicates
        self.deferred = frozenset([self._number])

    def evaluate(self, batch: pa.RecordBatch, columns: Mapping[str, Column], bits: Bits) -> None:
        """It may hold everywhere."""
        bits.put_everywhere(self._number)

    def evaluate_rows(self, number: int, rows: Any, columns: Mapping[str, Column], bits: Bits) -> None:
        """Set the bits of those rows (int64[n]) for which it holds."""
        from etl.columns.texts import take_rows

        one, other = columns[self._predicate.field], columns[self._predicate.other]
        holds = compare_columns(self._predicate, take_rows(one.values, rows), take_rows(other.values, rows))
        bits.put_rows(number, rows[holds])


def compare_columns(predicate: SameField, one: pa.Array, other: pa.Array) -> Any:
    """Whether the predicate holds for the texts of two columns (bool[n]); for a null it does not."""
    import numpy as np

    from etl.columns.texts import Texts, materialize_array
    from etl.rules.search.comparison_kernel import compare_texts

    kinds = {"equals": 0, "contains": 1, "startswith": 2, "endswith": 3}
    texts = [materialize_array(array).cast(pa.string()) for array in (one, other)]
    left, right = (Texts.of(array if predicate.cased else pc.utf8_lower(array)) for array in texts)
    result = np.zeros(len(left.address), bool)
    compare_texts(left.address, left.length, right.address, right.length, kinds[predicate.kind], result)
    return result
