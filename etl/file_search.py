"""The files that a glob matches, without following directory links in circles."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch, translate
from glob import has_magic

_Identity = tuple[int, int]
"""Device and inode of a folder."""

_GONE = (FileNotFoundError, NotADirectoryError)

_ESCAPED = re.compile(r"\[([*?\[])\]")


class FileSearch:
    """One search for the paths that a glob matches: ``*``, ``?``, ``[abc]``, and ``**`` for any folders.

    Names that begin with a dot match only where the pattern has the dot. Directory links are followed. Below ``**``
    each folder is searched once, identified by device and inode; under its own name rather than
    under the names of links.
    """

    def __init__(self, pattern: str, exclude: Iterable[str] = ()) -> None:
        self.pattern, self.exclude = pattern, tuple(exclude)
        self.skipped_links: dict[str, str] = {}
        """Directory links that were not followed, and the name under which their folder was searched."""
        self.unreadable: dict[str, str] = {}
        """Folders that could not be listed, and why."""
        self._searched: dict[int, dict[_Identity, str]] = {}
        self._last: tuple[str, list[os.DirEntry[str]]] | None = None

    def paths(self) -> list[str]:
        """Paths that match and are not excluded, sorted. They may be anything but folders found by ``**``."""
        if not has_magic(self.pattern):
            found: Iterable[str] = [self.pattern] if os.path.lexists(self.pattern) else []
        elif self.pattern.endswith("/"):
            found = []
        else:
            found = self._matches("/" if self.pattern.startswith("/") else "", _parts(self.pattern), 0)
        return sorted({path for path in found if not self._excludes(path)})

    def _matches(self, folder: str, parts: list[str], at: int) -> Iterator[str]:
        part, is_last = parts[at], at == len(parts) - 1
        if part == "**":
            for base in self._folders_below(folder, at):
                yield from self._files(base) if is_last else self._matches(base, parts, at + 1)
        elif has_magic(part):
            for path in self._find_matching(folder, part, folders_only=not is_last):
                yield from [path] if is_last else self._matches(path, parts, at + 1)
        else:
            path = os.path.join(folder, _ESCAPED.sub(r"\1", part))
            if not is_last:
                yield from self._matches(path, parts, at + 1)
            elif os.path.lexists(path):
                yield path

    def _find_matching(self, folder: str, part: str, folders_only: bool) -> Iterator[str]:
        """Entries of a folder whose names match one part of the pattern."""
        matches = re.compile(translate(part)).match
        for entry in self._entries(folder):
            hidden = entry.name.startswith(".") and not part.startswith(".")
            if not hidden and matches(entry.name) and not (folders_only and not self._is_folder(entry)):
                yield os.path.join(folder, entry.name)

    def _files(self, folder: str) -> Iterator[str]:
        for entry in self._entries(folder):
            if not entry.name.startswith(".") and not self._is_folder(entry):
                yield os.path.join(folder, entry.name)

    def _folders_below(self, folder: str, at: int) -> Iterator[str]:
        """A folder and all below it, each once: those that links lead to are the last."""
        searched = self._searched.setdefault(at, {})
        own, linked = [folder], list[str]()
        while own or linked:
            path = own.pop() if own else linked.pop(0)
            identity = self._identity(path)
            if identity is None:
                continue
            if identity in searched:
                self.skipped_links.setdefault(path, searched[identity])
                continue
            searched[identity] = path or "."
            yield path
            for entry in self._entries(path):
                below = os.path.join(path, entry.name)
                if not entry.name.startswith(".") and self._is_folder(entry) and not self._excludes_all_of(below):
                    (linked if entry.is_symlink() else own).append(below)

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        """The entries of a folder, links last. The last result is cached, because each folder is listed twice."""
        if self._last is not None and self._last[0] == folder:
            return self._last[1]
        entries: list[os.DirEntry[str]] = []
        try:
            with os.scandir(folder or ".") as found:
                entries = sorted(found, key=lambda entry: (entry.is_symlink(), entry.name))
        except _GONE:
            pass
        except OSError as error:
            self.unreadable[folder or "."] = error.strerror or str(error)
        self._last = folder, entries
        return entries

    def _is_folder(self, entry: os.DirEntry[str]) -> bool:
        try:
            return entry.is_dir()
        except OSError as error:  # such as a link to itself
            self.unreadable[entry.path] = error.strerror or str(error)
            return False

    def _identity(self, folder: str) -> _Identity | None:
        try:
            status = os.stat(folder or ".")
        except _GONE:
            return None
        except OSError as error:
            self.unreadable[folder or "."] = error.strerror or str(error)
            return None
        return status.st_dev, status.st_ino

    def _excludes(self, path: str) -> bool:
        name = os.path.basename(path)
        return any(fnmatch(path, one) or fnmatch(name, one) for one in self.exclude)

    def _excludes_all_of(self, folder: str) -> bool:
        """Whether an exclusion matches every path below a folder: one that ends in ``*`` matches all that begin so."""
        return any(one.endswith("*") and fnmatch(f"{folder}/", one) for one in self.exclude)


def _parts(pattern: str) -> list[str]:
    """The parts between slashes; one ``**`` for several in a row."""
    parts: list[str] = []
    for part in pattern.split("/"):
        if part and not (part == "**" and parts[-1:] == ["**"]):
            parts.append(part)
    return parts
