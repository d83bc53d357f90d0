"""A taxonomy file, which maps Sigma's names to a stream's: fields, the events of log sources, values of placeholders.

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

from etl.rules.conditions.tree import Condition, Leaf, all_of, any_of, replace_leaves
from etl.rules.rule import Rule

BUILT_IN = "sigma/"
_FOLDER = Path(__file__).parent / "taxonomies"
_PARTS = ("category", "product", "service")
_KEYS = ("fields", "logsources", "placeholders")


class TaxonomyError(ValueError):
    """A file is not a taxonomy; the message names the file."""


@dataclass(frozen=True)
class Taxonomy:
    """A stream's names of Sigma's fields, log sources and placeholders."""

    fields: Mapping[str, str] = field(default_factory=dict)
    logsources: Sequence[tuple[Mapping[str, str], Condition]] = ()
    placeholders: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def adapt(self, rule: Rule) -> Rule | None:
        """The rule over the stream's fields and the events of its log source; None if it is for other events."""
        condition = rule.condition
        if self.logsources and rule.logsource:
            selections = [where for source, where in self.logsources if _covers(source, dict(rule.logsource))]
            if not selections:
                return None
            condition = all_of([any_of(selections), condition])
        if not self.fields:
            return replace(rule, condition=condition)
        return replace(rule, condition=replace_leaves(condition, lambda leaf: Leaf(leaf.predicate.renamed(self.fields))))


def _covers(source: Mapping[str, str], requested: Mapping[str, str]) -> bool:
    """Whether a rule for the log source ``requested`` applies to events of ``source``, which without a product has any."""
    agrees = all(source.get(part, value if part == "product" else None) == value for part, value in requested.items())
    return agrees and bool(set(source) & set(requested))


def read_taxonomy(path: str | None) -> Taxonomy:
    """Read a file; an empty taxonomy without one. Raises TaxonomyError."""
    if path is None:
        return Taxonomy()
    file = taxonomy_path(path)
    try:
        return _read(file, os.stat(file).st_mtime_ns)
    except OSError as error:
        raise TaxonomyError(
            f"{path!r} cannot be read: {error.strerror or error}; built in are {', '.join(built_in_taxonomies())}"
        ) from error


def taxonomy_path(path: str) -> str:
    """The path of a file, or of the file of that name in the package."""
    own = _FOLDER / path.removeprefix(BUILT_IN)
    return str(own) if path.startswith(BUILT_IN) and not os.path.exists(path) and own.exists() else path


def built_in_taxonomies() -> list[str]:
    """The names of the files in the package."""
    return sorted(f"{BUILT_IN}{one.name}" for one in _FOLDER.glob("*.yml"))


@lru_cache(maxsize=8)
def _read(path: str, changed: int) -> Taxonomy:
    try:
        data = yaml.load(Path(path).read_text(encoding="utf-8"), Loader=yaml.CSafeLoader) or {}
    except (yaml.YAMLError, ValueError) as error:
        raise TaxonomyError(f"{path!r} is not YAML: {error}") from error
    if not isinstance(data, dict) or set(data) - set(_KEYS):
        raise TaxonomyError(f"{path!r} is a mapping with {', '.join(_KEYS)}, and nothing else")
    fields, placeholders = data.get("fields") or {}, data.get("placeholders") or {}
    if not all(isinstance(one, str) for pair in fields.items() for one in pair):
        raise TaxonomyError(f"{path!r}: fields are names, Sigma's and the stream's")
    sources = [_read_logsource(path, one) for one in data.get("logsources") or []]
    return Taxonomy(fields, sources, {name: [str(value) for value in values] for name, values in placeholders.items()})


def _read_logsource(path: str, data: Any) -> tuple[Mapping[str, str], Condition]:
    from etl.rules.sigma.reader import find_missing_package, read_selection

    if (missing := find_missing_package()) is not None:
        raise TaxonomyError(f"{path!r}: {missing}")
    from sigma.exceptions import SigmaError

    if not isinstance(data, dict) or set(data) - {*_PARTS, "selection"} or not set(data) & set(_PARTS):
        raise TaxonomyError(f"{path!r}: a log source has {', '.join(_PARTS)} and a selection, and this is {data!r}")
    try:
        return {part: str(data[part]) for part in _PARTS if part in data}, read_selection(data.get("selection") or {})
    except (SigmaError, ValueError) as error:
        raise TaxonomyError(f"{path!r}: the selection of {data!r}: {error}") from error
