"""A function of the user as text for people: its call, how it is called, its documentation."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from etl.options import format_duration
from etl.types import format_type
from etl.udf.declaration import Parameter, UserFunction
from etl.udf.signature import parse_code

_HOW = {
    "arrow": "once for each batch, with Arrow arrays",
    "polars": "once for each batch, with Series of Polars",
    "numpy": "once for each batch, with NumPy arrays of the events without null",
    "values": "once for each event, with Python values",
}
_OF_STEPS = {
    "events": "the step python calls it with each event as a dict",
    "batches": "the step python calls it with record batches",
    "keyed": "the step keyed_python calls it with the events of a key and the state of the key",
    "timer": "the step keyed_python calls it with a key, the state of the key and the time, when a timer is due",
}


def describe_function(function: UserFunction) -> Iterator[str]:
    """Lines of text."""
    yield f"{signature_of(function)}, {function.code.path}:{function.line}"
    if text := _documentation(function):
        yield from ("", *text.splitlines())
    yield ""
    yield f"  {_OF_STEPS.get(function.form) or _calls(function)}; a call takes at most {format_duration(function.timeout)}"


def signature_of(function: UserFunction) -> str:
    """``domain(address: string) → string``"""
    if function.takes_events:
        return function.name
    given = ", ".join(_parameter(one) for one in function.parameters)
    return f"{function.name}({given}) → {format_type(function.result)}"


def _parameter(one: Parameter) -> str:
    kind = "any" if one.type is None else format_type(one.type)
    return f"{one.name}: {'constant ' if one.constant else ''}{kind}{'' if one.required else ', optional'}"


def _calls(function: UserFunction) -> str:
    if function.form == "aggregate":
        values = "each value" if function.kind == "values" else "the values of a group as an array"
        return f"an aggregate of windows, whose add is called with {values}"
    return f"expressions call it {_HOW[function.kind]}"


def _documentation(function: UserFunction) -> str | None:
    _, names = parse_code(function.code)
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | None = names.functions.get(function.attribute)
    node = node or names.classes.get(function.attribute)
    return ast.get_docstring(node) if node is not None else None
