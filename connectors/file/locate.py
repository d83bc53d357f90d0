"""Opening a known file for reading, wherever it is by now."""

from __future__ import annotations

import os
from collections.abc import Iterator

from connectors.file.copies import Candidates
from connectors.file.folders import Folder
from connectors.file.identity import Known, compare, sample
from connectors.file.places import place
from connectors.file.streams import NotRegularError, Stream, codec_of
from etl.api import ComponentError


class LostError(Exception):
    """A file that was to be read is nowhere; the message says which."""


def located(file: Known) -> Stream:
    """The file's text from its beginning: under its name, another name of its inode, or in its copy."""
    if _holds(file.path, file):
        return Stream(file.path, file.codec)
    folder = Folder(os.path.dirname(file.path))
    other = folder.by_inode.get(file.ino)
    if other and _holds(other, file):
        return Stream(other, file.codec)
    for path in (*folder.successors(file.path), *_alike(file, folder)):
        codec = codec_of(path)
        if compare(path, codec, file) != "other":
            return Stream(path, codec)
    raise LostError(f"{file.path} ({file.name}) is gone or was overwritten, and no copy of it is beside it")


def _alike(file: Known, folder: Folder) -> Iterator[str]:
    """Files of the folder that begin as the known one did."""
    found = (place(path) for path in folder.by_inode.values())
    yield from (here.path for here in Candidates(here for here in found if here is not None).of(file))


def _holds(path: str, file: Known) -> bool:
    try:
        with Stream(path) as stream:
            return stream.inode == file.inode and sample(stream, file.raw) == file.sample
    except (FileNotFoundError, NotADirectoryError, NotRegularError):
        return False
    except OSError as error:
        raise ComponentError(f"{path} cannot be opened: {error.strerror}; give the right to read it, or exclude it") from error
