"""Parts of times: minute, hour, day, week, month, year."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pyarrow as pa

from etl.api import Schema
from etl.rules.conditions.column_types import has_field
from etl.rules.conditions.tree import FALSE, Condition, Leaf
from etl.rules.predicates.predicate import Predicate, SigmaBuilder
from etl.rules.predicates.sql import Sql, quote_name

TimeUnit = Literal["minute", "hour", "day", "week", "month", "year"]

_FUNCTIONS = {"week": "weekofyear"}
"""Spark's functions that have another name than the unit."""


def _sigma_timestamp_part(field: str, value: Any) -> Condition:
    return Leaf(TimePart(field, value.timestamp_part.name.lower(), int(value.number)))


@dataclass(frozen=True, slots=True)
class TimePart(Predicate):
    """A part of a time, in UTC, is ``number``; a text is read as ISO 8601."""

    sigma_types: ClassVar[Mapping[str, SigmaBuilder]] = {"SigmaTimestampPart": _sigma_timestamp_part}

    field: str
    unit: TimeUnit
    number: int

    def bind(self, schema: Schema) -> Condition:
        """As Spark SQL, of a timestamp or a cast to one."""
        if not has_field(schema, self.field):
            return FALSE
        field = quote_name(self.field)
        time = field if pa.types.is_timestamp(schema.field(self.field).type) else f"try_cast({field} as timestamp)"
        return Leaf(Sql(f"{_FUNCTIONS.get(self.unit, self.unit)}({time}) = {self.number}", (self.field,)))

    @property
    def words(self) -> str:
        """Such as ``hour of time = 3``."""
        return f"{self.unit} of {self.field} = {self.number}"
