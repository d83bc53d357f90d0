"""Names of the fields of a window's results."""

from __future__ import annotations

import pyarrow as pa

from etl.api import nested_schema


def name_conflict(names: list[str]) -> str | None:
    """The contradiction between these names, None when there is none."""
    for at, name in enumerate(names):
        if name in names[:at]:
            return f"two fields of the result are named {name!r}"
    try:
        nested_schema(pa.schema([(name, pa.null()) for name in names]))
    except ValueError as error:
        return str(error)
    return None
