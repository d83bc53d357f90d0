"""Bound nodes of an expression: the node's type and, if there is one, its Arrow form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions.rows import ActiveRows

EvaluateRows: TypeAlias = Callable[[ActiveRows], Any]
"""Rows → an array of their length, or a scalar if the value is the same for all rows."""

_NO_LITERAL: Any = object()


@dataclass(frozen=True, slots=True)
class BoundNode:
    """A node: its type (``null`` if unknown), and its Arrow form or the reason why it has none."""

    type: pa.DataType
    run: EvaluateRows | None = None
    reason: str | None = None
    """Why there is no Arrow form."""
    fails: bool = False
    """Whether evaluation can fail rows."""
    value: Any = _NO_LITERAL
    """The Python value of a literal."""
    constant: bool = False
    """Whether it reads no field."""

    @property
    def is_literal(self) -> bool:
        """Whether the value is written in the expression."""
        return self.value is not _NO_LITERAL

    @property
    def unknown(self) -> bool:
        """Whether the type is known to Spark only."""
        return self.run is None and pa.types.is_null(self.type)


def or_unknown(made: BoundNode, *parts: BoundNode) -> BoundNode:
    """``made``, but of unknown type if the type of a part is unknown, because that part may determine the common type."""
    return spark_only(made.reason or "", None) if any(part.unknown for part in parts) else made


def spark_only(reason: str, type_: pa.DataType | None = None) -> BoundNode:
    """A node that only Spark can compute."""
    return BoundNode(type_ if type_ is not None else pa.null(), reason=reason)


def literal(value: Any, type_: pa.DataType) -> BoundNode:
    """A constant. Its scalar is made at the first evaluation, because Arrow imports pandas for it, which would delay lint."""
    scalar: list[Any] = []

    def run(rows: ActiveRows) -> Any:
        if not scalar:
            scalar.append(pa.scalar(value, type_))
        return scalar[0]

    return BoundNode(type_, run, value=value, constant=True)


def column(name: str, type_: pa.DataType) -> BoundNode:
    """A field of the batch."""
    return BoundNode(type_, lambda rows: rows.columns[name])


def apply(type_: pa.DataType, kernel: Callable[..., Any], *args: BoundNode, backwards: bool = False) -> BoundNode:
    """A call of ``kernel(*values)``, which is null if an argument is null, and fails no rows itself."""
    return _bind_call(type_, lambda rows, values: kernel(*values), args, any(arg.fails for arg in args), backwards)


def apply_failing(type_: pa.DataType, kernel: Callable[..., Any], *args: BoundNode, backwards: bool = False) -> BoundNode:
    """A call of ``kernel(rows, *values)``, which is null if an argument is null, and may fail rows with ``rows.fail``."""
    return _bind_call(type_, lambda rows, values: kernel(rows, *values), args, True, backwards)


def _bind_call(
    type_: pa.DataType, call: Callable[[ActiveRows, list[Any]], Any], args: tuple[BoundNode, ...], fails: bool, backwards: bool
) -> BoundNode:
    reason = first_reason(args)
    if reason:
        return spark_only(reason, type_)
    order = args[::-1] if backwards else args
    runs = [arg.run for arg in order if arg.run is not None]
    later = [arg.fails for arg in order[1:]] + [False]

    def run(rows: ActiveRows) -> Any:
        values = []
        inside = rows
        for evaluate, narrow in zip(runs, later, strict=True):
            values.append(evaluate(inside))
            if narrow:  # Spark evaluates no further arguments after a null one, so errors of later ones do not count
                inside = inside.narrow(pc.is_valid(values[-1]))
        return call(rows, values[::-1] if backwards else values)

    return BoundNode(type_, run, fails=fails)


def first_reason(args: tuple[BoundNode, ...] | list[BoundNode]) -> str | None:
    """The reason of the first argument without an Arrow form."""
    return next((arg.reason for arg in args if arg.run is None), None)


def lazily(type_: pa.DataType, run: EvaluateRows, *parts: BoundNode) -> BoundNode:
    """A node that chooses the rows for which its parts are evaluated."""
    reason = first_reason(parts)
    return spark_only(reason, type_) if reason else BoundNode(type_, run, fails=any(part.fails for part in parts))
