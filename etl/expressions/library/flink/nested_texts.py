"""Texts of arrays, maps and rows as Flink casts them: ``[1, 2, NULL]``, ``{a=1}``, ``(1, a)``."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def show(type_: pa.DataType, value: Any) -> str:
    """The text of a Python value of a type."""
    if value is None:
        return "NULL"
    if pa.types.is_map(type_):
        return "{" + ", ".join(f"{show(type_.key_type, key)}={show(type_.item_type, item)}" for key, item in value) + "}"
    if pa.types.is_list(type_):
        return "[" + ", ".join(show(type_.value_type, item) for item in value) + "]"
    if pa.types.is_struct(type_):
        return "(" + ", ".join(show(field.type, value[field.name]) for field in type_) + ")"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        from etl.expressions.library.flink.casts import double_to_text

        return str(double_to_text(pa.scalar(value, type_)).as_py())
    return str(value)
