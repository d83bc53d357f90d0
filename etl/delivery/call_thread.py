"""Calls into a source that a stopping run can abandon, such as a search through a huge folder or a file system that hangs."""

from __future__ import annotations

import math
import queue
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from etl.api import EtlError
from etl.delivery.backoff import POLL_SECONDS, RunStopping
from etl.delivery.driver_calls import DriverCall, DriverCalls, HungCallError

GRACE_SECONDS = 2.0
"""Seconds that a call may still take after the run was asked to stop."""

LONG_SECONDS = 5.0
"""Seconds after which a call is reported as one that goes on."""

T = TypeVar("T")

_Call = Callable[[], Any]
_Calls = queue.SimpleQueue[_Call | None]
_Answers = queue.SimpleQueue[tuple[Any, BaseException | None]]


class CallThread:
    """Runs calls one after the other in one daemon thread; when the run stops before a call returns, or it takes too long, the
    thread is abandoned.

    The thread ends with the object: a process may make many runs.
    """

    def __init__(
        self,
        is_stopping: Callable[[], bool],
        grace_seconds: float = GRACE_SECONDS,
        max_seconds: float = math.inf,
        on_long_call: Callable[[DriverCall | None], None] = lambda _: None,
    ) -> None:
        """``max_seconds``: how long a call may take. ``on_long_call`` gets a call that goes on, again and again, and None when it
        has ended; it is called in the thread that waits for the call."""
        self._is_stopping, self._grace, self._max, self._on_long_call = is_stopping, grace_seconds, max_seconds, on_long_call
        self._calls: _Calls = queue.SimpleQueue()
        self._answers: _Answers = queue.SimpleQueue()
        self._at_work = DriverCalls()
        self._abandoned: EtlError | None = None
        """Why a call was abandoned: with it the thread."""
        self._thread: threading.Thread | None = None

    @property
    def hangs(self) -> bool:
        """Whether a call was abandoned and still goes on."""
        return self._abandoned is not None and self._at_work.longer_than(0) != []

    def late_result(self) -> Any:
        """Return or raise what an abandoned call did that does not go on any more."""
        answer, error = self._answers.get()
        if error is not None:
            raise error
        return answer

    def run(self, call: Callable[[], T], what: str = "a call") -> T:
        """Return or raise what the call does. Raises RunStopping when the run stops and the call takes longer than the grace, and
        HungCallError when it takes too long."""
        if self._abandoned is not None:
            raise self._abandoned.with_traceback(None)  # else each raise would add its frames
        if self._thread is None:
            self._thread = threading.Thread(target=_work, args=(self._calls, self._answers), name="calls", daemon=True)
            self._thread.start()
            weakref.finalize(self, self._calls.put, None)
        self._calls.put(partial(self._at_work.run, what, call))
        answer, error = self._answer(what)
        if error is not None:
            raise error
        result: T = answer
        return result

    def _answer(self, what: str) -> tuple[Any, BaseException | None]:
        left, is_long = self._grace, False
        try:
            while left > 0 and self._abandoned is None:
                try:
                    return self._answers.get(timeout=POLL_SECONDS)
                except queue.Empty:
                    left = left - POLL_SECONDS if self._is_stopping() else self._grace
                for call in self._at_work.longer_than(LONG_SECONDS):
                    is_long = True
                    self._on_long_call(call)
                    if call.seconds > self._max:
                        text = f"{what} hung for {call.seconds:.0f} s and was given up; it is at {call.location()}"
                        self._abandoned = HungCallError(text)
        finally:
            if is_long:
                self._on_long_call(None)
        self._abandoned = self._abandoned or RunStopping("the run stops before the call returned; the next run makes it again")
        raise self._abandoned


def _work(calls: _Calls, answers: _Answers) -> None:
    """Run calls until there is None."""
    while call := calls.get():
        try:
            answers.put((call(), None))
        except BaseException as error:
            answers.put((None, error))
        del call  # what it refers to may be the object whose end ends this thread
