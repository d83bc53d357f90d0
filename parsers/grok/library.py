"""The grok library for its readers: each pattern with its definition, its fields and an example.

Examples lie beside the library in ``patterns/examples``, a file for each of its files: a line, or a mapping with the line
(one for each set where sets differ) and, by set, the fields that are read out of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from etl.api import format_type
from etl.scanner.pattern_error import PatternError
from parsers.grok.captures import field_types
from parsers.grok.compiler import compile_pattern
from parsers.patterns import FOLDER, SETS, load, load_files

_REFERENCE = re.compile(r"%\{(?P<name>\w+)(?::(?P<field>[^{}:]*))?[^{}]*\}")
_EXAMPLES = FOLDER / "examples"


@dataclass(frozen=True, slots=True)
class Example:
    """A line that a pattern reads, and the fields it gives, without those that stay null."""

    line: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NamedPattern:
    """A pattern of the library as some of its sets define it."""

    name: str
    sets: tuple[str, ...]
    file: str

    @property
    def definition(self) -> str:
        """As it stands in its file."""
        return load(self.sets[0])[self.name]

    @property
    def expanded(self) -> str:
        """The definition with those it names in their places."""
        return _expand(self.name, load(self.sets[0]))

    @property
    def fields(self) -> Mapping[str, str]:
        """Captured field → type. Raises PatternError, which a test of the library rules out."""
        tree = compile_pattern(f"%{{{self.name}}}", self.sets[0], frozenset(), False)
        if isinstance(tree, PatternError):
            raise tree
        return {field: format_type(type_) for field, type_ in field_types(tree).items()}

    @property
    def example(self) -> Example | None:
        """A line for the first of its sets."""
        return _examples(self.file, self.sets[0]).get(self.name)


def named_patterns() -> Iterator[NamedPattern]:
    """The whole library by file and name; a pattern that sets define differently comes once for each."""
    placed = {name: file for pattern_set in SETS for file, found in load_files(pattern_set).items() for name in found}
    for name in sorted(placed, key=lambda name: (placed[name], name)):
        if not name.startswith("_"):
            for sets in _alike(name):
                yield NamedPattern(name, sets, placed[name])


def _alike(name: str) -> list[tuple[str, ...]]:
    """The sets that have the name, together where it means the same."""
    groups: dict[str, list[str]] = {}
    for pattern_set in SETS:
        if name in load(pattern_set):
            groups.setdefault(_expand(name, load(pattern_set)), []).append(pattern_set)
    return [tuple(group) for group in groups.values()]


def _expand(name: str, texts: Mapping[str, str]) -> str:
    def put(found: re.Match[str]) -> str:
        inner = _expand(found["name"], texts)
        return f"(?<{found['field']}>{inner})" if found["field"] else f"(?:{inner})"

    return _REFERENCE.sub(put, texts[name])


@cache
def _examples(file: str, pattern_set: str) -> Mapping[str, Example]:
    import yaml

    path = _EXAMPLES / f"{file}.yaml"
    entries = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {name: _example(entry if isinstance(entry, dict) else {"line": entry}, pattern_set) for name, entry in entries.items()}


def _example(entry: Mapping[str, Any], pattern_set: str) -> Example:
    line = entry["line"]
    return Example(line[pattern_set] if isinstance(line, dict) and pattern_set in line else line, entry.get(pattern_set, {}))
