"""Python values → the plain values of a pipeline file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Set
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from math import isfinite
from numbers import Integral, Real
from typing import Any, Final

import pyarrow as pa
from pydantic import BaseModel, SecretBytes, SecretStr

from etl.api import format_duration, format_type
from etl.config.model import OptionPath
from etl.config.problems import json_path
from etl.sdk.columns import Column, When

MAX_DEPTH = 60
"""Levels of lists and mappings, as many as a pipeline file may have."""


class Unset:
    """The default of every argument: an option that is not given is not written."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final[Any] = Unset()
"""The option has its default, which the docstring and the reference name."""


class Reference:
    """A part of the pipeline that an option names, such as a look-up table; its name is known when the pipeline is complete."""


class NamedReference:
    """What an option gives by its name, such as a function of the user."""

    name: str


def plain(value: Any, path: OptionPath = ()) -> Any:
    """The value as a text, number, boolean, None, list or mapping, with references left as they are. Raises TypeError."""
    if value is None or isinstance(value, (bool, str, Reference)):
        return str(value) if isinstance(value, str) else value
    if len(path) > MAX_DEPTH:
        raise TypeError(f"{json_path(path[:3])}…: nested deeper than {MAX_DEPTH}")
    if isinstance(value, Mapping):
        return {_key(key, path): plain(one, (*path, str(key))) for key, one in value.items() if one is not UNSET}
    if isinstance(value, (list, tuple, range)):
        return [plain(one, (*path, number)) for number, one in enumerate(value)]
    for kind, convert in _CONVERSIONS:
        if isinstance(value, kind):
            return convert(value)
    is_lambda = getattr(value, "__name__", "") == "<lambda>"
    call = "; write it as an expression" if is_lambda else "; call it with expressions: function(f)(col('a'))"
    cure = call if callable(value) else ""
    raise TypeError(f"{json_path(path)}: {_shown(value)} is not a value of an option: {_ACCEPTED}{cure}")


_ACCEPTED = "text, number, boolean, None, list, mapping, timedelta, date, datetime, path, or an expression (col(), fn, expr())"


def _key(key: Any, path: OptionPath) -> str:
    if isinstance(key, (str, Enum, Integral)) and not isinstance(key, bool):
        return str(key.value if isinstance(key, Enum) else key)
    raise TypeError(f"{json_path(path)}: {_shown(key)} is not a key: keys are texts")


def _shown(value: Any) -> str:
    kind = type(value).__name__
    return f"a {kind}" if not callable(value) else f"the {kind} {getattr(value, '__name__', '')!r}"


def _finite(value: Any) -> float:
    if not isfinite(value):
        raise TypeError(f"{value} is not a number that a pipeline file can have")
    return float(value)


def _decimal(value: Decimal) -> int | float:
    return int(value) if value == value.to_integral_value() else _finite(float(value))


def _reject_unfinished(value: When) -> str:
    raise TypeError("a CASE begun by when() ends with .otherwise(value) or .end()")


def _items(values: Iterable[Any]) -> list[Any]:
    return sorted((plain(one) for one in values), key=repr)


_CONVERSIONS: tuple[tuple[type[Any], Callable[[Any], Any]], ...] = (
    (Column, str),
    (NamedReference, lambda named: str(named.name)),
    (pa.DataType, format_type),
    (When, _reject_unfinished),
    (timedelta, format_duration),
    (datetime, datetime.isoformat),
    (date, date.isoformat),
    (time, time.isoformat),
    (os.PathLike, lambda path: str(os.fspath(path))),
    (Enum, lambda member: plain(member.value)),
    (BaseModel, lambda model: plain(model.model_dump(mode="python", exclude_unset=True, by_alias=True))),
    (SecretStr, SecretStr.get_secret_value),
    (SecretBytes, lambda secret: secret.get_secret_value().decode()),
    (Integral, int),
    (Decimal, _decimal),
    (Real, _finite),
    (Set, _items),
)
"""Class → conversion of its values; the first that fits."""
