"""Questions about the nodes of Spark SQL expressions, as sqlglot has them; sqlglot itself is imported only to parse."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from etl.rules.conditions.column_types import TEXT_TYPES


def is_column(node: Any) -> bool:
    """Whether a node is a column alone."""
    return type(node).__name__ == "Column"


def text_of(node: Any) -> str | None:
    """The value of a text literal, None for any other node."""
    is_text = type(node).__name__ == "Literal" and node.args.get("is_string")
    return str(node.this) if is_text else None


def compares_text(node: Any, type_: pa.DataType) -> bool:
    """Whether a node compares a text column with a text literal."""
    return is_column(node.this) and type_ in TEXT_TYPES and text_of(node.expression) is not None
