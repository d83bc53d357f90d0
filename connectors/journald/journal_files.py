"""Finds the journal files of a path, each by its identifier: a file that was renamed or copied is still the same."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from connectors.file.reading.file_warnings import clear_warnings, warn_once
from connectors.journald.journal_file import (
    HEADER_BYTES,
    MIN_ENTRY_BYTES,
    JournalFile,
    JournalHeader,
    NotAJournalError,
    read_header,
)

_NAME = re.compile(r".+\.journal~?")
"""``system.journal``, archived files, and ``….journal~``: one that was not closed before a crash."""

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})

_MACHINE = re.compile(r"[0-9a-f]{32}(\..+)?")
"""A folder of a machine, or of a name space of one (``journalctl --namespace``)."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A journal file at its current path."""

    path: str
    header: JournalHeader


def find_files(path: str) -> dict[str, FoundFile]:
    """Return the files of a path by identifier, in the order of their first entries.

    A path of a file stands for all files of its folder, so that it is followed when it gets another name. Of several copies of a
    file the longest counts. A file that cannot be read is left out with a warning, once. Raises OSError if the
    process has no more descriptors or memory, which says nothing about the files.
    """
    found: dict[str, FoundFile] = {}
    for candidate in candidates(path):
        try:
            if os.path.getsize(candidate) < HEADER_BYTES:  # journald is about to write its header
                continue
            header = _plausible(candidate, read_header(candidate))
        except FileNotFoundError:
            continue
        except (OSError, NotAJournalError) as error:
            if isinstance(error, OSError) and error.errno in _EXHAUSTED:
                raise
            warn_once(candidate, f"this journal file cannot be read: {error}")
            continue
        if header.id not in found or found[header.id].header.entries < header.entries:
            found[header.id] = FoundFile(candidate, header)
    return dict(sorted(found.items(), key=lambda item: (item[1].header.head_time, item[0])))


def _plausible(path: str, header: JournalHeader) -> JournalHeader:
    """A header whose numbers the file can have. Files after one that says it has 2**60 entries would never be read."""
    size = os.path.getsize(path)
    entries = min(header.entries, size // MIN_ENTRY_BYTES)
    if entries < header.entries:
        warn_once(
            path, f"its header says that it has {header.entries:,} entries, and in its {size:,} bytes are {entries:,} at most"
        )
    else:
        clear_warnings(path)
    return replace(header, entries=entries, used_bytes=min(header.used_bytes, size))


def candidates(path: str) -> Iterator[str]:
    """Yield the journal files of a path: itself, and those of its folder or of the machines below it."""
    folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
    if not os.path.isdir(path):
        yield path
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        for entry in entries:
            if _NAME.fullmatch(entry.name) and entry.is_file():
                yield entry.path
            elif folder == path and _MACHINE.fullmatch(entry.name) and entry.is_dir():
                yield from (one.path for one in _list_folder(entry.path) if _NAME.fullmatch(one.name) and one.is_file())
        clear_warnings(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        warn_once(folder, f"this folder cannot be listed: {error}")


def _list_folder(folder: str) -> list[os.DirEntry[str]]:
    try:
        return sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        warn_once(folder, f"this folder cannot be listed: {error}")
        return []


def files_at(path: str, id_: str, found: Mapping[str, FoundFile], known: Collection[str]) -> dict[str, FoundFile]:
    """Return the files that were at the path of a file: the one that is there now (``id_``), those that are known, and archives
    that were there between them: journald names them ``system@….journal`` after ``system.journal``."""
    archive = re.compile(re.escape(os.path.basename(path).removesuffix(".journal")) + r"@.+\.journal~?")
    former = [found[name].header for name in known if name in found]

    def was_there(one: FoundFile) -> bool:
        is_archive = archive.fullmatch(os.path.basename(one.path)) is not None
        return is_archive and bool(known) and (not former or any(one.header.is_after(header) for header in former))

    return {name: one for name, one in found.items() if name == id_ or name in known or was_there(one)}


def open_by_id(path: str, expected: str, id_: str, entries: int) -> JournalFile | None:
    """Open the file with an identifier and at least ``entries`` entries, probably at ``expected``; None if there is none.

    Raises OSError if it is there and cannot be opened.
    """
    file = _open_if(expected, id_, entries)
    if file is None and (found := find_files(path).get(id_)):
        file = _open_if(found.path, id_, entries)
    return file


def _open_if(path: str, id_: str, entries: int) -> JournalFile | None:
    try:
        file = JournalFile(path)
    except (FileNotFoundError, NotADirectoryError, ValueError, NotAJournalError):
        return None
    return file if file.header.id == id_ and file.header.entries >= entries else None
