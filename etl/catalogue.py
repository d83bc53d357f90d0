"""The installed components, found by entry points, so that the engine names none of them.

A package registers a module under the group ``etl.components``; the module lists its components in ``COMPONENTS``: classes,
or entries with the address of a class, which is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal, Protocol, cast, get_args, runtime_checkable

from etl.api import Component, Entry, EtlError, Family, FrameSource, LookupTable, Parser, Sink, Source, Step

GROUP = "etl.components"

FAMILIES: tuple[Family, ...] = get_args(Family)

_BASES: Mapping[Family, tuple[type[Component], ...]] = {
    "source": (Source, FrameSource),
    "step": (Step,),
    "sink": (Sink,),
    "table": (LookupTable,),
}


class PatternExample(Protocol):
    """A line that a pattern matches, and the fields that it captures."""

    @property
    def line(self) -> str: ...
    @property
    def fields(self) -> Mapping[str, Any]: ...


class NamedPattern(Protocol):
    """A pattern of a component with a name of its own, such as those of `grok`."""

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


class Members(Mapping[str, type[Component]]):
    """The components of a family by type name, in alphabetical order; a class is imported when it is first used."""

    def __init__(self, listed: Mapping[str, type[Component] | Entry]) -> None:
        self._listed = dict(sorted(listed.items()))

    def __getitem__(self, name: str) -> type[Component]:
        found = self._listed[name]
        if isinstance(found, Entry):
            found = self._listed[name] = _import_class(found)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._listed

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._listed)


@dataclass(frozen=True)
class Catalogue:
    """Components by family and type name."""

    listed: tuple[type[Component] | Entry, ...]

    @cached_property
    def families(self) -> Mapping[Family, Members]:
        """Family → type name → class."""
        return {family: Members({_type(c): c for c in self.listed if _family(c) == family}) for family in FAMILIES}

    @property
    def components(self) -> tuple[type[Component], ...]:
        """All of them, imported, as they are listed."""
        return tuple(self.families[_family(c)][_type(c)] for c in self.listed)

    def find(self, name: str) -> Iterator[type[Component]]:
        """The components of this type name, at most one in each family."""
        return (members[name] for members in self.families.values() if name in members)

    @cached_property
    def patterns(self) -> tuple[NamedPattern, ...]:
        """The named patterns of all components; one name comes more than once where sets differ."""
        classes: tuple[object, ...] = self.components
        return tuple(pattern for c in classes if isinstance(c, HasPatterns) for pattern in c.named_patterns())


def _type(listed: type[Component] | Entry) -> str:
    return listed.type if isinstance(listed, Entry) else type_name(listed)


def _family(listed: type[Component] | Entry) -> Family:
    return listed.family if isinstance(listed, Entry) else family_of(listed)


def _import_class(entry: Entry) -> type[Component]:
    module, _, name = entry.address.partition(":")
    try:
        return getattr(import_module(module), name)
    except Exception as error:  # whatever the package's code raises while it is imported
        raise EtlError(f"the {entry.family} {entry.type!r} ({entry.address}) cannot be loaded: {_in_words(error)}") from error


def type_name(component: type[Component]) -> str:
    """``file`` for a class whose ``type`` defaults to ``"file"``."""
    return cast(str, component.model_fields["type"].default)


def kind(component: type[Component]) -> Literal["source", "step", "parser", "sink", "table"]:
    """The kind of a component: its family, or parser."""
    if issubclass(component, Parser):
        return "parser"
    return family_of(component)


def family_of(component: type[Component]) -> Family:
    """The family of a component."""
    return next(family for family, bases in _BASES.items() if issubclass(component, bases))


@lru_cache(maxsize=1)
def installed() -> Catalogue:
    """Every component of every installed package. Raises EtlError that names a package, later a component, that cannot be
    loaded, and two packages that bring components of one name."""
    return Catalogue(tuple(_load()))


def _load() -> Iterable[type[Component] | Entry]:
    known: dict[tuple[Family, str], EntryPoint] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        for component in _load_package(entry):
            of = _family(component), _type(component)
            other = known.setdefault(of, entry)
            if other is not entry:
                packages = f"{other.name!r} ({other.value}) and {entry.name!r} ({entry.value})"
                raise EtlError(f"there are two {of[0]}s {of[1]!r}, of {packages}: uninstall one, or call its type otherwise")
            yield component


def _load_package(entry: EntryPoint) -> Iterable[type[Component] | Entry]:
    """The ``COMPONENTS`` of a package. Raises EtlError that names it."""
    try:
        found = import_module(entry.value).COMPONENTS
    except Exception as error:  # whatever the package's code raises while it is imported
        raise EtlError(f"components of {entry.name!r} ({entry.value}) cannot be loaded: {_in_words(error)}") from error
    if not isinstance(found, (tuple, list)) or not all(map(_is_component, found)):
        raise EtlError(
            f"components of {entry.name!r} ({entry.value}) cannot be loaded: COMPONENTS is a tuple of classes and entries, "
            f"such as (Link,), and it is {found!r}"
        )
    return found


def _is_component(listed: object) -> bool:
    """Whether it is an entry, or a class of one of the families with a name."""
    bases = tuple(base for family in _BASES.values() for base in family)
    return isinstance(listed, Entry) or (
        isinstance(listed, type) and issubclass(listed, bases) and isinstance(listed.model_fields["type"].default, str)
    )


def _in_words(error: Exception) -> str:
    """The message of an error; for errors that are not import's own, their class too."""
    return str(error) if isinstance(error, (ImportError, AttributeError)) else f"{type(error).__name__}: {error}"
