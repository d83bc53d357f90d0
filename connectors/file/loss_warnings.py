"""Warnings about text of a file that was truncated or removed before it was read, with advice."""

from __future__ import annotations

from connectors.file.file_stat import FileStat, warn_once
from connectors.file.tracked_files import TrackedFile

_MAX_CACHE_ENTRIES = 100_000

_last_sizes: dict[str, int] = {}
"""Size of each tracked file at the last scan."""

_ADVICE = (
    "let rotation rename the file (logrotate: `create` instead of `copytruncate`), or keep the copy, compressed or not, "
    "in the same folder"
)


def record_size(file: TrackedFile, stat: FileStat) -> None:
    """Record the size of a file, for `warn_of_loss`."""
    if file.codec is None:
        if len(_last_sizes) >= _MAX_CACHE_ENTRIES:
            _last_sizes.clear()
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
