"""The files of a journal: each is named after the position of its first byte, and deleted as a whole."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from pathlib import Path

SUFFIX = ".segment"


class Segments:
    """The segments of a folder when the object was created."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.starts = sorted(int(path.stem) for path in self.folder.glob(f"*{SUFFIX}"))

    @property
    def first(self) -> int:
        """Position of the first byte that still exists."""
        return self.starts[0] if self.starts else 0

    @property
    def end(self) -> int:
        """Position after the last byte."""
        return self.starts[-1] + self.size(self.starts[-1]) if self.starts else 0

    @property
    def bytes_on_disk(self) -> int:
        """Bytes on disk."""
        return sum(self.size(start) for start in self.starts)

    def path(self, start: int) -> Path:
        """Return the path of the segment that begins at ``start``."""
        return self.folder / f"{start:020d}{SUFFIX}"

    def size(self, start: int) -> int:
        """Return the bytes of a segment; 0 if it has been deleted meanwhile."""
        with suppress(FileNotFoundError):
            return self.path(start).stat().st_size
        return 0

    def starts_from(self, position: int) -> list[int]:
        """Return the starts of the segments from the one that contains a position on."""
        return self.starts[max(bisect_right(self.starts, position) - 1, 0) :]

    def delete_before(self, before: int) -> None:
        """Delete segments that end at or before a position. The last one stays, because its name and size give the next
        position.
        """
        for start in self.starts[:-1]:
            if start + self.size(start) <= before:
                self.path(start).unlink(missing_ok=True)
