"""Names of options in calls of the builder: a misspelt one is reported with the nearest right one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from etl.api import nearest

Class = TypeVar("Class", bound=type)
Method = TypeVar("Method", bound=Callable[..., Any])


def checks_option_names(cls: Class) -> Class:
    """A class whose methods raise TypeError with a hint for an argument that they do not have."""
    for name, method in list(vars(cls).items()):
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(cls, name, checks_names(method))
    return cls


def checks_names(method: Method) -> Method:
    """A function that raises TypeError with a hint for an argument that it does not have."""
    code = method.__code__
    names = [name for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if name != "self"]
    known = frozenset(names)

    @wraps(method)
    def called(*values: Any, **options: Any) -> Any:
        for name in options.keys() - known:
            hint = nearest(name, names) or f"it has {', '.join(names)}"
            raise TypeError(f"{method.__name__}() has no option {name!r}; {hint}")
        return method(*values, **options)

    return called  # type: ignore[return-value]
