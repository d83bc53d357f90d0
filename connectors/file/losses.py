"""Saying what was lost of a file that was cut or removed before it was read, and how to avoid it."""

from __future__ import annotations

from connectors.file.identity import Known
from connectors.file.places import Place, warn_once

_FACTS = 100_000

_sizes: dict[str, int] = {}
"""The size that a known file had at the last look."""

_AVOID = (
    "let rotation rename the file (logrotate: `create` in place of `copytruncate`), or keep the copy, unpacked or packed, "
    "in the same folder"
)


def note_size(file: Known, here: Place) -> None:
    """Remember how long a file is, for `warn_of_loss`."""
    if file.codec is None:
        if len(_sizes) >= _FACTS:
            _sizes.clear()
        _sizes[file.name] = here.size


def warn_of_loss(file: Known, here: Place | None) -> None:
    """Say how much was not read of a file whose text is nowhere; ``here`` is where its inode is now, with another text."""
    if file.codec is not None or file.gone or file.copied:
        return
    size = max(_sizes.pop(file.name, 0), file.offset, file.ahead)
    unread = size - file.offset
    if unread:
        what = f"{unread:,} of its {size:,} bytes were not read, and no copy of it is beside it: they are lost"
    elif here is not None and file.ino:
        what = f"its {file.offset:,} bytes were read; what was written since the last look, if anything, is lost"
    else:
        return
    how = (
        "it is gone"
        if here is None
        else f"it was cut, and has {here.size:,} bytes now"
        if here.size < size
        else "its text changed"
    )
    warn_once(file.path, f"{how}; {what}; {_AVOID}")
