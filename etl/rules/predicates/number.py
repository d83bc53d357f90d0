"""Numbers: equal, less, greater."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import Schema
from etl.rules.conditions.column_types import TEXT_TYPES, has_field
from etl.rules.conditions.tree import FALSE, Condition, Leaf, negate
from etl.rules.predicates.predicate import ANY_FIELD, Predicate, SigmaBuilder, SqlBuilder
from etl.rules.predicates.sql import Sql, quote_name
from etl.rules.predicates.sql_nodes import is_column
from etl.rules.predicates.text import Text
from etl.rules.wording import count_noun

if TYPE_CHECKING:
    from etl.rules.engine.bitsets import Bits
    from etl.rules.engine.column_texts import Column
    from etl.rules.engine.evaluators import EvaluatorContext, EvaluatorFactory

Order = Literal["=", "<", "<=", ">", ">="]

_COMPARE = {"<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}
_LARGEST_LITERAL = 1 << 31
"""Spark reads larger whole numbers as another type."""


def _sigma_number(field: str, value: Any) -> Condition:
    """A keyword that is a number is searched for as a text."""
    return Leaf(Text(field, "contains", str(value)) if field == ANY_FIELD else Number(field, "=", value.number))


def _sigma_comparison(field: str, value: Any) -> Condition:
    from sigma.types import CompareOperators as Op

    operators: Mapping[Any, Any] = {Op.LT: "<", Op.LTE: "<=", Op.GT: ">", Op.GTE: ">="}
    if value.op not in operators:
        return negate(Leaf(Number(field, "=", value.number.number)))
    return Leaf(Number(field, operators[value.op], value.number.number))


def _sql_comparison(order: Order) -> SqlBuilder:
    def build(node: Any, field: str, type_: pa.DataType) -> Condition | None:
        value = node.expression
        whole = type(value).__name__ == "Literal" and not value.args.get("is_string") and str(value.this).isdigit()
        if not is_column(node.this) or not whole or not pa.types.is_integer(type_):
            return None
        return Leaf(Number(field, order, int(value.this))) if int(value.this) < _LARGEST_LITERAL else None

    return build


@dataclass(frozen=True, slots=True)
class Number(Predicate):
    """A number compares so with ``value``. A text that is not a number does not match."""

    sigma_types: ClassVar[Mapping[str, SigmaBuilder]] = {
        "SigmaNumber": _sigma_number,
        "SigmaCompareExpression": _sigma_comparison,
    }
    keyword_types: ClassVar[frozenset[str]] = frozenset({"SigmaNumber"})
    sql_nodes: ClassVar[Mapping[str, SqlBuilder]] = {
        "EQ": _sql_comparison("="),
        "LT": _sql_comparison("<"),
        "LTE": _sql_comparison("<="),
        "GT": _sql_comparison(">"),
        "GTE": _sql_comparison(">="),
    }

    field: str
    order: Order
    value: int | float

    def bind(self, schema: Schema) -> Condition:
        """On numbers by order; on other types equality as a text, order of texts by a cast."""
        if not has_field(schema, self.field):
            return FALSE
        type_ = schema.field(self.field).type
        if pa.types.is_integer(type_) or pa.types.is_floating(type_):
            return Leaf(self)
        if self.order == "=":
            return Leaf(Text(self.field, "equals", _format_number(self.value)))
        if type_ not in TEXT_TYPES:
            return FALSE
        where = f"try_cast({quote_name(self.field)} as double) {self.order} {float(self.value)!r}D"
        return Leaf(Sql(where, (self.field,)))

    def group(self, number: int, schema: Schema) -> tuple[EvaluatorFactory, str]:
        """One evaluator for the predicates on one field."""
        return NumberEvaluator, self.field

    @property
    def expected_share(self) -> float:
        """Equality is rarer than order."""
        return 0.05 if self.order == "=" else 0.1

    @property
    def words(self) -> str:
        """Such as ``port > 1024``."""
        return f"{self.field} {self.order} {self.value}"

    @staticmethod
    def summarize(predicates: Sequence[Number]) -> str:
        """By order."""
        return f"{count_noun(len(predicates), 'number')} by order"


def _format_number(value: int | float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(value)


class NumberEvaluator:
    """Evaluates comparisons of one column of numbers; all equalities by one look-up of the values."""

    deferred: frozenset[int] = frozenset()

    def __init__(self, field: str, predicates: Sequence[tuple[int, Number]], context: EvaluatorContext) -> None:
        self._field = field
        self._equal = [(number, one.value) for number, one in predicates if one.order == "="]
        self._ordered = [(number, one) for number, one in predicates if one.order != "="]

    def evaluate(self, batch: pa.RecordBatch, columns: Mapping[str, Column], bits: Bits) -> None:
        """Set the bits of the rows for which they hold."""
        array = columns[self._field].array
        if self._equal:
            self._evaluate_equal(array, bits)
        for number, one in self._ordered:
            bits.put(number, _COMPARE[one.order](array, pa.scalar(one.value)))

    def _evaluate_equal(self, array: pa.Array, bits: Bits) -> None:
        import numpy as np

        from etl.rules.engine.text_cache import Hits
        from etl.rules.engine.text_cache_kernel import group_by_text

        fitting = [(number, value) for number, value in self._equal if _fits(value, array.type)]
        if not fitting:
            return
        known = list(dict.fromkeys(value for _, value in fitting))
        found = pc.index_in(array, value_set=pa.array(known, array.type))
        rows = pc.indices_nonzero(pc.is_valid(found)).to_numpy().astype(np.int64)
        which = found.drop_null().to_numpy().astype(np.int32)
        first = np.zeros(len(known) + 2, np.int64)
        predicates = np.empty(len(fitting), np.int32)
        values = np.array([known.index(value) for _, value in fitting], np.int64)
        group_by_text(values, np.array([number for number, _ in fitting], np.int64), first, predicates)
        bits.put_hits(which, rows, Hits(first[:-1], predicates))


def _fits(value: int | float, type_: pa.DataType) -> bool:
    try:
        return bool(pa.scalar(value, type_).as_py() == value)
    except (pa.ArrowException, OverflowError):
        return False
