"""What an engine expects of the objects that evaluate predicates on a batch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import pyarrow as pa

from etl.api import Schema

if TYPE_CHECKING:
    from etl.columns.texts import Texts
    from etl.rules.engine.batch_engine import Switches
    from etl.rules.engine.bitsets import Bits
    from etl.rules.engine.column_texts import Column


@dataclass(frozen=True)
class EvaluatorContext:
    """What evaluators are built with, besides their predicates."""

    schema: Schema
    switches: Switches
    spent: dict[int, int]
    """Nanoseconds by predicate, for predicates that are timed alone."""


class PredicateEvaluator(Protocol):
    """Evaluates the predicates of one group, which have numbers."""

    @property
    def deferred(self) -> Collection[int]:
        """Predicates for which `evaluate` sets the rows where they may hold; `evaluate_rows` tests the rows that matter."""

    def evaluate(self, batch: pa.RecordBatch, columns: Mapping[str, Column], bits: Bits) -> None:
        """Set the bits of the rows for which the predicates hold."""


class DeferringEvaluator(PredicateEvaluator, Protocol):
    """An evaluator with deferred predicates."""

    def evaluate_rows(self, number: int, rows: Any, columns: Mapping[str, Column], bits: Bits) -> None:
        """Set the bits of those of some rows (int64[n]) for which a deferred predicate holds."""


EvaluatorFactory: TypeAlias = Callable[[str, Sequence[tuple[int, Any]], EvaluatorContext], PredicateEvaluator]
"""Group, its predicates by number, context → evaluator."""


class TextSearch(Protocol):
    """Finds the texts of one field for which predicates of one family hold."""

    def find(self, array: pa.Array, texts: Texts) -> Iterable[tuple[int, Any]]:
        """Numbers of predicates, each with the indexes of texts (int64[m])."""


TextFinder: TypeAlias = Callable[[Sequence[tuple[int, Any]]], TextSearch]
"""The predicates of a family on one field, by number → search."""
