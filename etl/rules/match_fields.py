"""What a match tells of its rule, as fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pyarrow as pa

from etl.api import Schema, with_fields

Output = Literal["matches", "annotate", "alerts"]

TOLD = pa.struct(
    [
        ("id", pa.string()),
        ("title", pa.string()),
        ("level", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("author", pa.string()),
        ("version", pa.string()),
    ]
)
"""``version`` is that of the whole set of rules."""

LIST, ONE = "rules", "rule"
"""The field with all rules of an event, and the one with that of an alert."""


def told_type(metadata: Sequence[str]) -> pa.StructType:
    """What a match tells, with these keys of the rules' metadata."""
    return pa.struct([*TOLD, *((name, pa.string()) for name in metadata)])


def fields_behind(output: Output, metadata: Sequence[str], incoming: Schema) -> Schema:
    """The fields of the events that leave."""
    told = told_type(metadata)
    if output == "alerts":
        return with_fields(incoming, {f"{ONE}.{member.name}": member.type for member in told})
    return with_fields(incoming, {LIST: pa.list_(told)})
