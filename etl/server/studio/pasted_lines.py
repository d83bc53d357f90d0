"""Pasted lines: a text from the page as a file that sources read, and the numbers of its lines."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory

MAX_TEXT_BYTES = 2 << 20
"""Maximum bytes of a pasted text; the rest is left out."""

MAX_LINES = 5_000
"""Maximum number of lines of it."""


@dataclass(frozen=True)
class PastedLines:
    """The lines as a file; ``offsets`` are those of their first bytes."""

    path: Path
    offsets: tuple[int, ...]

    def number(self, offset: int) -> int:
        """The number of the line, from one, in which the event at this offset begins."""
        return bisect_right(self.offsets, offset)


@contextmanager
def pasted_lines(text: str) -> Iterator[PastedLines]:
    """The lines of a text in a file of their own, as long as the context lasts."""
    data = text.encode("utf-8", "replace")[:MAX_TEXT_BYTES].replace(b"\r\n", b"\n")
    lines = data.split(b"\n")[:MAX_LINES]
    while lines and not lines[-1].strip():
        lines.pop()
    with TemporaryDirectory(prefix="etl-studio-") as folder:
        path = Path(folder, "lines.log")
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        yield PastedLines(path, tuple(accumulate((len(line) + 1 for line in lines[:-1]), initial=0)))
