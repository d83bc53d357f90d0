"""Calls into a source that a stopping run can abandon, such as a search through a huge folder or a file system that hangs."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from etl.delivery.backoff import POLL_SECONDS, RunStopping

GRACE_SECONDS = 2.0
"""Seconds that a call may still take after the run was asked to stop."""

T = TypeVar("T")

_Call = Callable[[], Any]
_Calls = queue.SimpleQueue[_Call | None]
_Answers = queue.SimpleQueue[tuple[Any, BaseException | None]]


class CallThread:
    """Runs calls one after the other in one daemon thread; when the run stops before a call returns, the thread is abandoned.

    The thread ends with the object: a process may make many runs.
    """

    def __init__(self, is_stopping: Callable[[], bool], grace_seconds: float = GRACE_SECONDS) -> None:
        self._is_stopping, self._grace = is_stopping, grace_seconds
        self._calls: _Calls = queue.SimpleQueue()
        self._answers: _Answers = queue.SimpleQueue()
        self._abandoned = False
        self._thread: threading.Thread | None = None

    def run(self, call: Callable[[], T]) -> T:
        """Return or raise what the call does. Raises RunStopping when the run stops and the call takes longer than the grace."""
        if self._abandoned:
            raise RunStopping("the run stops, and an earlier call has not returned")
        if self._thread is None:
            self._thread = threading.Thread(target=_work, args=(self._calls, self._answers), name="calls", daemon=True)
            self._thread.start()
            weakref.finalize(self, self._calls.put, None)
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


def _work(calls: _Calls, answers: _Answers) -> None:
    """Run calls until there is None."""
    while call := calls.get():
        try:
            answers.put((call(), None))
        except BaseException as error:
            answers.put((None, error))
        del call  # what it refers to may be the object whose end ends this thread
