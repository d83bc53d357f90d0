"""Calls into a source that a stopping run can abandon, such as a search through a huge folder or a file system that hangs."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from etl.delivery.backoff import POLL_SECONDS, RunStopping

GRACE_SECONDS = 2.0
"""Seconds that a call may still take after the run was asked to stop."""

T = TypeVar("T")

_Call = Callable[[], Any]


class CallThread:
    """Runs calls one after the other in one daemon thread; when the run stops before a call returns, the thread is abandoned."""

    def __init__(self, is_stopping: Callable[[], bool], grace_seconds: float = GRACE_SECONDS) -> None:
        self._is_stopping, self._grace = is_stopping, grace_seconds
        self._calls: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        self._abandoned = False
        self._thread: threading.Thread | None = None

    def run(self, call: Callable[[], T]) -> T:
        """Return or raise what the call does. Raises RunStopping when the run stops and the call takes longer than the grace."""
        if self._abandoned:
            raise RunStopping("the run stops, and an earlier call has not returned")
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="calls", daemon=True)
            self._thread.start()
        self._calls.put(call)
        answer, error = self._answer()
        if error is not None:
            raise error
        result: T = answer
        return result

    def _answer(self) -> tuple[Any, BaseException | None]:
        left = self._grace
        while left > 0:
            try:
                return self._answers.get(timeout=POLL_SECONDS)
            except queue.Empty:
                left = left - POLL_SECONDS if self._is_stopping() else self._grace
        self._abandoned = True
        raise RunStopping("the run stops before the call returned; the next run makes it again")

    def _work(self) -> None:
        while True:
            call = self._calls.get()
            try:
                self._answers.put((call(), None))
            except BaseException as error:
                self._answers.put((None, error))
