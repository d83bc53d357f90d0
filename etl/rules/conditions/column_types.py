"""Which types of columns hold texts, and which hold lists."""

from __future__ import annotations

import pyarrow as pa

TEXTS = (pa.string(), pa.large_string(), pa.string_view())


def is_list(type_: pa.DataType) -> bool:
    """Whether values are lists."""
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_))
