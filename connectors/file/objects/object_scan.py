"""Finds the objects of a glob that were not read yet.

A store lists objects by name, not by time, and an object appears under the time at which its upload began. So the offset holds a
cursor, the time of the latest object read, and the keys of objects that were read within a span before it: an object is new if it
is in that span or later and its key is unknown. Time and size are part of the key: an object that was written again is new.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from hashlib import blake2b
from itertools import islice
from typing import Any

from connectors.file.objects.object_path import ObjectPath
from connectors.file.reading.bounded_cache import BoundedCache
from connectors.file.reading.globs import GLOB_CHARACTERS, matches_parts
from connectors.file.reading.streams import codec_of
from connectors.file.reading.tracked_files import END, FileOffsets, TrackedFile
from connectors.shared.lines.charset import Charset

MAX_OBJECTS = 10_000
"""Objects of a micro-batch at most: the offset names each."""

_listings: BoundedCache[tuple[str, tuple[str, ...]], tuple[float, list[StoredObject]]] = BoundedCache()
"""Glob → when it was listed (monotonic seconds), and what was found."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object of a listing: its path with the bucket, size in bytes, and time of writing in seconds since the epoch."""

    path: str
    size: int
    written: float

    @property
    def key(self) -> str:
        """A hash that identifies this version of the object."""
        return blake2b(f"{self.path}\n{self.size}\n{self.written}".encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


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

    def update_offsets(self, position: FileOffsets) -> FileOffsets:
        """Return unread objects and new ones, up to `MAX_OBJECTS`, each to its end; objects that are read are in ``read``."""
        read = {**position.read}
        unread = {}
        for file in position.ordered():
            if file.offset < _end(file, self.charset):
                unread[file.name] = replace(file, offset=_end(file, self.charset))
            else:
                read[file.key] = file.written
        known = {*read, *(file.key for file in unread.values())}
        cursor = max([*read.values(), *(file.written for file in unread.values())], default=0.0)
        begin = cursor - self.late_seconds
        found = (one for one in self.list_objects() if one.written >= begin and one.size and one.key not in known)
        for number, one in enumerate(islice(found, MAX_OBJECTS - len(unread)), position.next):
            new = self._track(one, number)
            unread[new.name] = new
        latest = max([cursor, *(file.written for file in unread.values())])
        read = {key: written for key, written in read.items() if written >= latest - self.late_seconds}
        return FileOffsets(unread, max([position.next, *(file.discovery_number + 1 for file in unread.values())]), read)

    def skip_all(self) -> FileOffsets:
        """Return an offset after all objects that there are."""
        found = self.list_objects()
        latest = max((one.written for one in found), default=0.0)
        return FileOffsets(read={one.key: one.written for one in found if one.written >= latest - self.late_seconds})

    def list_objects(self) -> list[StoredObject]:
        """The objects of the glob, by time and path. Raises OSError."""
        known = _listings.get((self.uri, self.exclude))
        if known is not None and time.monotonic() - known[0] < self.max_age_seconds:
            return known[1]
        found = sorted(list_objects(self.uri, self.exclude), key=lambda one: (one.written, one.path))
        _listings[self.uri, self.exclude] = time.monotonic(), found
        return found

    def _track(self, one: StoredObject, number: int) -> TrackedFile:
        uri = ObjectPath.of(self.uri).uri(one.path)
        file = TrackedFile(f"{os.path.basename(one.path)}#{number}", uri, 0, 0, 0, size=one.size, codec=codec_of(one.path))
        tracked = replace(file, key=one.key, written=one.written)
        return replace(tracked, offset=_end(tracked, self.charset))


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
            yield StoredObject(shown, int(info.size or 0), info.mtime_ns / 1e9 if info.mtime_ns is not None else 0.0)


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
        if info.type == FileType.File and not rest:
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
