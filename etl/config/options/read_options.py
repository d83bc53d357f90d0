"""Which options a component reads while it computes something: the result cannot depend on the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from etl.api import Component

Result = TypeVar("Result")
AnyComponent = TypeVar("AnyComponent", bound=Component)

_WHOLE = ("__dict__", "__pydantic_fields_set__")
"""Attributes that copies and dumps read: they count as all options."""


def with_reads(component: AnyComponent, compute: Callable[[AnyComponent], Result]) -> tuple[Result, frozenset[str]]:
    """The result of ``compute``, and the attributes of the component that it read."""
    cls = type(component)
    names = frozenset(cls.model_fields)
    read: set[str] = set()

    def record(self: Any, name: str) -> Any:
        if name in names:
            read.add(name)
        elif name in _WHOLE:
            read.update(names)
        return super(recording, self).__getattribute__(name)

    # without pydantic's metaclass, which would build a schema for the class
    recording: Any = type.__new__(type(cls), cls.__name__, (cls,), {"__getattribute__": record, "__slots__": ()})
    watched = component.model_copy()
    object.__setattr__(watched, "__class__", recording)
    read.clear()
    return compute(watched), frozenset(read)
