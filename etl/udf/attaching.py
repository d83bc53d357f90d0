"""Giving the expressions of a step the functions of the user that they call."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

from pydantic import BaseModel

from etl.options import CallingText
from etl.udf.declaration import Functions, UserFunction, with_functions

_CALL = re.compile(r"([A-Za-z_]\w*)`?\s*\(")

Model = TypeVar("Model", bound=BaseModel)


@runtime_checkable
class NamesFunctions(Protocol):
    """A step with options that name functions, beside expressions that call them."""

    def named_functions(self) -> Mapping[tuple[str | int, ...], str]:
        """Path of an option → the function that it names."""

    def with_functions(self, functions: Functions) -> Self:
        """The step with these of the functions."""

    @property
    def functions(self) -> Sequence[UserFunction]:
        """The functions; none before they are known."""


def attach(model: Model, functions: Functions) -> Model:
    """The model with functions in each text that may call them; the same model if none does."""
    if isinstance(model, NamesFunctions):
        model = model.with_functions(functions)
    changed = {
        name: after
        for name in type(model).model_fields
        if (after := _attach(before := getattr(model, name), functions)) is not before
    }
    return model.model_copy(update=changed) if changed else model


def called_functions(value: Any) -> Iterator[UserFunction]:
    """The functions that the texts in a value call; each as often as it stands there."""
    if isinstance(value, CallingText):
        yield from value.functions
    elif isinstance(value, BaseModel):
        if isinstance(value, NamesFunctions):
            yield from value.functions
        yield from called_functions([getattr(value, name) for name in type(value).model_fields])
    elif isinstance(value, (list, tuple, Mapping)):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from called_functions(one)


def _attach(value: Any, functions: Functions) -> Any:
    """A value of an option, itself where nothing in it calls a function."""
    if isinstance(value, str):
        named = {name.lower() for name in _CALL.findall(value)} & functions.keys()
        return with_functions(value, [functions[name] for name in sorted(named)]) if named else value
    if isinstance(value, BaseModel):
        return attach(value, functions)
    if isinstance(value, Mapping):
        items = {key: _attach(one, functions) for key, one in value.items()}
        return items if any(one is not value[key] for key, one in items.items()) else value
    if isinstance(value, (list, tuple)):
        several = [_attach(one, functions) for one in value]
        return type(value)(several) if any(one is not other for one, other in zip(several, value, strict=True)) else value
    return value
