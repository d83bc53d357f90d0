"""Which files of a path can be read, for the probe before a run and for the message after one that read nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property

from connectors.file.reading.file_stream import open_regular
from connectors.file.reading.globs import GLOB_CHARACTERS, glob_root
from etl.api import FileSearch, Finding, nearest


@dataclass(frozen=True)
class FileProbe:
    """The files of a path or glob at one moment."""

    pattern: str
    exclude: Sequence[str] = ()

    @cached_property
    def search(self) -> FileSearch:
        """The search, with folders that could not be listed and links that were not followed."""
        return FileSearch(self.pattern, self.exclude)

    @cached_property
    def files(self) -> dict[str, int]:
        """Regular files that match, with their sizes in bytes."""
        found = {path: _status(path) for path in self.search.paths()}
        return {path: status.st_size for path, status in found.items() if status and stat.S_ISREG(status.st_mode)}

    @cached_property
    def unreadable(self) -> dict[str, str]:
        """Files that cannot be opened, and the reasons."""
        return {path: reason for path in self.files if (reason := _open_error(path))}

    @property
    def summary(self) -> str:
        """``2 files match '*.log'``."""
        count = len(self.files)
        return f"{count:,} file{' matches' if count == 1 else 's match'} {self.pattern!r}" if count else self._describe_missing

    def check(self) -> Iterator[Finding]:
        """Yield findings: no file, unreadable files, folders that were not searched."""
        if not self.files:
            code = "no-files" if GLOB_CHARACTERS.search(self.pattern) else "missing-input"
            yield Finding(code, f"{self._describe_missing}{_working_directory(self.pattern)}", ("path",), self._hint())
        elif self.unreadable:
            hint = "grant the right to read them, or list them under `exclude`"
            yield Finding("unreadable-file", self.obstacle or "", ("path",), hint)
        yield from self._find_skipped()

    def _find_skipped(self) -> Iterator[Finding]:
        """Yield findings for folders that cannot be listed, and for links to folders that are searched under another name."""
        if self.search.unreadable:
            path, reason = next(iter(self.search.unreadable.items()))
            message = (
                f"{_folders(self.search.unreadable, 'folder')} cannot be listed, so no file below is read: {path!r}: {reason}"
            )
            hint = f"grant the right to list it, or write {path.rstrip('/') + '/*'!r} under `exclude`"
            yield Finding("skipped-folder", message, ("path",), hint, "warning")
        if self.search.skipped_links:
            link, folder = next(iter(self.search.skipped_links.items()))
            count = _folders(self.search.skipped_links, "link")
            message = f"{count} to a folder that is searched under another name: {link!r} leads to {folder!r}"
            hint = "its files are read once, under that name"
            yield Finding("skipped-folder", message, ("path",), hint, "warning")

    @property
    def obstacle(self) -> str | None:
        """Why nothing can be read now; None if something can."""
        if not self.files:
            return f"{self._describe_missing}{_working_directory(self.pattern)}"
        if self.unreadable:
            path, reason = next(iter(self.unreadable.items()))
            return f"{self.summary}, of which {len(self.unreadable):,} cannot be opened: {path!r}: {reason}"
        if not any(self.files.values()):
            return f"{self.summary}, but {'it is' if len(self.files) == 1 else 'all are'} empty"
        return None

    @cached_property
    def _describe_missing(self) -> str:
        """Description of what is missing."""
        if os.path.isdir(self.pattern):
            return f"{self.pattern!r} is a folder"
        status = None if GLOB_CHARACTERS.search(self.pattern) else _status(self.pattern)
        if status is not None and not stat.S_ISREG(status.st_mode):
            return f"{self.pattern!r} is not a regular file"
        if self._are_all_excluded:
            return f"exclude excludes all files that match {self.pattern!r}"
        return (
            f"no file matches {self.pattern!r}" if GLOB_CHARACTERS.search(self.pattern) else f"there is no file {self.pattern!r}"
        )

    @cached_property
    def _are_all_excluded(self) -> bool:
        """Whether files would match without ``exclude``."""
        return bool(self.exclude and FileSearch(self.pattern).paths())

    def _hint(self) -> str:
        """Return a hint that depends on what exists instead."""
        if os.path.isdir(self.pattern):
            folder = self.pattern.rstrip("/")
            return f"write {folder + '/*'!r} for the files in it, {folder + '/**'!r} for those in all folders below, too"
        if self._are_all_excluded:
            return f"make `exclude` narrower: {', '.join(self.exclude)}"
        if self.pattern.startswith("~"):
            return "'~' is not expanded here; write ${HOME}"
        folder = glob_root(self.pattern)
        if not os.path.isdir(folder):
            return f"there is no folder {folder!r}; the nearest that exists is {_find_existing_folder(folder)!r}"
        try:
            names = os.listdir(folder)
        except OSError as error:
            return f"folder {folder!r} cannot be listed: {error.strerror}"
        if "{" in self.pattern:
            return "braces are literal in a glob; its wildcards are *, **, ? and [abc]"
        similar = None if GLOB_CHARACTERS.search(self.pattern) else nearest(os.path.basename(self.pattern), names)
        return similar or f"folder {folder!r} exists, with {len(names):,} other name{'' if len(names) == 1 else 's'}"


def _folders(found: Sized, noun: str) -> str:
    return f"{len(found):,} {noun}{'' if len(found) == 1 else 's'}"


def _working_directory(pattern: str) -> str:
    return "" if os.path.isabs(pattern) else f" in working directory {os.getcwd()!r}"


def _find_existing_folder(folder: str) -> str:
    path = os.path.abspath(folder)
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _open_error(path: str) -> str | None:
    try:
        open_regular(path).close()
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.strerror
    return None
