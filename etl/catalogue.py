"""Which components there are: found by entry points, so that the engine names none of them.

A package registers a module under the group ``etl.components``; the module lists its components in ``COMPONENTS``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Literal, Protocol, cast, get_args, runtime_checkable

from etl.api import Component, EtlError, FrameSource, Parser, Sink, Source, Step

GROUP = "etl.components"

Family = Literal["source", "step", "sink"]
FAMILIES: tuple[Family, ...] = get_args(Family)

_BASES: Mapping[Family, tuple[type[Component], ...]] = {
    "source": (Source, FrameSource),
    "step": (Step,),
    "sink": (Sink,),
}


class PatternExample(Protocol):
    """A line that a pattern reads, and what it finds there."""

    @property
    def line(self) -> str: ...
    @property
    def fields(self) -> Mapping[str, Any]: ...


class NamedPattern(Protocol):
    """A pattern that comes with a component and is called by its name, as those of `grok`."""

    @property
    def name(self) -> str: ...
    @property
    def sets(self) -> tuple[str, ...]: ...  # that define it so
    @property
    def file(self) -> str: ...  # that defines it, such as ``httpd``
    @property
    def definition(self) -> str: ...
    @property
    def expanded(self) -> str: ...
    @property
    def fields(self) -> Mapping[str, str]: ...  # name → type
    @property
    def example(self) -> PatternExample | None: ...


@runtime_checkable
class HasPatterns(Protocol):
    """A component class that brings named patterns; any component may."""

    def named_patterns(self) -> Iterable[NamedPattern]:
        """All of them, in the order of a list. A class method."""


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

    @cached_property
    def patterns(self) -> tuple[NamedPattern, ...]:
        """The named patterns of all components; one name comes more than once where sets differ."""
        classes: tuple[object, ...] = self.components
        return tuple(pattern for c in classes if isinstance(c, HasPatterns) for pattern in c.named_patterns())


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
