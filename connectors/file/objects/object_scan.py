"""Finds the objects of a glob that were not read yet.

A store lists objects by name, not by time, and an object appears under the time at which its upload began. So the offset holds a
cursor, the time of the latest object read, and the keys of objects that were read within a span before it: an object is new if it
is in that span or later and its key is unknown. Time and size are part of the key: an object that was written again is new.
Notifications announce objects between two listings; they are lost, repeated and late, so they do not move the cursor.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import islice
from math import floor
from typing import Any

from connectors.file.notifications.inbox import Inbox
from connectors.file.objects.object_path import ObjectPath
from connectors.file.objects.stored_object import StoredObject
from connectors.file.reading.bounded_cache import BoundedCache
from connectors.file.reading.file_stream import codec_of
from connectors.file.reading.globs import GLOB_CHARACTERS, matches_parts
from connectors.file.reading.tracked_files import END, FileOffsets, TrackedFile
from connectors.shared.lines.charset import Charset

MAX_OBJECTS = 10_000
"""Objects of a micro-batch at most: the offset names each."""

_listings: BoundedCache[tuple[str, tuple[str, ...]], tuple[float, list[StoredObject]]] = BoundedCache()
"""Glob → when it was listed (monotonic seconds), and what was found."""


@dataclass(frozen=True, slots=True)
class ObjectScan:
    """A scan of a store."""

    uri: str
    exclude: tuple[str, ...]
    charset: Charset
    late_seconds: float
    """How long before the latest object read others may still appear."""
    max_age_seconds: float = 0.0
    """How old a listing may be that is used again."""
    inbox: Inbox | None = None
    """Objects that notifications announce; None without notifications."""

    def update_offsets(self, position: FileOffsets) -> FileOffsets:
        """Return unread objects and new ones, up to `MAX_OBJECTS`, each to its end; objects that are read are in ``read``."""
        unread, read = self._divide(position)
        cursor = _cursor(position)
        known = {*read, *(file.key for file in unread.values())}
        found, cursor = self._new_objects(cursor, known, MAX_OBJECTS - len(unread))
        for number, one in enumerate(found, position.next):
            new = self._track(one, number)
            unread[new.name] = new
        if self.inbox is None:
            cursor = max([cursor, *(file.written for file in unread.values())])
        read = {key: written for key, written in read.items() if written >= cursor - self.late_seconds}
        following = max([position.next, *(file.discovery_number + 1 for file in unread.values())])
        return FileOffsets(unread, following, read, None if self.inbox is None else cursor)

    def _new_objects(self, cursor: float, known: set[str], max_objects: int) -> tuple[list[StoredObject], float]:
        """Objects whose key is not known, listed ones before announced ones, and the cursor of the listing after them."""
        begin = cursor - self.late_seconds
        listing = self.list_objects()
        found = list(islice(_unknown(listing, begin, known), max_objects))
        taken = listing[-1:] if len(found) < max_objects else found[-1:]
        if self.inbox is not None:
            known = known.union(one.key for one in found)
            found += islice(_unknown(self.inbox.objects(), begin, known), max_objects - len(found))
        return found, max([cursor, *(one.written for one in taken)])

    def skip_all(self) -> FileOffsets:
        """Return an offset after all objects that there are."""
        found = self.list_objects()
        latest = max((one.written for one in found), default=0.0)
        read = {one.key: one.written for one in found if one.written >= latest - self.late_seconds}
        return FileOffsets(read=read, listed=None if self.inbox is None else latest)

    def delivered_objects(self, end: FileOffsets) -> Callable[[StoredObject], bool]:
        """Whether an object is before an offset: read to its end, or too old to be read."""
        unread, read = self._divide(end)
        waiting = {file.key for file in unread.values()}
        begin = _cursor(end) - self.late_seconds
        return lambda one: one.key in read or (one.key not in waiting and (one.written < begin or not one.size))

    def list_objects(self) -> list[StoredObject]:
        """The objects of the glob, by time and path. Raises OSError."""
        known = _listings.get((self.uri, self.exclude))
        if known is not None and time.monotonic() - known[0] < self.max_age_seconds:
            return known[1]
        listed = map(self._as_announced, list_objects(self.uri, self.exclude))
        found = sorted(listed, key=lambda one: (one.written, one.path))
        _listings[self.uri, self.exclude] = time.monotonic(), found
        return found

    def find_object(self, path: str) -> StoredObject | None:
        """One object; None if there is none of this path. Raises OSError, and ValueError if it cannot be a path."""
        from pyarrow.fs import FileType

        parts = ObjectPath.of(self.uri)
        info = parts.file_system().get_file_info(f"{parts.root}/{path.partition('/')[2]}")
        return self._as_announced(_stored(path, info)) if info.type == FileType.File else None

    def _as_announced(self, one: StoredObject) -> StoredObject:
        """The object with its time in whole seconds if there are notifications: listings of some stores have milliseconds, and
        answers about one object never have."""
        return one if self.inbox is None else replace(one, written=float(floor(one.written)))

    def _divide(self, position: FileOffsets) -> tuple[dict[str, TrackedFile], dict[str, float]]:
        """Objects that are not read to their ends, and the keys and times of those that are."""
        unread, read = {}, {**position.read}
        for file in position.ordered():
            if file.offset < _end(file, self.charset):
                unread[file.name] = replace(file, offset=_end(file, self.charset))
            else:
                read[file.key] = file.written
        return unread, read

    def _track(self, one: StoredObject, number: int) -> TrackedFile:
        uri = ObjectPath.of(self.uri).uri(one.path)
        file = TrackedFile(f"{os.path.basename(one.path)}#{number}", uri, 0, 0, 0, size=one.size, codec=codec_of(one.path))
        tracked = replace(file, key=one.key, written=one.written)
        return replace(tracked, offset=_end(tracked, self.charset))


def _cursor(position: FileOffsets) -> float:
    """The time of the latest object read. Announced objects come in no order: with them it is the time of the latest object that
    a listing had, because only a listing shows that none before it is missing."""
    if position.listed is not None:
        return position.listed
    return max([*position.read.values(), *(file.written for file in position.files.values())], default=0.0)


def _unknown(found: Sequence[StoredObject], begin: float, known: Collection[str]) -> Iterator[StoredObject]:
    """Those of objects in the order of their times that were written at ``begin`` or later, have text, and are not known."""
    late = islice(found, bisect_left(found, begin, key=lambda one: one.written), None)
    return (one for one in late if one.size and one.key not in known)


def _end(file: TrackedFile, charset: Charset) -> int:
    return END if file.codec else charset.whole(file.size)


def list_objects(uri: str, exclude: Sequence[str] = ()) -> Iterator[StoredObject]:
    """Yield the objects that a glob matches, folder by folder: only folders that can hold matches are listed. Raises OSError."""
    parts = ObjectPath.of(uri)
    pattern = parts.path.partition("/")[2]
    for info, path in _matches(parts.file_system(), parts.root, pattern.split("/")):
        shown = parts.host + path.removeprefix(parts.root)
        excluded = any(fnmatchcase(shown, one) or fnmatchcase(os.path.basename(shown), one) for one in exclude)
        if not excluded:
            yield _stored(shown, info)


def _stored(path: str, info: Any) -> StoredObject:
    return StoredObject(path, int(info.size or 0), info.mtime_ns / 1e9 if info.mtime_ns is not None else 0.0)


def _matches(system: Any, folder: str, names: Sequence[str]) -> Iterator[tuple[Any, str]]:
    """Yield infos and paths of files below a folder that match the remaining names of a glob."""
    from pyarrow.fs import FileType

    literal = next((at for at, name in enumerate(names) if GLOB_CHARACTERS.search(name)), len(names))
    if literal == len(names):
        path = "/".join([folder, *names])
        info = system.get_file_info(path)
        if info.type == FileType.File:
            yield info, path
        return
    folder = "/".join([folder, *names[:literal]])
    name, *rest = names[literal:]
    if name == "**":
        yield from _below(system, folder, rest)
        return
    for info in _listed(system, folder):
        base = os.path.basename(info.path)
        if not fnmatchcase(base, name) or (base.startswith(".") and not name.startswith(".")):
            continue
        if info.type == FileType.File and matches_parts((), rest):
            yield info, info.path
        elif info.type == FileType.Directory and rest:
            yield from _matches(system, info.path, rest)


def _below(system: Any, folder: str, rest: Sequence[str]) -> Iterator[tuple[Any, str]]:
    """Yield files in any folder below this one whose last names match ``rest``; all files without it."""
    from pyarrow.fs import FileType

    for info in _listed(system, folder, recursive=True):
        path = info.path.removeprefix(folder).lstrip("/")
        if info.type == FileType.File and matches_parts(path.split("/"), ["**", *rest]):
            yield info, info.path


def _listed(system: Any, folder: str, recursive: bool = False) -> list[Any]:
    from pyarrow.fs import FileSelector

    found: list[Any] = system.get_file_info(FileSelector(folder, recursive=recursive, allow_not_found=True))
    return found
