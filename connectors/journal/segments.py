"""The files of a journal: each is named after the position of its first byte, and deleted as a whole."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from pathlib import Path

SUFFIX = ".segment"


class Segments:
    """The segments of a folder, as they were when this was made."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.starts = sorted(int(path.stem) for path in self.folder.glob(f"*{SUFFIX}"))

    @property
    def first(self) -> int:
        """The position of the first byte kept."""
        return self.starts[0] if self.starts else 0

    @property
    def total(self) -> int:
        """The position behind the last byte written."""
        return self.starts[-1] + self.size(self.starts[-1]) if self.starts else 0

    @property
    def kept(self) -> int:
        """Bytes on disk."""
        return sum(self.size(start) for start in self.starts)

    def path(self, start: int) -> Path:
        """Of the segment that begins there."""
        return self.folder / f"{start:020d}{SUFFIX}"

    def size(self, start: int) -> int:
        """Bytes of a segment; 0 when it has been deleted meanwhile."""
        with suppress(FileNotFoundError):
            return self.path(start).stat().st_size
        return 0

    def since(self, position: int) -> list[int]:
        """The starts of the segments from the one that holds a position on."""
        return self.starts[max(bisect_right(self.starts, position) - 1, 0) :]

    def forget(self, before: int) -> None:
        """Delete segments that end at or before a position; the last one stays, for it holds the count."""
        for start in self.starts[:-1]:
            if start + self.size(start) <= before:
                self.path(start).unlink(missing_ok=True)
