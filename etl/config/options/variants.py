"""Components with wrong options, built with other values in their place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from etl.api import Component
from etl.config.model import OptionPath
from etl.config.options.candidates import REMOVED, TEXTS, Json, candidates

Model = TypeVar("Model", bound=BaseModel)

MAX_VARIANTS = 6
"""Maximum number of variants of one component: about as many as an option has choices."""
_MAX_TRIED = 18
"""Maximum number of combinations tried: more than the longest list of candidates."""


@dataclass(frozen=True)
class ComponentVariant:
    """A component, built with stand-ins for its wrong options."""

    component: Component
    others: tuple[Component, ...] = ()
    """The same component with other stand-ins. Invariant: what holds for all variants holds for the corrected component."""
    wrong: frozenset[str] = frozenset()
    """Attributes whose options have errors. Empty: the component is as the file describes it."""
    free: frozenset[str] = frozenset()
    """Those of them whose options accept any text: the variants do not cover all their effects."""
    mentioned: frozenset[str] = frozenset()
    """Texts in the values of unknown options: fields of these names may exist once the options are corrected."""

    @property
    def has_unknown(self) -> bool:
        """Whether it has options of unknown meaning."""
        return bool(self.wrong - type(self.component).model_fields.keys())

    @property
    def whole(self) -> bool:
        """Whether no option has an error."""
        return not self.wrong

    @property
    def variants(self) -> tuple[Component, ...]:
        """The component with each set of stand-ins."""
        return (self.component, *self.others)


def variants(cls: type[Model], options: Mapping[str, Any], bad: Iterable[OptionPath], schema: Json, defs: Json) -> list[Model]:
    """The model with candidates in place of its bad values: several different ones, or none if no candidate fits."""
    wrong = outermost(bad)
    choices = {path: _choices(candidates(schema, path, defs), path) for path in wrong}
    tried = ({path: values[number % len(values)] for path, values in choices.items()} for number in range(_MAX_TRIED))
    made = _validate_each(cls, options, tried)
    found = list(islice(made, MAX_VARIANTS)) if wrong else list(islice(made, 1))
    return found or list(_validate_each(cls, options, [{path[:1]: REMOVED for path in wrong}]))


def _choices(values: list[Any], path: OptionPath) -> list[Any]:
    """The candidates; a value inside an option may also be left out, because its key may be the mistake."""
    return [*values, REMOVED] if len(path) > 1 or not values else values


def attributes(cls: type[BaseModel], options: Iterable[str]) -> frozenset[str]:
    """Names of options, as files write them → names of attributes."""
    names = {field.alias or name: name for name, field in cls.model_fields.items()}
    return frozenset(names.get(option, option) for option in options)


def texts_in(value: Any) -> Iterator[str]:
    """Texts in a value, also the keys of mappings."""
    if isinstance(value, str):
        yield value
    for item in value if isinstance(value, list) else (*value, *value.values()) if isinstance(value, dict) else ():
        yield from texts_in(item)


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


def _validate_each(cls: type[Model], options: Mapping[str, Any], tried: Iterable[Mapping[OptionPath, Any]]) -> Iterator[Model]:
    found: list[Model] = []
    for values in tried:
        try:
            one = cls.model_validate(_with(options, values))
        except ValidationError:
            continue
        if one not in found:
            found.append(one)
            yield one


def _with(value: Any, values: Mapping[OptionPath, Any]) -> Any:
    """The value with others at these paths. An item of a list is not removed: the items after it would move."""
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
