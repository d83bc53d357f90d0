"""Configurations of Fluent Bit, classic and YAML → sections.

Source: Fluent Bit's manual, "Configuring Fluent Bit".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from etl.migration.draft import NoCounterpartError
from etl.migration.given_options import GivenOptions

MAX_BYTES = 4 << 20
MAX_FILES = 50
_SECTION = re.compile(r"\[([A-Za-z_ ]+)\]\s*")
_KINDS = {"inputs": "input", "filters": "filter", "outputs": "output"}


@dataclass(frozen=True)
class Section:
    """An input, filter, output or parser: its entries in their order, with names in lower case."""

    kind: str
    entries: tuple[tuple[str, str], ...]
    location: str
    options: GivenOptions = field(default_factory=lambda: GivenOptions({}), compare=False, repr=False)
    """Notes which entries were read."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", GivenOptions(dict(self.entries)))

    def get(self, name: str, default: str = "") -> str:
        self.options.get(name)
        return next((value for key, value in self.entries if key == name), default)

    def all(self, name: str) -> list[str]:
        self.options.get(name)
        return [value for key, value in self.entries if key == name]

    @property
    def name(self) -> str:
        return self.get("name").lower()


@dataclass
class FluentFiles:
    """The sections of files, and of those that they include."""

    sections: list[Section] = field(default_factory=list)
    _read: set[Path] = field(default_factory=set)

    def of(self, kind: str) -> list[Section]:
        return [one for one in self.sections if one.kind == kind]

    def parser(self, name: str) -> Section | None:
        found = (one for one in self.sections if one.kind == "parser" and one.get("name").lower() == name.lower())
        return next(found, None)

    def add(self, file: Path) -> None:
        """Read a file. Raises NoCounterpartError with the location of the mistake."""
        if file.resolve() in self._read or len(self._read) >= MAX_FILES:
            return
        self._read.add(file.resolve())
        data = file.read_bytes()
        if len(data) > MAX_BYTES:
            raise NoCounterpartError(f"{file}:1:1: {len(data):,} bytes are more than a configuration may have: {MAX_BYTES:,}")
        text = data.decode("utf-8", "replace")
        found = list(_yaml(file, text) if file.suffix in (".yaml", ".yml") else _classic(file, text))
        self.sections += [one for one in found if one.kind != "include"]
        for one in found:
            for path in _included(one):
                try:
                    others = [Path(path)] if path.startswith("/") else sorted(file.parent.glob(path))[:MAX_FILES]
                    files = [other for other in others if other.is_file()]
                except (OSError, ValueError, NotImplementedError):
                    continue  # no pattern of names
                for other in files:
                    self.add(other)


def _included(one: Section) -> Sequence[str]:
    if one.kind == "include":
        return [one.get("path")]
    return one.all("parsers_file") if one.kind == "service" else ()


def _classic(file: Path, text: str) -> Iterator[Section]:
    kind, entries, start = "", list[tuple[str, str]](), 1
    variables: dict[str, str] = {}
    for number, line in enumerate([*text.splitlines(), "[end]"], 1):
        line = line.strip()
        if found := _SECTION.fullmatch(line):
            if kind:
                yield Section(kind, tuple(entries), f"{file}:{start}:1")
            kind, entries, start = found[1].strip().lower(), [], number
        elif line.lower().startswith("@include "):
            yield Section("include", (("path", line.split(None, 1)[1]),), f"{file}:{number}:1")
        elif line.lower().startswith("@set ") and "=" in line:
            name, _, value = line[5:].partition("=")
            variables[name.strip()] = value.strip()
        elif line and not line.startswith("#"):
            name, _, value = line.replace("\t", " ").partition(" ")
            if not kind:
                raise NoCounterpartError(f"{file}:{number}:1: {line[:40]!r} is in no section, such as [INPUT]")
            value = re.sub(r"\$\{(\w+)\}", lambda one: variables.get(one[1], one[0]), value.strip())
            entries.append((name.lower(), value))


def _yaml(file: Path, text: str) -> Iterator[Section]:
    try:
        root = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        at = f"{mark.line + 1}:{mark.column + 1}" if mark else "1:1"
        raise NoCounterpartError(f"{file}:{at}: {getattr(error, 'problem', None) or 'YAML that cannot be read'}") from None
    if not isinstance(root, Mapping):
        raise NoCounterpartError(f"{file}:1:1: no configuration of Fluent Bit: it is a mapping with 'pipeline'")
    if isinstance(root.get("service"), Mapping):
        yield _section("service", root["service"], file, "service")
    for one in _mappings(root.get("parsers")):
        yield _section("parser", one, file, "parsers")
    given = root.get("pipeline")
    pipeline: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    for key, kind in _KINDS.items():
        for number, one in enumerate(_mappings(pipeline.get(key))):
            yield _section(kind, one, file, f"pipeline.{key}[{number}]")


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _section(kind: str, value: Mapping[str, Any], file: Path, path: str) -> Section:
    entries = [
        (str(name).lower(), str(one).lower() if isinstance(one, bool) else str(one))
        for name, given in value.items()
        for one in (given if isinstance(given, list) else [given])
        if not isinstance(one, Mapping)
    ]
    return Section(kind, tuple(entries), f"{file}: {path}")
