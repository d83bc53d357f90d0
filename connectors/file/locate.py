"""Opening a known file for reading, wherever it is by now."""

from __future__ import annotations

import os

from connectors.file.identity import Known, compare, related, sample
from connectors.file.places import listing
from connectors.file.streams import Stream, codec_of
from etl.api import ComponentError


class LostError(Exception):
    """A file that was to be read is nowhere; the message says which."""


def located(file: Known) -> Stream:
    """The file's text from its beginning: under its name, another name of its inode, or in its copy."""
    for path in (file.path, *_other_names(file)):
        if _holds(path, file):
            return Stream(path, file.codec)
    for path in _copies(file):
        codec = codec_of(path)
        if compare(path, codec, file) != "other":
            return Stream(path, codec)
    raise LostError(f"{file.path} ({file.name}) is gone or was overwritten, and no copy of it is beside it")


def _holds(path: str, file: Known) -> bool:
    try:
        with Stream(path) as stream:
            return stream.inode == file.inode and sample(stream, file.raw) == file.sample
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ComponentError(f"{path} cannot be opened: {error.strerror}; give the right to read it, or exclude it") from error


def _other_names(file: Known) -> list[str]:
    return [here.path for here in listing(os.path.dirname(file.path)) or () if here.inode == file.inode]


def _copies(file: Known) -> list[str]:
    found = [here.path for here in listing(os.path.dirname(file.path)) or () if related(file.path, here.path)]
    return sorted(found, key=lambda path: codec_of(path) is not None)
