"""Memory held ready for the files of a run: a virtual machine's host takes back what lies free, and gives it again slowly.

On the machine where this was written new memory comes at 0.4 GB a second and memory used a moment ago at 3; what is free
for three seconds is taken back. So memory is filled once, held in files, and let go while a run writes, a little ahead of it.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import psutil  # type: ignore[import-untyped]

from benchmarks.folders import medium

STEP = 64 << 20
MAX_BYTES = 8 << 30
LEFT = 8 << 30
"""Bytes that stay free for processes and for what is read."""

AHEAD = 1 << 30
"""Bytes that are let go before they are written."""

LOOK_EVERY = 0.02
"""Seconds between two looks at what a run has written."""


class Ballast:
    """Files of `STEP` bytes in a folder, which give way to what a run writes; none where the folder is not in memory."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        held = sum(piece.stat().st_size for piece in folder.iterdir())  # of an earlier benchmark
        room = min(MAX_BYTES, psutil.virtual_memory().available + held - LEFT) if medium(folder).startswith("tmpfs") else 0
        self._pieces = [folder / str(number) for number in range(max(0, room) // STEP)]
        self._held = 0

    def fill(self) -> None:
        """Hold all of it."""
        content = bytes(STEP)
        for piece in self._pieces:
            if not piece.exists():
                piece.write_bytes(content)
        self._held = len(self._pieces)

    def give_way(self, output: Path) -> _Giving:
        """While the context lasts, let go what ``output`` needs."""
        return _Giving(self, output)

    def let_go(self, size: int) -> None:
        """At most ``len(pieces) - size / STEP`` files are left."""
        left = max(0, len(self._pieces) - -(-size // STEP))
        for piece in self._pieces[left : self._held]:
            piece.unlink(missing_ok=True)
        self._held = min(self._held, left)


class _Giving:
    def __init__(self, ballast: Ballast, output: Path) -> None:
        self._ballast, self._output = ballast, output
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(LOOK_EVERY):
            if written := _size(self._output):
                self._ballast.let_go(written + AHEAD)


def _size(folder: Path) -> int:
    """Bytes of the files in a folder in which somebody else writes and deletes."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.stat(os.path.join(where, name)).st_size
    return total if total > MUCH else 0


MUCH = 4 << 20
"""Bytes that say that a run has begun to write: settings and logs are less."""
