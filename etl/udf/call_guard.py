"""A time limit for calls of code that may hang.

In the main thread, where Spark's workers run tasks, a timer of the operating system raises `CallTimeoutError` inside the call: it
interrupts Python code, sleeping and waiting for input or output. In another thread a watchdog thread raises it, which only
interrupts Python code. What reacts to neither, such as a loop of native code or code that catches the error, ends the process
`GRACE` later, with the stacks of all threads on standard error; the task fails, and no event is lost.
"""

from __future__ import annotations

import ctypes
import faulthandler
import signal
import threading
from types import TracebackType
from typing import Any, Self

GRACE = 10.0
"""Seconds that a call has to react."""

_STANDARD_ERROR = 2


class CallTimeoutError(BaseException):
    """A call took longer than its time limit. It is no `Exception`, which the user's code may catch."""


class CallGuard:
    """Bounds the time of a call, or of each of several calls in a row that `next_call` separates."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._calls = self._seen = 0
        self._in_main = threading.current_thread() is threading.main_thread()
        self._thread = threading.get_ident()
        self._over = threading.Event()
        self._previous: Any = None

    def __enter__(self) -> Self:
        self._seen = self._calls
        self._over.clear()
        self._arm_exit()
        if self._in_main:
            self._previous = signal.signal(signal.SIGALRM, self._ticked)
            signal.setitimer(signal.ITIMER_REAL, self._seconds, self._seconds)
        else:
            threading.Thread(target=self._watch, name="call guard", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        if self._in_main:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._previous)
        faulthandler.cancel_dump_traceback_later()

    def next_call(self) -> None:
        """The call before is over, and the next one begins: each has the whole time."""
        self._calls += 1

    def _arm_exit(self) -> None:
        faulthandler.dump_traceback_later(2 * self._seconds + GRACE, exit=True, file=_STANDARD_ERROR)

    def _ticked(self, number: int, frame: object) -> None:
        if self._over.is_set():
            return
        if self._is_same_call():
            raise CallTimeoutError(f"it took longer than {self._seconds:g} s")
        self._arm_exit()

    def _watch(self) -> None:
        while not self._over.wait(self._seconds):
            if self._is_same_call():
                raised = ctypes.py_object(_NAMED_TIMEOUTS.setdefault(self._seconds, _timeout_class(self._seconds)))
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), raised)
            else:
                self._arm_exit()

    def _is_same_call(self) -> bool:
        """Whether the call that runs now ran at the last tick already, or since the beginning."""
        same, self._seen = self._seen == self._calls, self._calls
        return same


def _timeout_class(seconds: float) -> type[CallTimeoutError]:
    """A class whose instances say the limit: another thread can raise a class only, without arguments."""

    class CallOfThreadTimeoutError(CallTimeoutError):
        def __init__(self) -> None:
            super().__init__(f"it took longer than {seconds:g} s")

    return CallOfThreadTimeoutError


_NAMED_TIMEOUTS: dict[float, type[CallTimeoutError]] = {}
