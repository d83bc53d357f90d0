"""Collecting the problems of one file: paths become locations, secret values are masked."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from etl.api import FileLocation, Finding, cut
from etl.config.document.text_locations import location_at
from etl.config.document.yaml_document import Document, EntryLocation
from etl.config.model import OptionPath, YamlLocation
from etl.config.problems import Problem, Severity, in_file_order, json_path

_SHORTEST_MASKED = 4
"""Characters; masking shorter values would spoil messages and hide little."""
_LONGEST_NOTE = 80
"""Characters of the names of fields that could not be checked."""


@dataclass
class Report:
    """Problems of one file."""

    file: str
    document: Document
    problems: list[Problem] = field(default_factory=list)
    masked: dict[str, str] = field(default_factory=dict)
    """Secret values → what messages show instead."""
    substituted: dict[OptionPath, str] = field(default_factory=dict)
    """Values that came from outside the file → what the file says there."""
    defaulted: set[OptionPath] = field(default_factory=set)
    """Those of them that have their default: the environment of a run may give another value."""
    broken: set[OptionPath] = field(default_factory=set)
    """Values with errors: further errors of them are consequences."""
    unchecked: dict[tuple[OptionPath, str], None] = field(default_factory=dict)
    """Component with errors, and a field that is used behind it and that the component may give."""
    written: dict[OptionPath, OptionPath] = field(default_factory=dict)
    """Paths of repaired names → paths in the file."""
    overridden: set[OptionPath] = field(default_factory=set)
    """Values given by ``--set``."""

    def add(
        self,
        path: OptionPath,
        code: str,
        message: str,
        hint: str | None = None,
        *,
        key: bool = False,
        severity: Severity = "error",
    ) -> None:
        """A problem of the value at ``path``, or of its key."""
        entry = self.location(path)
        self.put(entry.key if key and entry.key else entry.value, path, code, message, hint, severity)

    def fail(self, path: OptionPath, code: str, message: str, hint: str | None = None, *, key: bool = False) -> None:
        """An error; further errors of the value are not reported."""
        self.add(path, code, message, hint, key=key)
        self.broken.add(path)

    def find(self, owner: OptionPath, finding: Finding) -> None:
        """A problem that the component at ``owner`` found."""
        if finding.location is not None:
            self._find_elsewhere(finding, finding.location)
            return
        path = (*owner, *finding.path)
        if path not in self.document.locations and path[-1:] == (0,):
            path = path[:-1]  # a single value stands for a list
        entry = self.location(path)
        location = entry.value
        if finding.at is not None and path not in self.substituted and path in self.document.locations:
            location = location_at(self.document, entry, finding.at)
        self.put(location, path, finding.code, finding.message, finding.hint, finding.severity)

    def _find_elsewhere(self, finding: Finding, location: FileLocation) -> None:
        """A problem of another file; two components that read the file find the same one."""
        shown = self._mask(finding.message), self._mask(finding.hint) if finding.hint else None
        at = location.file, location.line, location.column
        self.problems.append(Problem(*at, finding.code, json_path(location.path), *shown, finding.severity))

    def put(
        self,
        location: YamlLocation,
        path: OptionPath,
        code: str,
        message: str,
        hint: str | None = None,
        severity: Severity = "error",
    ) -> None:
        """A problem at a location."""
        if any(path[: len(part)] == part for part in self.overridden):
            hint = f"{hint}; the value was given by --set" if hint else "the value was given by --set"
        shown = self._mask(message), self._mask(hint) if hint else None
        self.problems.append(Problem(self.file, *location, code, json_path(self.as_written(path)), *shown, severity))

    def rename(self, old: OptionPath, new: OptionPath) -> None:
        """Treat the value at ``old`` in the file as the value at ``new``."""
        self.written[new] = old
        locations = {path: location for path, location in self.document.locations.items() if path[: len(old)] == old}
        self.document.locations.update({(*new, *path[len(old) :]): location for path, location in locations.items()})
        for paths in (self.broken, self.overridden, self.defaulted):
            paths |= {(*new, *path[len(old) :]) for path in paths if path[: len(old)] == old}
        self.substituted |= {
            (*new, *path[len(old) :]): text for path, text in self.substituted.items() if path[: len(old)] == old
        }

    def as_written(self, path: OptionPath) -> OptionPath:
        """The path with the names in the file."""
        for length in range(len(path), 0, -1):
            if old := self.written.get(path[:length]):
                found = (*old, *path[length:])
                return found if old[:length] == path[:length] else self.as_written(found)
        return path

    def location(self, path: OptionPath) -> EntryLocation:
        """The location of a path, or of the nearest path around it that the file has."""
        locations = self.document.locations
        while path and path not in locations:
            path = path[:-1]
        return locations.get(path, EntryLocation(None, (1, 1)))

    def broken_below(self, path: OptionPath) -> set[OptionPath]:
        """The paths below ``path`` that have errors, relative to it."""
        return {one[len(path) :] for one in self.broken if one[: len(path)] == path and len(one) > len(path)}

    def extend_hint(self, path: OptionPath, message: str, hint: str | None) -> bool:
        """Add a fault of a renamed option's value to the problem that reports its name: both are one mistake. Whether there is
        such a problem."""
        key = self.location(path).key if path in self.written else None
        for number, problem in enumerate(self.problems):
            if problem.code == "unknown-option" and (problem.line, problem.column) == key:
                whole = self._mask(f"{message}: {hint}" if hint else message)
                self.problems[number] = replace(problem, hint=f"{problem.hint} There, {whole}")
                return True
        return False

    def note_unchecked(self) -> None:
        """Add to the hints of errors which fields behind them cannot be checked."""
        for owner in dict.fromkeys(owner for owner, _ in self.unchecked):
            names = cut(", ".join(repr(name) for of, name in self.unchecked if of == owner), _LONGEST_NOTE)
            inside = [problem for problem in self.errors if problem.path.startswith(json_path(self.as_written(owner)))]
            if inside:
                first, note = inside[0], f"fields that cannot be checked until this is mended: {names}"
                noted = replace(first, hint=f"{first.hint}; {note}" if first.hint else note)
                self.problems = [noted if problem == first else problem for problem in self.problems]

    def is_broken(self, path: OptionPath) -> bool:
        """Whether this value, or one around it, has an error."""
        return any(path[:length] in self.broken for length in range(1, len(path) + 1))

    @property
    def errors(self) -> list[Problem]:
        """Problems that are no warnings, in file order."""
        return [problem for problem in self.sorted() if problem.severity == "error"]

    def sorted(self) -> list[Problem]:
        """All problems in file order."""
        return in_file_order(self.problems)

    def hide(self, value: object, shown: str) -> None:
        """Mask this value in all messages."""
        if isinstance(value, str) and len(value) >= _SHORTEST_MASKED:
            self.masked[value] = shown

    def _mask(self, text: str) -> str:
        for value in sorted(self.masked, key=len, reverse=True):
            text = text.replace(value, self.masked[value])
        return text
