"""Binds calls of the user's functions. They run on Arrow; what only Spark computes cannot be an argument."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import format_type
from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError
from etl.expressions.casts import cast
from etl.expressions.rows import ActiveRows, broadcast
from etl.expressions.widening import INTEGERS, NULL
from etl.udf.annotations import describe
from etl.udf.declaration import Parameter, UserFunction

if TYPE_CHECKING:
    from etl.udf.calling import FunctionCaller

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def bind_call(function: UserFunction, args: Sequence[BoundNode]) -> BoundNode:
    """A call of a scalar or table function. Raises MisuseError for arguments that it does not take."""
    if function.is_broken:
        return b.spark_only(f"{function.name}() has errors")
    if function.form == "aggregate":
        raise MisuseError(
            f"{function.name}() aggregates many events, and this expression is computed for each event; use a window",
            "bad-expression",
        )
    if function.takes_events:
        raise MisuseError(f"{function.name}() takes whole events: a step calls it, such as python", "bad-expression")
    if not function.required <= len(args) <= len(function.parameters):
        raise MisuseError(_count_message(function, len(args)))
    given = [_argument(function, at, arg) for at, arg in enumerate(args)]
    call = _Call(function)
    return b.apply_failing(function.result, call, *given) if given else BoundNode(function.result, call, fails=True)


def _count_message(function: UserFunction, count: int) -> str:
    maximum, minimum = len(function.parameters), function.required
    accepted = str(maximum) if maximum == minimum else f"{minimum} to {maximum}"
    arguments = "argument" if accepted == "1" else "arguments"
    return f"{function.name}() takes {accepted} {arguments}, and here {'is' if count == 1 else 'are'} {count}"


def _argument(function: UserFunction, at: int, arg: BoundNode) -> BoundNode:
    parameter = function.parameters[at]
    if parameter.constant and not arg.is_literal:
        raise MisuseError(
            f"{function.name}() takes a constant as its {_ordinal(at)} argument ({parameter.name})",
            hint="its annotation is that of a single value; annotate an array to take a field",
        )
    if parameter.type is None or arg.unknown or arg.type == parameter.type:
        return arg
    if not is_taken(arg.type, parameter.type):
        accepted, found = describe(parameter.type), describe(arg.type)
        raise MisuseError(
            f"{function.name}() takes {accepted} as its {_ordinal(at)} argument ({parameter.name}), and this is {found}",
            hint=_hint(parameter),
        )
    return cast(arg, parameter.type)


def _hint(parameter: Parameter) -> str | None:
    if parameter.type is None or pa.types.is_nested(parameter.type):
        return None
    return f"cast(x as {format_type(parameter.type)})"


def is_taken(found: pa.DataType, target: pa.DataType) -> bool:
    """Whether values of one type are passed as another: null, whole numbers as wider ones, numbers as fractions."""
    if found in (NULL, target):
        return True
    if pa.types.is_floating(target):
        return bool(found in INTEGERS or pa.types.is_decimal(found) or found == pa.float32())
    return found in INTEGERS and target in INTEGERS and found.bit_width <= target.bit_width


def _ordinal(at: int) -> str:
    return _ORDINALS[at] if at < len(_ORDINALS) else f"{at + 1}th"


class _Call:
    """A bound call. It loads the code when it is evaluated first."""

    def __init__(self, function: UserFunction) -> None:
        self._function = function
        self._caller: FunctionCaller | None = None

    def __call__(self, rows: ActiveRows, *values: Any) -> pa.Array:
        """The result for the active rows; rows for which the call failed are marked as failed."""
        if self._caller is None:
            from etl.udf.calling import FunctionCaller

            self._caller = FunctionCaller(self._function)
        return _call(self._caller, rows, values)


def _call(caller: FunctionCaller, rows: ActiveRows, values: Sequence[Any]) -> pa.Array:
    active = None if rows.active is None or rows.active.true_count == rows.length else pc.indices_nonzero(rows.active)
    length = rows.length if active is None else len(active)
    given = []
    for value, parameter in zip(values, caller.function.parameters, strict=False):
        if active is None and isinstance(value, pa.Array) and not parameter.constant:
            given.append(value)
        elif parameter.constant:
            given.append(value.as_py())
        else:
            array = broadcast(value, rows.length)
            given.append(array if active is None else array.take(active))
    found = caller(given, length)
    if found.failures:
        rows.fail(*_failed_rows(found.failures, length, active, rows.length))
    return found.values if active is None else _scatter(found.values, active, rows.length)


def _failed_rows(
    failures: Mapping[int, str], length: int, active: pa.Array | None, total: int
) -> tuple[pa.BooleanArray, pa.StringArray]:
    """Which of all rows failed, and why."""
    reasons = pa.array([failures.get(row) for row in range(length)], pa.string())
    if active is not None:
        reasons = _scatter(reasons, active, total)
    return reasons.is_valid(), reasons


def _scatter(values: pa.Array, active: pa.Array, length: int) -> pa.Array:
    """Values of the active rows as those of all rows, null elsewhere."""
    import numpy as np

    source = np.full(length, -1)
    source[active.to_numpy()] = np.arange(len(active))
    return values.take(pa.array(source, mask=source < 0))
