"""Types of columns that contain texts or lists."""

from __future__ import annotations

import pyarrow as pa

TEXT_TYPES = (pa.string(), pa.large_string(), pa.string_view())


def is_list_type(type_: pa.DataType) -> bool:
    """Return whether values of a type are lists."""
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_))
