"""Collects the problems of one file: converts paths to locations and masks secret values."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from etl.api import FileLocation, Finding, cut
from etl.config.document.text_locations import location_at
from etl.config.document.yaml_document import Document, EntryLocation
from etl.config.model import OptionPath, YamlLocation
from etl.config.problems import Problem, Severity, in_file_order, json_path

_MIN_MASKED_CHARACTERS = 4
"""Characters; masking shorter values would spoil messages and hide little."""
_MAX_NOTE_CHARACTERS = 80
"""Characters of the names of fields that could not be checked."""


@dataclass
class Report:
    """Problems of one file."""

    file: str
    document: Document
    problems: list[Problem] = field(default_factory=list)
    masks: dict[str, str] = field(default_factory=dict)
    """Secret value → the text that messages show instead."""
    substituted: dict[OptionPath, str] = field(default_factory=dict)
    """Path of a value that came from outside the file → the text in the file, such as ``${NAME}``."""
    defaulted: set[OptionPath] = field(default_factory=set)
    """Paths in `substituted` whose value is the default: the environment of a run may give another value."""
    broken: set[OptionPath] = field(default_factory=set)
    """Paths of values with errors; further errors of these values are not reported, because they are consequences."""
    unchecked: dict[tuple[OptionPath, str], None] = field(default_factory=dict)
    """Path of a component with errors, and a field that a later component uses and this one may give."""
    original_paths: dict[OptionPath, OptionPath] = field(default_factory=dict)
    """Path with a corrected name → path in the file."""
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
        """Add a problem of the value at ``path``, or of its key."""
        entry = self.location(path)
        self.add_at(entry.key if key and entry.key else entry.value, path, code, message, hint, severity)

    def fail(self, path: OptionPath, code: str, message: str, hint: str | None = None, *, key: bool = False) -> None:
        """Add an error; further errors of the value are not reported."""
        self.add(path, code, message, hint, key=key)
        self.broken.add(path)

    def add_finding(self, owner: OptionPath, finding: Finding) -> None:
        """Add a problem that the component at ``owner`` found."""
        if finding.location is not None:
            self._add_finding_elsewhere(finding, finding.location)
            return
        path = (*owner, *finding.path)
        if path not in self.document.locations and path[-1:] == (0,):
            path = path[:-1]  # a single value stands for a list
        entry = self.location(path)
        location = entry.value
        if finding.at is not None and path not in self.substituted and path in self.document.locations:
            location = location_at(self.document, entry, finding.at)
        self.add_at(location, path, finding.code, finding.message, finding.hint, finding.severity)

    def _add_finding_elsewhere(self, finding: Finding, location: FileLocation) -> None:
        """Add a problem of another file. Two components that read the file may add the same one."""
        shown = self._mask_secrets(finding.message), self._mask_secrets(finding.hint) if finding.hint else None
        at = location.file, location.line, location.column
        self.problems.append(Problem(*at, finding.code, json_path(location.path), *shown, finding.severity))

    def add_at(
        self,
        location: YamlLocation,
        path: OptionPath,
        code: str,
        message: str,
        hint: str | None = None,
        severity: Severity = "error",
    ) -> None:
        """Add a problem at a location."""
        if hint and path[:1] == ("sinks",):
            hint = self.document.sink_hints.get(code, hint)
        if any(path[: len(part)] == part for part in self.overridden):
            hint = f"{hint}; the value was given by --set" if hint else "the value was given by --set"
        shown = self._mask_secrets(message), self._mask_secrets(hint) if hint else None
        self.problems.append(Problem(self.file, *location, code, json_path(self.as_written(path)), *shown, severity))

    def rename(self, old: OptionPath, new: OptionPath) -> None:
        """Treat the value at ``old`` in the file as the value at ``new``."""
        self.original_paths[new] = old
        locations = {path: location for path, location in self.document.locations.items() if path[: len(old)] == old}
        self.document.locations.update({(*new, *path[len(old) :]): location for path, location in locations.items()})
        for paths in (self.broken, self.overridden, self.defaulted):
            paths |= {(*new, *path[len(old) :]) for path in paths if path[: len(old)] == old}
        self.substituted |= {
            (*new, *path[len(old) :]): text for path, text in self.substituted.items() if path[: len(old)] == old
        }

    def as_written(self, path: OptionPath) -> OptionPath:
        """Return the path with the names as they are in the file."""
        for length in range(len(path), 0, -1):
            if old := self.original_paths.get(path[:length]):
                found = (*old, *path[length:])
                return found if old[:length] == path[:length] else self.as_written(found)
        return path

    def location(self, path: OptionPath) -> EntryLocation:
        """Return the location of a path, or of its longest prefix that is in the file."""
        locations = self.document.locations
        while path and path not in locations:
            path = path[:-1]
        return locations.get(path, EntryLocation(None, (1, 1)))

    def broken_below(self, path: OptionPath) -> set[OptionPath]:
        """Return the paths below ``path`` that have errors, relative to it."""
        return {one[len(path) :] for one in self.broken if one[: len(path)] == path and len(one) > len(path)}

    def extend_hint(self, path: OptionPath, message: str, hint: str | None) -> bool:
        """Add a fault of a renamed option's value to the problem of its name, because both are one mistake.

        Returns False if there is no such problem.
        """
        key = self.location(path).key if path in self.original_paths else None
        for number, problem in enumerate(self.problems):
            if problem.code == "unknown-option" and (problem.line, problem.column) == key:
                whole = self._mask_secrets(f"{message}: {hint}" if hint else message)
                self.problems[number] = replace(problem, hint=f"{problem.hint} There, {whole}")
                return True
        return False

    def note_unchecked(self) -> None:
        """Add to hints of components with errors the later fields that cannot be checked."""
        for owner in dict.fromkeys(owner for owner, _ in self.unchecked):
            names = cut(", ".join(repr(name) for of, name in self.unchecked if of == owner), _MAX_NOTE_CHARACTERS)
            inside = [problem for problem in self.errors if problem.path.startswith(json_path(self.as_written(owner)))]
            if inside:
                first, note = inside[0], f"fields that cannot be checked until this is corrected: {names}"
                noted = replace(first, hint=f"{first.hint.removesuffix('.')}; {note}" if first.hint else note)
                self.problems = [noted if problem == first else problem for problem in self.problems]

    def is_broken(self, path: OptionPath) -> bool:
        """Whether this value, or one around it, has an error."""
        return any(path[:length] in self.broken for length in range(1, len(path) + 1))

    @property
    def errors(self) -> list[Problem]:
        """Problems with severity ``error``, in file order."""
        return [problem for problem in self.sorted() if problem.severity == "error"]

    def sorted(self) -> list[Problem]:
        """All problems in file order."""
        return in_file_order(self.problems)

    def mask(self, value: object, shown: str) -> None:
        """Mask this value in all messages."""
        if isinstance(value, str) and len(value) >= _MIN_MASKED_CHARACTERS:
            self.masks[value] = shown

    def _mask_secrets(self, text: str) -> str:
        for value in sorted(self.masks, key=len, reverse=True):
            text = text.replace(value, self.masks[value])
        return text
