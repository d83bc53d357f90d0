"""A YAML text with its value, the location of each key and value, and the mistakes of the text itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from etl.config.model import OptionPath, YamlLocation
from etl.config.problems import Severity

Choices: TypeAlias = Mapping[YamlLocation, int]
"""First location of a key that a mapping has more than once → which of its values to take, 0 by default."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """How a scalar is written: ``style`` is a quote, ``|``, ``>`` or empty; ``start`` and ``end`` count characters."""

    style: str
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class EntryLocation:
    """The locations of a key and its value. A list item has no key."""

    key: YamlLocation | None
    value: YamlLocation
    scalar: Scalar | None = None


@dataclass(frozen=True, slots=True)
class YamlProblem:
    """A mistake of the text itself."""

    location: YamlLocation
    code: str
    message: str
    path: OptionPath = ()
    hint: str | None = None
    severity: Severity = "error"


@dataclass
class Document:
    """One YAML document: its value and the locations of all paths in it."""

    text: str
    value: Any = None
    locations: dict[OptionPath, EntryLocation] = field(default_factory=dict)
    flaws: list[YamlProblem] = field(default_factory=list)
    repeated: dict[YamlLocation, int] = field(default_factory=dict)
    """First location of each key that a mapping has more than once → how often."""
    replaced_values: list[OptionPath] = field(default_factory=list)
    """Paths of values that are not YAML and were replaced by an empty mapping."""
    incomplete: set[OptionPath] = field(default_factory=set)
    """Paths of mappings and lists of which entries are missing, because a part that is not YAML contains them."""
    unknown_fields: str | None = None
    """Beginning of the names of fields that do not exist, which problems of the file report already."""
    sink_hints: Mapping[str, str] = field(default_factory=dict)
    """Code of problems of sinks → hint in the words of a script, instead of that in those of YAML."""
    unused: Document | None = None
    """Of a script: the views that no query reads, of which problems are warnings."""
    spans: list[tuple[YamlLocation, YamlLocation]] = field(default_factory=list)
    """Of `unused`: start and end of each part whose problems are reported."""
    left_out: list[tuple[YamlLocation, YamlLocation]] = field(default_factory=list)
    """Start and end of each value that another value of the same key replaced."""
