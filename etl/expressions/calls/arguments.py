"""Arguments of functions: literals, casts to text, and the error for arguments that Spark refuses."""

from __future__ import annotations

import pyarrow as pa

from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.casts import cast
from etl.expressions.widening import INTEGERS, STRING


class MisuseError(ValueError):
    """A call that Spark refuses: ``code`` and ``hint`` are those of the finding."""

    def __init__(self, message: str, code: str = "wrong-type", hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


def as_text(value: BoundNode) -> BoundNode:
    """Spark's implicit cast to string."""
    return cast(value, STRING)


def text_literal(value: BoundNode) -> str | None:
    """The text of a text literal, else None."""
    return value.value if value.is_literal and isinstance(value.value, str) else None


def whole_literal(value: BoundNode) -> int | None:
    """The value of an integer literal that fits an int, else None."""
    return value.value if value.is_literal and value.type in INTEGERS and abs(value.value) < 2**31 else None


def no_arrow_form(what: str, type_: pa.DataType) -> BoundNode:
    """A call that only Spark can compute; ``what`` names it in the reason."""
    return b.spark_only(f"{what} has no Arrow form", type_)
