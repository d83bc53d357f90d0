"""Components whose options have errors: what they can be once the errors are mended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from etl.api import Component
from etl.config.candidates import REMOVED, TEXTS, Json, candidates
from etl.config.model import OptionPath

Model = TypeVar("Model", bound=BaseModel)

MOST_VARIANTS = 6
"""Of one component: as many as an option usually has choices."""
_MOST_TRIED = 18
"""More than the longest list of candidates, so that each is tried."""


@dataclass(frozen=True)
class Built:
    """A component as far as its options allow."""

    component: Component
    others: tuple[Component, ...] = ()
    """The same component with other values in place of the wrong ones: what holds for all of them holds for the mended one."""
    wrong: frozenset[str] = frozenset()
    """Attributes whose options have errors. Empty means that the component is what the file says."""
    free: frozenset[str] = frozenset()
    """Those of them for which any text may be meant: a few others do not show all that they can bring about."""

    @property
    def whole(self) -> bool:
        """Whether no option has an error."""
        return not self.wrong

    @property
    def variants(self) -> tuple[Component, ...]:
        """All that the component can be."""
        return (self.component, *self.others)


def variants(cls: type[Model], options: Mapping[str, Any], bad: Iterable[OptionPath], schema: Json, defs: Json) -> list[Model]:
    """The model with candidates in place of its bad values: several that differ, or none where nothing can be made of it."""
    places = outermost(bad)
    choices = {path: _choices(candidates(schema, path, defs), path) for path in places}
    tried = ({path: values[number % len(values)] for path, values in choices.items()} for number in range(_MOST_TRIED))
    made = _made(cls, options, tried)
    found = list(islice(made, MOST_VARIANTS)) if places else list(islice(made, 1))
    return found or list(_made(cls, options, [{path[:1]: REMOVED for path in places}]))


def _choices(values: list[Any], path: OptionPath) -> list[Any]:
    """The candidates; inside an option the value may also be left out, for its key may be what is wrong."""
    return [*values, REMOVED] if len(path) > 1 or not values else values


def attributes(cls: type[BaseModel], options: Iterable[str]) -> frozenset[str]:
    """Names of options, as files write them → names of attributes."""
    names = {field.alias or name: name for name, field in cls.model_fields.items()}
    return frozenset(names.get(option, option) for option in options)


def outermost(paths: Iterable[OptionPath]) -> list[OptionPath]:
    """Without paths that lie below others."""
    found: dict[OptionPath, None] = {}
    for path in sorted(set(paths), key=len):
        if not any(path[:length] in found for length in range(len(path) + 1)):
            found[path] = None
    return list(found)


def free_options(made: Iterable[BaseModel], bad: Iterable[OptionPath]) -> frozenset[str]:
    """Top-level options with a bad value that any text can replace, or that nothing replaces, or that is a list or mapping."""
    found = set()
    for path in outermost(bad):
        stands = [_at(one, path) for one in made]
        nothing = all(value is None for value in stands)
        if nothing or any(value in TEXTS or value == "" or isinstance(value, (tuple, list, dict)) for value in stands):
            found.add(str(path[0]))
    return frozenset(found)


def _at(value: Any, path: OptionPath) -> Any:
    for part in path:
        if isinstance(value, BaseModel):
            names = {field.alias or name: name for name, field in type(value).model_fields.items()}
            value = getattr(value, names.get(str(part), str(part)), None)
        else:
            try:
                value = value[part]
            except (KeyError, IndexError, TypeError):
                return None
    return value


def _made(cls: type[Model], options: Mapping[str, Any], tried: Iterable[Mapping[OptionPath, Any]]) -> Iterator[Model]:
    seen: list[Model] = []
    for values in tried:
        try:
            one = cls.model_validate(_with(options, values))
        except ValidationError:
            continue
        if one not in seen:
            seen.append(one)
            yield one


def _with(value: Any, values: Mapping[OptionPath, Any]) -> Any:
    """The value with others at these paths. An item of a list is not removed: the items behind it would change places."""
    if () in values:
        return values[()]
    if isinstance(value, dict):
        below = _below(values)
        changed = {key: _with(value.get(key), below[key]) if key in below else value[key] for key in {**value, **below}}
        return {key: item for key, item in changed.items() if item is not REMOVED}
    if isinstance(value, list):
        below = _below(values)
        items = [_with(item, below[number]) if number in below else item for number, item in enumerate(value)]
        return [item for item in items if item is not REMOVED]
    return value


def _below(values: Mapping[OptionPath, Any]) -> dict[str | int, dict[OptionPath, Any]]:
    """The values by the first part of their paths, each by the rest of its path."""
    found: dict[str | int, dict[OptionPath, Any]] = {}
    for path, value in values.items():
        found.setdefault(path[0], {})[path[1:]] = value
    return found
