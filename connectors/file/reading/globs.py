"""Globs: the files that match one, and whether one matches a path that does not exist yet."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from connectors.file.reading.file_stat import FileStat, stat_file
from connectors.file.reading.file_warnings import clear_warnings, warn_once
from connectors.file.reading.tracked_files import Inode
from etl.api import FileSearch

GLOB_CHARACTERS = re.compile(r"[*?\[]")
"""Characters that make a path a glob."""

_existing_folders: set[str] = set()
"""Folders that existed at some scan: a folder that is missing from the beginning is reported at the start of the run instead.
"""

_unreadable_folders: set[str] = set()
"""Folders that the last search could not list."""


def match_files(pattern: str, exclude: Iterable[str]) -> dict[Inode, FileStat]:
    """Return the files of a glob by inode, so that a file with several names occurs once."""
    found: dict[Inode, FileStat] = {}
    folder = glob_root(pattern)
    if os.path.isdir(folder):
        _existing_folders.add(folder)
        clear_warnings(folder)
    elif folder in _existing_folders:
        warn_once(folder, "the folder does not exist; its files are read as soon as it does")
    search = FileSearch(pattern, exclude)
    for path in search.paths():
        stat_ = stat_file(path, warns_if_irregular=path == pattern)
        if stat_ is not None:
            found.setdefault(stat_.inode, stat_)
    _warn_of_folders(search)
    return found


def _warn_of_folders(search: FileSearch) -> None:
    """Warn once about each folder that cannot be listed, and again if it could be listed in between."""
    for path in _unreadable_folders - search.unreadable.keys():
        clear_warnings(path)
    _unreadable_folders.clear()
    _unreadable_folders.update(search.unreadable)
    for path, reason in search.unreadable.items():
        warn_once(path, f"this folder cannot be listed, and is searched as soon as it can: {reason}")


def glob_root(pattern: str) -> str:
    """Return the folder that contains all files of a glob."""
    return os.path.dirname(GLOB_CHARACTERS.split(pattern)[0]) or "."


def is_matched(path: str, pattern: str, exclude: Iterable[str] = ()) -> bool:
    """Return whether a glob with ``**`` would find an absolute path; links to folders are followed in both."""
    if not path.startswith("/"):
        return False
    absolute_pattern = os.path.abspath(os.path.expanduser(pattern))
    last = os.path.basename(absolute_pattern)
    if last != "**" and not _matches_name(os.path.basename(path), last):
        return False  # before links are resolved: a server compares each of a thousand pipelines with all others
    if any(fnmatchcase(path, one) or fnmatchcase(os.path.basename(path), one) for one in exclude):
        return False
    return matches_parts(path.split("/"), absolute_pattern.split("/")) or matches_parts(
        _resolve_links(path).split("/"), _resolve_links(absolute_pattern).split("/")
    )


def _resolve_links(path: str) -> str:
    """Resolve the links of the path's literal folders."""
    parts = path.split("/")
    literal = next((at for at, part in enumerate(parts) if GLOB_CHARACTERS.search(part)), len(parts) - 1)
    return "/".join([os.path.realpath("/".join(parts[:literal]) or "/").rstrip("/"), *parts[literal:]])


def _matches_name(name: str, pattern: str) -> bool:
    """Return whether a part of a path matches that of a glob. One without wildcards is compared: `fnmatch` compiles each pattern,
    and remembers 256."""
    return fnmatchcase(name, pattern) if GLOB_CHARACTERS.search(pattern) else name == pattern


def matches_parts(parts: Sequence[str], pattern_parts: Sequence[str]) -> bool:
    """Return whether the parts of a path match those of a glob; ``**`` matches any number of folders, and no wildcard a
    leading dot, as in `glob`."""
    if not pattern_parts:
        return not parts
    if pattern_parts[0] == "**":
        here = bool(parts) and not parts[0].startswith(".")
        return matches_parts(parts, pattern_parts[1:]) or (here and matches_parts(parts[1:], pattern_parts))
    if not parts or (parts[0].startswith(".") and not pattern_parts[0].startswith(".")):
        return False
    return _matches_name(parts[0], pattern_parts[0]) and matches_parts(parts[1:], pattern_parts[1:])
