"""Partition fields as a user writes them: ``host``, ``day(timestamp)``, ``bucket(16, user.name)``."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types as kinds

TRANSFORMS = ("year", "month", "day", "hour", "bucket", "truncate")
"""Transforms of Iceberg (specification, "Partition Transforms") beside the identity."""

COUNTED = ("bucket", "truncate")
"""Transforms with a number: of buckets, of characters or the width of integers."""

PATTERN = r"[^\s(),]+|(year|month|day|hour)\([^\s(),]+\)|(bucket|truncate)\([1-9][0-9]{0,6}, ?[^\s(),]+\)"
"""How a partition field is written."""

_CALL = re.compile(r"(?P<transform>[a-z]+)\((?:(?P<count>\d+), ?)?(?P<field>[^\s(),]+)\)")


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A field by which a table is partitioned, with its transform; ``transform`` is ``identity`` without one."""

    field: str
    transform: str = "identity"
    count: int = 0

    @property
    def name(self) -> str:
        """Its name in the table's metadata, as Spark makes it."""
        return self.field if self.transform == "identity" else f"{self.field.replace('.', '_')}_{self.transform}"


def parse_partition_field(text: str) -> PartitionField:
    """Read a text that matches `PATTERN`."""
    found = _CALL.fullmatch(text)
    if found is None:
        return PartitionField(text)
    return PartitionField(found["field"], found["transform"], int(found["count"] or 0))


def transform_problem(field: PartitionField, type_: pa.DataType) -> str | None:
    """Why a field of this type cannot be a partition field, or None."""
    if field.transform == "identity":
        is_accepted = not (kinds.is_nested(type_) or kinds.is_floating(type_))
    elif field.transform in ("year", "month", "day"):
        is_accepted = kinds.is_timestamp(type_) or kinds.is_date(type_)
    elif field.transform == "hour":
        is_accepted = kinds.is_timestamp(type_)
    elif field.transform == "truncate":
        is_accepted = kinds.is_string(type_) or kinds.is_integer(type_) or kinds.is_decimal(type_) or kinds.is_binary(type_)
    else:
        is_accepted = not (kinds.is_nested(type_) or kinds.is_floating(type_) or kinds.is_boolean(type_))
    return None if is_accepted else f"{field.transform} does not accept {type_}"
