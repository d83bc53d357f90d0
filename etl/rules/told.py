"""What a match tells of its rule, as fields."""

from __future__ import annotations

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


def fields_behind(output: Output, incoming: Schema) -> Schema:
    """The fields of the events that leave."""
    if output == "alerts":
        return with_fields(incoming, {f"{ONE}.{member.name}": member.type for member in TOLD})
    return with_fields(incoming, {LIST: pa.list_(TOLD)})
