"""Makes a list of a single value where an option takes a list, as in `patterns: '%{IP:ip}'`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

Wrap = Callable[[Any], Any]

_SCALARS = (str, int, float)


def with_lists(model: type[BaseModel], options: Any) -> Any:
    """Return the options with lists where the model has lists."""
    if not isinstance(options, Mapping):
        return options
    wraps = _wraps(model)
    return {name: wraps[name](value) if name in wraps else value for name, value in options.items()}


@lru_cache(maxsize=256)
def _wraps(model: type[BaseModel]) -> Mapping[str, Wrap]:
    """Return option → conversion of its value, for options whose values contain lists."""
    found = {field.alias or name: _wrap(field.annotation) for name, field in model.model_fields.items()}
    found |= {name: found[field.alias] for name, field in model.model_fields.items() if field.alias}
    return {name: wrap for name, wrap in found.items() if wrap is not None}


def _wrap(annotation: Any) -> Wrap | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return (lambda value: with_lists(annotation, value)) if _wraps(annotation) else None
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _wrap(inner[0])
    if origin in (Union, UnionType):
        return _first(inner)
    if origin in (tuple, list, Sequence):
        return _of_list(inner[0])
    if origin in (dict, Mapping):
        return _of_mapping(inner[1])
    return None


def _first(members: Sequence[Any]) -> Wrap | None:
    """Return the conversion for a union, unless one of its members accepts a single value."""
    if any(_plain(member) in _SCALARS for member in members):
        return None
    return next((wrap for member in members if (wrap := _wrap(member))), None)


def _of_list(item: Any) -> Wrap | None:
    if _takes_scalars(item):
        return lambda value: [value] if isinstance(value, _SCALARS) and not isinstance(value, bool) else value
    inner = _wrap(item)
    return (lambda value: [inner(one) for one in value] if isinstance(value, list) else value) if inner else None


def _of_mapping(item: Any) -> Wrap | None:
    inner = _wrap(item)
    return (
        (lambda value: {key: inner(one) for key, one in value.items()} if isinstance(value, dict) else value) if inner else None
    )


def _takes_scalars(item: Any) -> bool:
    """Whether items are texts or numbers, and not models, lists or mappings."""
    plain = _plain(item)
    if get_origin(plain) in (Union, UnionType):
        return all(_takes_scalars(member) for member in get_args(plain))
    return plain in _SCALARS or str(get_origin(plain)) == "typing.Literal"


def _plain(annotation: Any) -> Any:
    return _plain(get_args(annotation)[0]) if get_origin(annotation) is Annotated else annotation
