"""The argument and the filter of an aggregate, evaluated over batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass

import pyarrow as pa
import pyarrow.compute as pc

from etl.aggregates.calls import TextPart
from etl.api import Schema, cut
from etl.expressions import CompiledExpression, Evaluation, analyse, compile_expression
from etl.state.aggregates.accumulator import FailedRowsError

_MAX_REASON = 500
"""Characters of an expression's failure that a message shows."""


@dataclass(frozen=True)
class AggregateArgument:
    """``x`` of ``sum(x) filter (where c)``."""

    aggregate: str
    """The text of the aggregate, for messages."""

    type: pa.DataType
    value: CompiledExpression | None
    """None for ``*``."""

    where: CompiledExpression | None

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray | None:
        """The events that meet the filter, without nulls; None if all do."""
        if self.where is None:
            return None
        found = self.where(batch)
        self._raise_failure(found, None)
        return pc.fill_null(found.values.cast(pa.bool_()), False)

    def values(self, batch: pa.RecordBatch, given: pa.BooleanArray | None = None) -> pa.Array:
        """The argument of each event; null for events that do not meet the filter. Of ``type``, unless that is unknown.

        With ``given``, which meets the filter already, it is computed for these events only.
        """
        assert self.value is not None
        mask, found = self.mask(batch) if given is None else given, self.value(batch)
        self._raise_failure(found, mask)
        as_it_is = found.values.type == self.type or pa.types.is_null(self.type)
        values = found.values if as_it_is else found.values.cast(self.type)
        return values if mask is None else pc.if_else(mask, values, pa.scalar(None, values.type))

    def _raise_failure(self, found: Evaluation, mask: pa.BooleanArray | None) -> None:
        """Raise FailedRowsError if the expression failed for events that count."""
        if found.failed is None or found.reasons is None:
            return
        failed = pc.indices_nonzero(found.failed if mask is None else pc.and_(found.failed, mask))
        if len(failed):
            reasons = (cut(str(reason), _MAX_REASON) for reason in found.reasons.take(failed).to_pylist())
            hint = "use a try_ function such as try_cast, or a filter (where …) that leaves such events out"
            raise FailedRowsError(self.aggregate, dict(zip(failed.to_pylist(), reasons, strict=True)), hint)


def read_argument(aggregate: str, value: TextPart, where: TextPart | None, incoming: Schema) -> AggregateArgument | str:
    """The argument, or the reason why Arrow cannot evaluate it."""
    parts = [part for part in (value, where) if part is not None and part.text != "*"]
    for part in parts:
        reason = analyse(part.text, incoming).spark_reason
        if reason:
            return reason
    condition = compile_expression(where.text, incoming) if where else None
    if value.text == "*":
        return AggregateArgument(aggregate, pa.null(), None, condition)
    return AggregateArgument(aggregate, analyse(value.text, incoming).type, compile_expression(value.text, incoming), condition)


def check_arguments(events: pa.RecordBatch, owners: Iterable[object]) -> None:
    """Evaluate the arguments of aggregates over events before their rows are kept. Raises FailedRowsError."""
    for one in (found for owner in owners for found in arguments_in(owner)):
        if one.value is None:
            one.mask(events)
        else:
            one.values(events)


def arguments_in(owner: object) -> Iterator[AggregateArgument]:
    """The arguments that an aggregate has, or those of the aggregate that it is made of."""
    if isinstance(owner, AggregateArgument):
        yield owner
    elif isinstance(owner, tuple):
        for one in owner:
            yield from arguments_in(one)
    elif is_dataclass(owner):
        for field in fields(owner):
            yield from arguments_in(getattr(owner, field.name))
