"""Which components there are: found by entry points, so that the engine names none of them.

A package registers a module under the group ``etl.components``; the module lists its components in ``COMPONENTS``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Literal, cast, get_args

from etl.api import Component, EtlError, FrameSource, Parser, Sink, Source, Step

GROUP = "etl.components"

Family = Literal["source", "step", "sink"]
FAMILIES: tuple[Family, ...] = get_args(Family)

_BASES: Mapping[Family, tuple[type[Component], ...]] = {
    "source": (Source, FrameSource),
    "step": (Step,),
    "sink": (Sink,),
}


@dataclass(frozen=True)
class Catalogue:
    """Components by family and type name."""

    components: tuple[type[Component], ...]

    @cached_property
    def families(self) -> Mapping[Family, Mapping[str, type[Component]]]:
        """Family → type name → class, in alphabetical order."""
        return {
            family: {type_name(c): c for c in sorted(self.components, key=type_name) if issubclass(c, bases)}
            for family, bases in _BASES.items()
        }

    def find(self, name: str) -> Iterator[type[Component]]:
        """The components of this type name, at most one in each family."""
        return (members[name] for members in self.families.values() if name in members)


def type_name(component: type[Component]) -> str:
    """``file`` for a class whose ``type`` defaults to ``"file"``."""
    return cast(str, component.model_fields["type"].default)


def kind(component: type[Component]) -> Literal["source", "step", "parser", "sink"]:
    """What a component is called: its family, or parser."""
    if issubclass(component, Parser):
        return "parser"
    return next(family for family, bases in _BASES.items() if issubclass(component, bases))


@lru_cache(maxsize=1)
def installed() -> Catalogue:
    """Every component of every installed package. Raises EtlError that names a package that cannot be loaded."""
    return Catalogue(tuple(_load()))


def _load() -> Iterable[type[Component]]:
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            yield from import_module(entry.value).COMPONENTS
        except (ImportError, AttributeError) as error:
            raise EtlError(f"components of {entry.name!r} ({entry.value}) cannot be loaded: {error}") from error
