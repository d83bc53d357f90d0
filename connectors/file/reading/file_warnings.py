"""Warnings about files, each logged once: files that cannot be read now, and text that is lost."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from connectors.file.reading.bounded_cache import BoundedCache
from connectors.file.reading.tracked_files import TrackedFile

if TYPE_CHECKING:
    from connectors.file.reading.file_stat import FileStat

log = logging.getLogger("sluice.source.file")

_warned: set[tuple[str, str]] = set()

_last_sizes: BoundedCache[str, int] = BoundedCache()
"""Size of each tracked file at the last scan."""

_ADVICE = (
    "let rotation rename the file (logrotate: `create` instead of `copytruncate`), or keep the copy, compressed or not, "
    "in the same folder"
)


def warn_once(path: str, message: str) -> None:
    """Log a warning once, until `clear_warnings`."""
    if (path, message) not in _warned:
        _warned.add((path, message))
        log.warning("%s: %s", path, message)


def clear_warnings(path: str) -> None:
    """Forget the warnings of a path without problems, so that the next problem is logged again."""
    for one in [one for one in _warned if one[0] == path]:
        _warned.discard(one)


def record_size(file: TrackedFile, stat: FileStat) -> None:
    """Record the size of a file, for `warn_of_loss`."""
    if file.codec is None:
        _last_sizes[file.name] = stat.size


def warn_of_loss(file: TrackedFile, stat: FileStat | None) -> None:
    """Warn how much of a lost file was not read; ``stat`` is the file that has its inode now, with another text."""
    if file.codec is not None or file.gone or file.copied:
        return
    size = max(_last_sizes.pop(file.name, 0), file.offset, file.ahead)
    unread = size - file.offset
    if unread:
        what = f"{unread:,} of its {size:,} bytes were not read, and there is no copy in its folder: they are lost"
    elif stat is not None and file.ino:
        what = f"its {file.offset:,} bytes were read; anything written since the last scan is lost"
    else:
        return
    how = (
        "it was removed"
        if stat is None
        else f"it was truncated to {stat.size:,} bytes"
        if stat.size < size
        else "its text changed"
    )
    warn_once(file.path, f"{how}; {what}; {_ADVICE}")
