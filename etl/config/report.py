"""Collecting the problems of one file: paths become places, secret values stay unseen."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from etl.api import FileLocation, Finding, cut
from etl.config.document import Document, EntryLocation
from etl.config.locate import location_at
from etl.config.model import OptionPath, YamlLocation
from etl.config.problems import Problem, Severity, in_file_order, json_path

_SHORTEST_MASKED = 4
"""Characters; replacing shorter values would spoil messages and hide little."""


_LONGEST_NOTE = 80
"""Characters of the names of fields that could not be checked."""


@dataclass
class Report:
    """Problems of one file."""

    file: str
    document: Document
    problems: list[Problem] = field(default_factory=list)
    masked: dict[str, str] = field(default_factory=dict)
    """Values never shown → what is shown instead."""
    substituted: dict[OptionPath, str] = field(default_factory=dict)
    """Values that came from outside the file → what the file says there."""
    defaulted: set[OptionPath] = field(default_factory=set)
    """Those of them for which a default stands: the environment of the run may say otherwise."""
    broken: set[OptionPath] = field(default_factory=set)
    """Values with errors: what else is wrong with them is a consequence."""
    unchecked: dict[tuple[OptionPath, str], None] = field(default_factory=dict)
    """Component with errors, and a field that is named behind it and may or may not come from it."""
    written: dict[OptionPath, OptionPath] = field(default_factory=dict)
    """Paths of repaired names → the paths that the file has."""
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
        """An error after which nothing else is said about the value."""
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
        """A problem of another file; two components that name the file find the same one."""
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
        """A problem at a known place."""
        if any(path[: len(part)] == part for part in self.overridden):
            hint = f"{hint}; the value was given by --set" if hint else "the value was given by --set"
        shown = self._mask(message), self._mask(hint) if hint else None
        self.problems.append(Problem(self.file, *location, code, json_path(self.as_written(path)), *shown, severity))

    def rename(self, old: OptionPath, new: OptionPath) -> None:
        """What stands at ``old`` in the file is looked for at ``new`` from now on."""
        self.written[new] = old
        locations = {path: location for path, location in self.document.locations.items() if path[: len(old)] == old}
        self.document.locations.update({(*new, *path[len(old) :]): location for path, location in locations.items()})
        for paths in (self.broken, self.overridden, self.defaulted):
            paths |= {(*new, *path[len(old) :]) for path in paths if path[: len(old)] == old}
        self.substituted |= {
            (*new, *path[len(old) :]): text for path, text in self.substituted.items() if path[: len(old)] == old
        }

    def as_written(self, path: OptionPath) -> OptionPath:
        """The path with the names that the file has."""
        for length in range(len(path), 0, -1):
            if old := self.written.get(path[:length]):
                found = (*old, *path[length:])
                return found if old[:length] == path[:length] else self.as_written(found)
        return path

    def location(self, path: OptionPath) -> EntryLocation:
        """The place of a path, or of the nearest path around it that the file has."""
        locations = self.document.locations
        while path and path not in locations:
            path = path[:-1]
        return locations.get(path, EntryLocation(None, (1, 1)))

    def broken_below(self, path: OptionPath) -> set[OptionPath]:
        """Where below ``path`` errors were reported, relative to it."""
        return {one[len(path) :] for one in self.broken if one[: len(path)] == path and len(one) > len(path)}

    def note_unchecked(self) -> None:
        """Say at the errors which fields behind them could not be looked for."""
        for owner in dict.fromkeys(owner for owner, _ in self.unchecked):
            names = cut(", ".join(repr(name) for of, name in self.unchecked if of == owner), _LONGEST_NOTE)
            inside = [problem for problem in self.errors if problem.path.startswith(json_path(self.as_written(owner)))]
            if inside:
                first, note = inside[0], f"fields that cannot be checked until this is mended: {names}"
                hint = f"{first.hint}; {note}" if first.hint else note
                self.problems[self.problems.index(first)] = replace(first, hint=hint)

    def is_broken(self, path: OptionPath) -> bool:
        """Whether an error was reported for this value or one around it."""
        return any(path[:length] in self.broken for length in range(1, len(path) + 1))

    @property
    def errors(self) -> list[Problem]:
        """Problems that are no warnings, in file order."""
        return [problem for problem in self.sorted() if problem.severity == "error"]

    def sorted(self) -> list[Problem]:
        """All problems in file order."""
        return in_file_order(self.problems)

    def hide(self, value: object, shown: str) -> None:
        """Never print this value."""
        if isinstance(value, str) and len(value) >= _SHORTEST_MASKED:
            self.masked[value] = shown

    def _mask(self, text: str) -> str:
        for value in sorted(self.masked, key=len, reverse=True):
            text = text.replace(value, self.masked[value])
        return text
