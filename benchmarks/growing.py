"""A log that grows at a steady rate, and the eyes on what becomes of it. Each line carries the time it was written."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

from benchmarks import data

TICK_SECONDS = 0.01
"""The writer appends this often; the watcher looks half as long."""

STAMP = re.compile(rb" t=(\d+)\"")
"""The end of a message in the output: microseconds of `time.monotonic`."""


class Writer(threading.Thread):
    """Appends lines to a file, evenly, until told to stop."""

    def __init__(self, file: Path, rate: int) -> None:
        super().__init__(daemon=True)
        self._file, self._rate = file, rate
        self._seed = data.seed()
        self._stopped = threading.Event()
        self.written = 0

    def run(self) -> None:
        """As many lines as the clock asks for, at every tick: a late tick is made good by the next."""
        began = time.monotonic()
        with self._file.open("ab", buffering=0) as out:
            while not self._stopped.wait(TICK_SECONDS):
                due = int((time.monotonic() - began) * self._rate) - self.written
                stamp = time.monotonic_ns() // 1000
                out.write("".join(f"{self._line(n)} t={stamp}\n" for n in range(self.written, self.written + due)).encode())
                self.written += due

    def stop(self) -> None:
        """The end of writing; returns when the last line is in the file."""
        self._stopped.set()
        self.join()

    def _line(self, number: int) -> str:
        return self._seed[number % len(self._seed)]


class Watcher(threading.Thread):
    """Reads the output as it grows, as `tail -f` does, and notes how old each line is when it appears."""

    def __init__(self, file: Path) -> None:
        super().__init__(daemon=True)
        self._file = file
        self._stopped = threading.Event()
        self.ages: list[tuple[float, float]] = []
        """When a line was seen and its age then, both in seconds."""

    @property
    def lines(self) -> int:
        """Number of lines read so far."""
        return len(self.ages)

    def run(self) -> None:
        """Until told to stop."""
        while not self._file.exists():
            if self._stopped.wait(TICK_SECONDS):
                return
        rest = b""
        with self._file.open("rb", buffering=0) as lines:
            while not self._stopped.wait(TICK_SECONDS / 2):
                block = lines.read(1 << 24) or b""
                if block:
                    rest = self._note(rest + block)

    def stop(self) -> None:
        """The end of watching."""
        self._stopped.set()
        self.join()

    def _note(self, block: bytes) -> bytes:
        now = time.monotonic()
        end = block.rfind(b"\n") + 1
        self.ages.extend((now, now - int(stamp) / 1e6) for stamp in STAMP.findall(block, 0, end))
        return block[end:]
