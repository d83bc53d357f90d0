"""Which options a component looks at while it computes something: a result cannot depend on the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from etl.api import Component

Result = TypeVar("Result")
AnyComponent = TypeVar("AnyComponent", bound=Component)

_WHOLE = ("__dict__", "__pydantic_fields_set__")
"""What copies and dumps look at: all options at once."""


def with_reads(component: AnyComponent, compute: Callable[[AnyComponent], Result]) -> tuple[Result, frozenset[str]]:
    """The result of ``compute``, and the attributes of the component that it looked at."""
    cls = type(component)
    names = frozenset(cls.model_fields)
    read: set[str] = set()

    def look(self: Any, name: str) -> Any:
        if name in names:
            read.add(name)
        elif name in _WHOLE:
            read.update(names)
        return super(watching, self).__getattribute__(name)

    # made past pydantic's metaclass, which would build a schema for it
    watching: Any = type.__new__(type(cls), cls.__name__, (cls,), {"__getattribute__": look, "__slots__": ()})
    watched = component.model_copy()
    object.__setattr__(watched, "__class__", watching)
    read.clear()
    return compute(watched), frozenset(read)
