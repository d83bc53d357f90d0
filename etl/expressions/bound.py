"""An expression's node with its type known and, where there is one, its Arrow form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions.rows import Rows

EvaluateRows: TypeAlias = Callable[[Rows], Any]
"""Rows → an array of their length, or a scalar when the value is the same for all."""

_NO_LITERAL: Any = object()


@dataclass(frozen=True, slots=True)
class Bound:
    """A node: its type (``null`` when unknown), how Arrow computes it or why it cannot."""

    type: pa.DataType
    run: EvaluateRows | None = None
    reason: str | None = None
    """Why there is no Arrow form."""
    fails: bool = False
    """Whether evaluation can raise an error that Spark would raise."""
    value: Any = _NO_LITERAL
    """The Python value of a literal."""
    constant: bool = False
    """Whether no field is read, as in every literal."""

    @property
    def is_literal(self) -> bool:
        """Whether the value is written in the expression."""
        return self.value is not _NO_LITERAL

    @property
    def unknown(self) -> bool:
        """Whether only Spark knows the type."""
        return self.run is None and pa.types.is_null(self.type)


def or_unknown(made: Bound, *parts: Bound) -> Bound:
    """What was made of the parts; of unknown type where one of them is, for that may be the wider one."""
    return spark_only(made.reason or "", None) if any(part.unknown for part in parts) else made


def spark_only(reason: str, type_: pa.DataType | None = None) -> Bound:
    """A node that only Spark can compute."""
    return Bound(type_ if type_ is not None else pa.null(), reason=reason)


def literal(value: Any, type_: pa.DataType) -> Bound:
    """A constant. Its scalar is made when events come: Arrow imports pandas for it, and lint has no time for that."""
    scalar: list[Any] = []

    def run(rows: Rows) -> Any:
        if not scalar:
            scalar.append(pa.scalar(value, type_))
        return scalar[0]

    return Bound(type_, run, value=value, constant=True)


def column(name: str, type_: pa.DataType) -> Bound:
    """A field of the batch."""
    return Bound(type_, lambda rows: rows.columns[name])


def apply(type_: pa.DataType, kernel: Callable[..., Any], *args: Bound, backwards: bool = False) -> Bound:
    """A function that is null where an argument is null and never fails itself: ``kernel(*values)``."""
    return _called(type_, lambda rows, values: kernel(*values), args, any(arg.fails for arg in args), backwards)


def apply_failing(type_: pa.DataType, kernel: Callable[..., Any], *args: Bound, backwards: bool = False) -> Bound:
    """The same for a function that may fail on rows: ``kernel(rows, *values)`` tells ``rows.fail``."""
    return _called(type_, lambda rows, values: kernel(rows, *values), args, True, backwards)


def _called(
    type_: pa.DataType, call: Callable[[Rows, list[Any]], Any], args: tuple[Bound, ...], fails: bool, backwards: bool
) -> Bound:
    reason = first_reason(args)
    if reason:
        return spark_only(reason, type_)
    order = args[::-1] if backwards else args
    runs = [arg.run for arg in order if arg.run is not None]
    later = [arg.fails for arg in order[1:]] + [False]

    def run(rows: Rows) -> Any:
        values = []
        inside = rows
        for evaluate, narrow in zip(runs, later, strict=True):
            values.append(evaluate(inside))
            if narrow:  # Spark stops at the first null argument, so that errors of later ones do not show
                inside = inside.only(pc.is_valid(values[-1]))
        return call(rows, values[::-1] if backwards else values)

    return Bound(type_, run, fails=fails)


def first_reason(args: tuple[Bound, ...] | list[Bound]) -> str | None:
    """Why these cannot all run on Arrow."""
    return next((arg.reason for arg in args if arg.run is None), None)


def lazily(type_: pa.DataType, run: EvaluateRows, *parts: Bound) -> Bound:
    """A node that decides itself where its parts are evaluated."""
    reason = first_reason(parts)
    return spark_only(reason, type_) if reason else Bound(type_, run, fails=any(part.fails for part in parts))
