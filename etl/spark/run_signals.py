"""What other threads ask of a run while it works: to stop, to cancel its micro-batches, to pause, to go on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class RunSignals:
    """Requests to a run. Methods may be called from any thread and from signal handlers."""

    def __init__(self, stop_file: Path) -> None:
        """``stop_file``: the file in the state folder by which the planners of sources learn that the queries are to end."""
        self.interrupted = False
        """Whether the queries end, or have ended, because of a pause."""
        self.queries_end = threading.Event()
        """Set when the queries are to end, also because one of them has failed."""
        self._stop_file = stop_file
        self._stopped = threading.Event()
        self._cancelled = threading.Event()
        self._resumed = threading.Event()
        self._resumed.set()
        self._owns_folder = threading.Event()
        """Set while the run holds the lock of the state folder, and so may create the stop file."""

    @property
    def is_stopped(self) -> bool:
        """Whether the caller has stopped the run."""
        return self._stopped.is_set()

    @property
    def is_cancelled(self) -> bool:
        """Whether the queries are to end within their micro-batch."""
        return self._cancelled.is_set()

    def wait_for_stop(self, seconds: float) -> bool:
        """Wait until the run is stopped, at most this long; returns whether it was."""
        return self._stopped.wait(seconds)

    def stop(self) -> None:
        """End the queries after their micro-batches, for good."""
        self._stopped.set()
        self._resumed.set()
        self.end_queries()

    def cancel(self) -> None:
        """End the queries within their micro-batches, for good."""
        self._cancelled.set()
        self.stop()

    def pause(self) -> None:
        """End the queries after their micro-batches, until `resume`."""
        self.interrupted = True
        self._resumed.clear()
        self.end_queries()

    def resume(self) -> None:
        """End the pause."""
        self._resumed.set()

    def end_queries(self) -> None:
        """Let the queries end after their micro-batches."""
        self.queries_end.set()
        if self._owns_folder.is_set():
            self._stop_file.touch()

    def wait_while_paused(self) -> None:
        """Wait until the run is resumed or stopped."""
        self.interrupted = False
        self._resumed.wait()
        self.reset()
        if self._owns_folder.is_set():
            self._stop_file.unlink(missing_ok=True)
            if self.queries_end.is_set():
                self._stop_file.touch()

    def reset(self) -> None:
        """Let queries run again, unless the run is stopped or paused."""
        self.queries_end.clear()
        if self._stopped.is_set() or not self._resumed.is_set():
            self.queries_end.set()

    @contextmanager
    def owning_folder(self) -> Iterator[None]:
        """While the body runs, the run holds the lock of the state folder."""
        self._stop_file.unlink(missing_ok=True)
        self._owns_folder.set()
        if self.queries_end.is_set():
            self._stop_file.touch()
        try:
            yield
        finally:
            self._owns_folder.clear()
            self._stop_file.unlink(missing_ok=True)
