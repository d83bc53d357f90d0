"""What there is to read under a path, for who asks before a run or wonders after one that read nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property

from connectors.file.places import MAGIC, root
from connectors.file.streams import open_regular
from etl.api import FileSearch, Finding, nearest


@dataclass(frozen=True)
class Inventory:
    """One look at the files of a path or glob."""

    pattern: str
    exclude: Sequence[str] = ()

    @cached_property
    def search(self) -> FileSearch:
        """The search, for what it could not list and did not follow."""
        return FileSearch(self.pattern, self.exclude)

    @cached_property
    def files(self) -> dict[str, int]:
        """Regular files that match, with their sizes in bytes."""
        found = {path: _status(path) for path in self.search.paths()}
        return {path: status.st_size for path, status in found.items() if status and stat.S_ISREG(status.st_mode)}

    @cached_property
    def refused(self) -> dict[str, str]:
        """Files that cannot be opened, and why."""
        return {path: reason for path in self.files if (reason := _refusal(path))}

    @property
    def matching(self) -> str:
        """``2 files match '*.log'``."""
        count = len(self.files)
        return f"{count:,} file{' matches' if count == 1 else 's match'} {self.pattern!r}" if count else self._nothing

    def findings(self) -> Iterator[Finding]:
        """No file, or some that cannot be read; folders that were not searched."""
        if not self.files:
            yield Finding("no-files", f"{self._nothing}{_here(self.pattern)}", ("path",), self._way_out())
        elif self.refused:
            hint = "give the right to read them, or name them under `exclude`"
            yield Finding("unreadable-file", self.obstacle or "", ("path",), hint)
        yield from self._skipped()

    def _skipped(self) -> Iterator[Finding]:
        """Folders that cannot be listed, and links to folders that are searched under another name."""
        if self.search.unreadable:
            path, reason = next(iter(self.search.unreadable.items()))
            message = (
                f"{_folders(self.search.unreadable, 'folder')} cannot be listed, so no file below is read: {path!r}: {reason}"
            )
            hint = f"give the right to list it, or write {path.rstrip('/') + '/*'!r} under `exclude`"
            yield Finding("skipped-folder", message, ("path",), hint, "warning")
        if self.search.skipped_links:
            link, folder = next(iter(self.search.skipped_links.items()))
            count = _folders(self.search.skipped_links, "link")
            message = f"{count} to a folder that is searched under another name: {link!r} leads to {folder!r}"
            hint = "its files are read once, under that name"
            yield Finding("skipped-folder", message, ("path",), hint, "warning")

    @property
    def obstacle(self) -> str | None:
        """Why nothing can be read of it now; None when something can."""
        if not self.files:
            return f"{self._nothing}{_here(self.pattern)}"
        if self.refused:
            path, reason = next(iter(self.refused.items()))
            return f"{self.matching}, of which {len(self.refused):,} cannot be opened: {path!r}: {reason}"
        if not any(self.files.values()):
            return f"{self.matching}, with nothing in {'it' if len(self.files) == 1 else 'them'}"
        return None

    @cached_property
    def _nothing(self) -> str:
        """What is missing."""
        if os.path.isdir(self.pattern):
            return f"{self.pattern!r} is a folder"
        status = None if MAGIC.search(self.pattern) else _status(self.pattern)
        if status is not None and not stat.S_ISREG(status.st_mode):
            return f"{self.pattern!r} is no regular file"
        if self._excluded:
            return f"exclude leaves out all that matches {self.pattern!r}"
        return f"no file matches {self.pattern!r}" if MAGIC.search(self.pattern) else f"there is no file {self.pattern!r}"

    @cached_property
    def _excluded(self) -> bool:
        """Whether there would be something without ``exclude``."""
        return bool(self.exclude and FileSearch(self.pattern).paths())

    def _way_out(self) -> str:
        """What to do, by what is there instead."""
        if os.path.isdir(self.pattern):
            folder = self.pattern.rstrip("/")
            return f"write {folder + '/*'!r} for the files in it, {folder + '/**'!r} for those in all folders below, too"
        if self._excluded:
            return f"make `exclude` narrower: {', '.join(self.exclude)}"
        if self.pattern.startswith("~"):
            return "'~' is no more than a letter here; write ${HOME}"
        folder = root(self.pattern)
        if not os.path.isdir(folder):
            return f"there is no folder {folder!r}; the nearest that exists is {_existing(folder)!r}"
        try:
            names = os.listdir(folder)
        except OSError as error:
            return f"folder {folder!r} cannot be listed: {error.strerror}"
        if "{" in self.pattern:
            return "braces stand for themselves in a glob; its signs are *, **, ? and [abc]"
        similar = None if MAGIC.search(self.pattern) else nearest(os.path.basename(self.pattern), names)
        return similar or f"folder {folder!r} is there, with {len(names):,} other name{'' if len(names) == 1 else 's'} in it"


def _folders(found: Sized, noun: str) -> str:
    return f"{len(found):,} {noun}{'' if len(found) == 1 else 's'}"


def _here(pattern: str) -> str:
    return "" if os.path.isabs(pattern) else f" in working directory {os.getcwd()!r}"


def _existing(folder: str) -> str:
    path = os.path.abspath(folder)
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _refusal(path: str) -> str | None:
    try:
        open_regular(path).close()
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.strerror
    return None
