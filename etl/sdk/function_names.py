"""What the generated functions of ``fn`` share: calls of aggregates, and hints for names that do not exist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from etl.api import nearest
from etl.sdk.columns import Column, call


def aggregate(function: str, arguments: Sequence[object], distinct: bool = False) -> Column:
    """A call of an aggregate. Raises TypeError for a text where the field of its name is meant, as in PySpark."""
    if arguments and isinstance(arguments[0], str):
        name = arguments[0]
        raise TypeError(
            f"{function}() of the text {name!r}: write fn.{function}(col({name!r})) for the field, or lit({name!r}) for the text"
        )
    return call(function, arguments, distinct)


class FunctionNames:
    """What the functions have in common: a misspelt name is reported with the nearest right one."""

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.startswith("__")]

    if not TYPE_CHECKING:  # else every misspelt name would pass the type checker

        def __getattr__(self, name: str) -> NoReturn:
            hint = nearest(name, dir(self)) or "one of your own is made by @function; any other stands in expr('…')"
            raise AttributeError(f"there is no function {name!r}; {hint}", name=name, obj=self)
