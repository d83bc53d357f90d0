"""File names before and after rotation: finds the new names of a rotated file, and the file that a new name comes from."""

from __future__ import annotations

import os
import re
from collections import defaultdict

from connectors.file.reading.file_stream import CODECS, CorruptError, FileStream, codec_of
from connectors.file.reading.tracked_files import SAMPLE, TrackedFile, digest

NameKey = tuple[str, str]

_ROTATION_SUFFIX = re.compile(r"[.-]\d[\d.T:_-]*$")
_DATE_BEFORE_EXTENSION = re.compile(r"[-._]\d[\d.T:_-]*(?=\.[A-Za-z]+$)")


def keys_before_rotation(path: str) -> set[NameKey]:
    """Return the keys of a file name that may be rotated."""
    name = _without_codec_suffix(path)
    return {("name", name), ("series", _ROTATION_SUFFIX.sub("", name))}


def keys_after_rotation(path: str) -> set[NameKey]:
    """Return the keys of a name that rotation may have given: x.log → x.log.1, x.log.2.gz, x.log-20260101, x-20260101.log;
    x.log.1 → x.log.2.
    """
    name = _without_codec_suffix(path)
    return {("name", name), ("name", _DATE_BEFORE_EXTENSION.sub("", name)), ("series", _ROTATION_SUFFIX.sub("", name))}


class FolderListing:
    """The content of a folder, read once; ``is_readable`` is False if it cannot be listed now."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.by_inode: dict[int, str] = {}
        self.by_key: dict[NameKey, list[str]] = defaultdict(list)
        try:
            with os.scandir(path or ".") as entries:
                found = sorted((entry.name, inode) for entry in entries if (inode := _inode(entry)) is not None)
            self.is_readable = True
        except OSError:
            found, self.is_readable = [], False
        for name, inode in found:
            self.by_inode.setdefault(inode, os.path.join(path, name))
            for key in keys_after_rotation(name):
                self.by_key[key].append(os.path.join(path, name))

    def successors(self, path: str) -> list[str]:
        """Return the paths that ``path`` may have after rotation, compressed ones last."""
        found = {one for key in keys_before_rotation(path) for one in self.by_key.get(key, ())} - {path}
        return sorted(found, key=lambda one: (os.path.splitext(one)[1] in CODECS, one))


def _inode(entry: os.DirEntry[str]) -> int | None:
    """Return the inode of the file, for links that of their target; None for a broken link."""
    try:
        return entry.stat().st_ino if entry.is_symlink() else entry.inode()
    except OSError:
        return None


def _without_codec_suffix(path: str) -> str:
    stem, extension = os.path.splitext(os.path.basename(path))
    return stem if extension in CODECS else stem + extension


class RotatedNames:
    """Tracked files by the names that rotation may give them."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[str, NameKey], list[TrackedFile]] = defaultdict(list)

    def add(self, file: TrackedFile) -> None:
        """Add a file; compressed files, and those of which nothing was read, cannot be an origin."""
        if file.codec is None and file.offset > 0:
            for key in keys_before_rotation(file.path):
                self._by_key[os.path.dirname(file.path), key].append(file)

    def find_origin(self, path: str) -> TrackedFile | None:
        """Return the first file whose name may have become ``path``, and whose beginning the file at ``path`` has.

        It reads only a file's beginning, so it also works while rotation is still copying the file.
        """
        found = [one for key in keys_after_rotation(path) for one in self._by_key.get((os.path.dirname(path), key), ())]
        if not found:
            return None
        try:
            with FileStream(path, codec_of(path)) as stream:
                head = stream.read(SAMPLE)
        except (OSError, CorruptError):
            return None
        heads = {size: digest(head[:size]) for size in {min(one.offset, SAMPLE) for one in found}}
        return next((one for one in found if one.path != path and one.sample.startswith(heads[min(one.offset, SAMPLE)])), None)
