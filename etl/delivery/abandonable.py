"""Calls that end when the run ends, whatever they wait for: a search through a huge folder, a file system that hangs."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from etl.delivery.waiting import LOOK_SECONDS, RunEnds

GRACE_SECONDS = 2.0
"""How long a call may still take when the run is to end: what is nearly done is done."""

T = TypeVar("T")

_Call = Callable[[], Any]


class CallThread:
    """Runs calls one after the other in one thread, which is left behind when the run ends before a call does."""

    def __init__(self, ending: Callable[[], bool], grace: float = GRACE_SECONDS) -> None:
        self._ending, self._grace = ending, grace
        self._calls: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        self._abandoned = False
        self._thread: threading.Thread | None = None

    def run(self, call: Callable[[], T]) -> T:
        """What the call returns or raises. Raises RunEnds when the run ends and the call does not within the grace."""
        if self._abandoned:
            raise RunEnds("the run ends, and a call before this one has not returned")
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
                return self._answers.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                left = left - LOOK_SECONDS if self._ending() else self._grace
        self._abandoned = True
        raise RunEnds("the run ends, and what was asked for has not come; the next run asks again")

    def _work(self) -> None:
        while True:
            call = self._calls.get()
            try:
                self._answers.put((call(), None))
            except BaseException as error:
                self._answers.put((None, error))
