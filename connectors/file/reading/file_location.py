"""Opens a tracked file for reading, wherever it is now."""

from __future__ import annotations

import os
from collections.abc import Iterator

from connectors.file.objects.object_path import is_object, without_options
from connectors.file.reading.copy_detection import FilesByContent
from connectors.file.reading.file_stat import stat_file
from connectors.file.reading.file_stream import FileStream, NotRegularError, codec_of
from connectors.file.reading.rotation import FolderListing
from connectors.file.reading.tracked_files import TrackedFile, compare, sample
from etl.api import ComponentError


class FileLostError(Exception):
    """A tracked file cannot be found; the message names it."""


def open_tracked(file: TrackedFile) -> FileStream:
    """Open the file's text from its beginning: under its name, another name of its inode, or a copy."""
    if is_object(file.path):
        return _open_object(file)
    if _has_text(file.path, file):
        return FileStream(file.path, file.codec)
    folder = FolderListing(os.path.dirname(file.path))
    other = folder.by_inode.get(file.ino)
    if other and _has_text(other, file):
        return FileStream(other, file.codec)
    for path in (*folder.successors(file.path), *_files_with_same_head(file, folder)):
        codec = codec_of(path)
        if compare(path, codec, file) != "other":
            return FileStream(path, codec)
    raise FileLostError(f"{file.path} ({file.name}) was removed or overwritten, and there is no copy of it in its folder")


def _open_object(file: TrackedFile) -> FileStream:
    from connectors.file.objects.object_stream import ObjectStream

    try:
        return ObjectStream(file.path, file.codec)
    except FileNotFoundError:
        raise FileLostError(f"{without_options(file.path)} was removed") from None


def _files_with_same_head(file: TrackedFile, folder: FolderListing) -> Iterator[str]:
    """Yield files of the folder that have the tracked file's beginning."""
    found = (stat_file(path) for path in folder.by_inode.values())
    yield from (stat.path for stat in FilesByContent(stat for stat in found if stat is not None).find(file))


def _has_text(path: str, file: TrackedFile) -> bool:
    try:
        with FileStream(path) as stream:
            return stream.inode[1] == file.ino and sample(stream, file.raw) == file.sample
    except (FileNotFoundError, NotADirectoryError, NotRegularError):
        return False
    except OSError as error:
        raise ComponentError(f"{path} cannot be opened: {error.strerror}; grant the right to read it, or exclude it") from error
