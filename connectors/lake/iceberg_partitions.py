"""Partitions of an Iceberg table: their specification, the values of rows, records in manifests, and names of folders."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connectors.lake.partition_division import Key
from connectors.lake.partition_fields import PartitionField

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table

MAX_FOLDER_NAME = 200
"""Characters of a folder's name, which file systems limit to 255 bytes; all are of one byte."""

_CUT_ESCAPE = re.compile(r"%[0-9A-F]?$")


def partition_spec(schema: Any, fields: Sequence[PartitionField]) -> PartitionSpec:
    """The specification of a created table, for fields of its schema."""
    from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionSpec
    from pyiceberg.partitioning import PartitionField as SpecField
    from pyiceberg.transforms import parse_transform

    return PartitionSpec(
        *[
            SpecField(
                source_id=schema.find_field(one.field).field_id,
                field_id=PARTITION_FIELD_ID_START + number,
                transform=parse_transform(f"{one.transform}[{one.count}]" if one.count else one.transform),
                name=one.name,
            )
            for number, one in enumerate(fields)
        ]
    )


def spell_partition(name: str, transform: str, number: int) -> str:
    """A partition field as the option ``partition_by`` spells it: ``day(time)``, ``bucket(16, user)``."""
    if transform == "identity":
        return name
    return f"{transform}({f'{number}, ' if number else ''}{name})"


def describe_partition_field(table: Table, one: Any) -> str:
    """A partition field of a table as options spell it."""
    name = table.schema().find_column_name(one.source_id) or "?"
    transform, _, number = str(one.transform).rstrip("]").partition("[")
    return spell_partition(name, transform, int(number or 0))


def partition_values(transform: Any, values: pa.Array) -> pa.Array:
    """Values of a partition field."""
    if pa.types.is_string_view(values.type) or pa.types.is_dictionary(values.type):
        values = values.cast(pa.string())
    return transform(values)


def partition_record(spec: PartitionSpec, schema: Any, key: Key) -> Any:
    """A partition's values as Iceberg stores them."""
    from pyiceberg.partitioning import partition_record_value
    from pyiceberg.typedef import Record

    return Record(*[partition_record_value(one, value, schema) for one, value in zip(spec.fields, key, strict=True)])


def partition_folder(spec: PartitionSpec, schema: Any, key: Key) -> str:
    """The folder of a partition. Long names are cut, not within an escape: readers know partitions from manifests."""
    path = spec.partition_to_path(partition_record(spec, schema, key), schema)
    return "/".join(_CUT_ESCAPE.sub("", part[:MAX_FOLDER_NAME]) for part in path.split("/"))
