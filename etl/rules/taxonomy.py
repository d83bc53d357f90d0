"""From Sigma's names to a stream's: fields, which events a log source means, values of placeholders.

A file has the keys ``fields`` (Sigma's name: the stream's), ``logsources`` (a list of category, product and service, each
with the ``selection`` of its events, written as in a Sigma rule) and ``placeholders`` (name: list of texts).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from etl.rules.conditions.predicates import Predicate, SameField, Sql
from etl.rules.conditions.tree import Condition, Leaf, both, either, replaced
from etl.rules.rule import Rule

BUILT_IN = "sigma/"
_HERE = Path(__file__).parent / "taxonomies"
_PARTS = ("category", "product", "service")
_KEYS = ("fields", "logsources", "placeholders")


class TaxonomyError(ValueError):
    """The file is none; the message names it."""


@dataclass(frozen=True)
class Taxonomy:
    """What a stream calls things."""

    fields: Mapping[str, str] = field(default_factory=dict)
    logsources: Sequence[tuple[Mapping[str, str], Condition]] = ()
    placeholders: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def adapted(self, rule: Rule) -> Rule | None:
        """The rule over the stream's fields and the events of its log source; None when it is for other events."""
        condition = rule.condition
        if self.logsources and rule.logsource:
            fitting = [where for source, where in self.logsources if _fits(source, dict(rule.logsource))]
            if not fitting:
                return None
            condition = both([either(fitting), condition])
        return replace(rule, condition=replaced(condition, lambda leaf: Leaf(self._renamed(leaf.predicate))))

    def _renamed(self, predicate: Predicate) -> Predicate:
        if isinstance(predicate, Sql) or not self.fields:
            return predicate
        renamed = replace(predicate, field=self.fields.get(predicate.field, predicate.field))
        if isinstance(renamed, SameField):
            return replace(renamed, other=self.fields.get(renamed.other, renamed.other))
        return renamed


def _fits(source: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Whether a rule for ``wanted`` is about events of ``source``, which may leave its product open."""
    agrees = all(source.get(part, value if part == "product" else None) == value for part, value in wanted.items())
    return agrees and bool(set(source) & set(wanted))


def read_taxonomy(path: str | None) -> Taxonomy:
    """Raises TaxonomyError."""
    if path is None:
        return Taxonomy()
    place = found(path)
    try:
        return _read(place, os.stat(place).st_mtime_ns)
    except OSError as error:
        raise TaxonomyError(
            f"{path!r} cannot be read: {error.strerror or error}; built in are {', '.join(built_in())}"
        ) from error


def found(path: str) -> str:
    """The file itself, or the one of that name that comes with the package."""
    own = _HERE / path.removeprefix(BUILT_IN)
    return str(own) if path.startswith(BUILT_IN) and not os.path.exists(path) and own.exists() else path


def built_in() -> list[str]:
    """The files that come with the package."""
    return sorted(f"{BUILT_IN}{one.name}" for one in _HERE.glob("*.yml"))


@lru_cache(maxsize=8)
def _read(path: str, changed: int) -> Taxonomy:
    try:
        data = yaml.load(Path(path).read_text(encoding="utf-8"), Loader=yaml.CSafeLoader) or {}
    except (yaml.YAMLError, ValueError) as error:
        raise TaxonomyError(f"{path!r} is no YAML: {error}") from error
    if not isinstance(data, dict) or set(data) - set(_KEYS):
        raise TaxonomyError(f"{path!r} is a mapping with {', '.join(_KEYS)}, and nothing else")
    fields, placeholders = data.get("fields") or {}, data.get("placeholders") or {}
    if not all(isinstance(one, str) for pair in fields.items() for one in pair):
        raise TaxonomyError(f"{path!r}: fields are names, Sigma's and the stream's")
    sources = [_logsource(path, one) for one in data.get("logsources") or []]
    return Taxonomy(fields, sources, {name: [str(value) for value in values] for name, values in placeholders.items()})


def _logsource(path: str, data: Any) -> tuple[Mapping[str, str], Condition]:
    from etl.rules.sigma.reader import lacking, selection

    if (missing := lacking()) is not None:
        raise TaxonomyError(f"{path!r}: {missing}")
    from sigma.exceptions import SigmaError

    if not isinstance(data, dict) or set(data) - {*_PARTS, "selection"} or not set(data) & set(_PARTS):
        raise TaxonomyError(f"{path!r}: a log source has {', '.join(_PARTS)} and a selection, and this is {data!r}")
    try:
        return {part: str(data[part]) for part in _PARTS if part in data}, selection(data.get("selection") or {})
    except (SigmaError, ValueError) as error:
        raise TaxonomyError(f"{path!r}: the selection of {data!r}: {error}") from error
