"""A time limit for calls of code that may hang.

In the main thread, where Spark's workers run tasks, a timer of the operating system raises `CallTimeoutError` inside the call: it
interrupts Python code, sleeping and waiting for input or output. In another thread a thread of the guard raises it, which only
interrupts Python code. What does not react ends the process after twice the limit and `GRACE`, with the stacks of all threads on
standard error; the task fails, and no event is lost: a thread watches for calls that wait or catch the error, and a timer of CPU
time, `GRACE` later, for native code that computes and lets no thread of Python run.

It costs a few microseconds for each use.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from etl.thread_interrupts import raise_in_thread, withdraw_exception

GRACE = 10.0
"""Seconds that a call has to react, after twice its limit."""

_STANDARD_ERROR = 2

_set_handler: Callable[[int, Any], Any] = getattr(sys.modules.get("_signal"), "signal", signal.signal)
"""`signal.signal` without the conversion of its arguments and results to enums, which takes ten times as long as the call."""


_NO_TIMERS = ((0.0, 0.0), (0.0, 0.0))


class CallTimeoutError(BaseException):
    """A call took longer than its time limit. It is not an `Exception`, which the user's code may catch."""


class UnusualError(Exception):
    """The user's code raised what is not an `Exception`, and would end the process: ``__cause__``."""


_PASSED = (Exception, SystemExit, KeyboardInterrupt, CallTimeoutError)
"""What leaves a guard as it is; an interrupt is the user's own, at a terminal or in a notebook."""


class CallGuard:
    """Bounds the time of a call, or of each of several calls in a row that `next_call` separates.

    Inside another guard the timer of the outer one waits, and runs on afterwards.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.limit = 2 * seconds + GRACE
        """Seconds after which a call ends the process."""
        self.calls = self._calls_before = 0
        self._thread = threading.get_ident()
        self._in_main = self._thread == threading.main_thread().ident
        self._is_over = True
        self._over: threading.Event | None = None
        """Ends the thread of the guard, where it needs one."""
        self._raising = threading.Lock()
        self._has_raised = False
        """Whether the thread of the guard has raised an error in the thread of the call, which may not have come yet."""
        self._previous: Any = None
        self._outer_timers = _NO_TIMERS
        """Seconds to the next tick, and between ticks, of the timers that ran before: of real time and of CPU time."""

    def __enter__(self) -> Self:
        self.calls += 1
        self._calls_before = self.calls
        _watchdog.watch(self)
        if self._in_main:
            self._previous = _set_handler(signal.SIGALRM, self._on_tick)
            real = signal.setitimer(signal.ITIMER_REAL, self.seconds, self.seconds)
            self._outer_timers = real, signal.setitimer(signal.ITIMER_PROF, self.limit + GRACE)  # the watchdog is first if it can
        else:
            self._over, self._has_raised = threading.Event(), False
            threading.Thread(target=self._raise_when_over, args=(self._over,), name="call guard", daemon=True).start()
        self._is_over = False  # last: a tick that comes before, also a late one of the guard before, is ignored
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(self, _GuardInFork):
            os._exit(1)
        try:
            self._end_limit()
        except CallTimeoutError:  # it came after the call
            self._end_limit()
            if error is None:
                raise
        if error is not None and not isinstance(error, _PASSED):
            raise UnusualError from error

    def _end_limit(self) -> None:
        """End timers, thread and watchdog: from then on nothing is raised, and an error that has not come yet does not come."""
        if self._in_main:
            signal.setitimer(signal.ITIMER_REAL, 0)  # first, so that the call that is over is not interrupted
            signal.setitimer(signal.ITIMER_PROF, 0)
            _set_handler(signal.SIGALRM, self._previous)
            if self._outer_timers != _NO_TIMERS:
                self._restart_outer_timers()
        self._is_over = True
        if self._over is not None:
            with self._raising:
                self._over.set()
                if self._has_raised:
                    withdraw_exception()
        _watchdog.forget(self)

    def for_next_use(self) -> CallGuard:
        """This guard, or another one where it guards a call already, or calls of another thread."""
        return self if self._is_over and self._thread == threading.get_ident() else CallGuard(self.seconds)

    def _restart_outer_timers(self) -> None:
        for timer, times in zip((signal.ITIMER_REAL, signal.ITIMER_PROF), self._outer_timers, strict=True):
            if times[0]:
                signal.setitimer(timer, *times)

    def next_call(self) -> None:
        """The call before is over, and the next one begins: each has the whole time."""
        self.calls += 1

    def _on_tick(self, number: int, frame: object) -> None:
        if self._is_over:
            return
        if self._is_same_call():
            raise CallTimeoutError(f"it took longer than {self.seconds:g} s")
        signal.setitimer(signal.ITIMER_PROF, self.limit + GRACE)

    def _raise_when_over(self, over: threading.Event) -> None:
        while not over.wait(self.seconds):
            with self._raising:
                if not (over.is_set() or self._is_over) and self._is_same_call():
                    raise_in_thread(self._thread, _timeout_class(self.seconds))
                    self._has_raised = True

    def _is_same_call(self) -> bool:
        """Whether the call that runs now ran at the last tick already, or since the beginning."""
        same, self._calls_before = self._calls_before == self.calls, self.calls
        return same


class _GuardInFork(CallGuard):
    """The guard of a call in a process that this call has forked: it ends where the call returns, so that only the parent goes on
    with the events."""

    def next_call(self) -> None:
        os._exit(1)


class _Watchdog:
    """A thread of this process that ends it when a guarded call does not react."""

    def __init__(self) -> None:
        self._guards: dict[int, CallGuard] = {}
        self._is_running = self._is_registered = False

    def watch(self, guard: CallGuard) -> None:
        """Watch the guard's calls. The first use in a process, which may be forked from one that used it, starts the thread."""
        if not self._is_running:
            if not self._is_registered:
                os.register_at_fork(after_in_child=self._end_calls)
            self._is_registered = self._is_running = True
            if not faulthandler.is_enabled():
                faulthandler.enable(file=_STANDARD_ERROR)  # a crash of native code prints where it happened
            faulthandler.register(signal.SIGPROF, file=_STANDARD_ERROR, all_threads=True, chain=True)
            threading.Thread(target=self._run, name="call watchdog", daemon=True).start()
        self._guards[id(guard)] = guard

    def _end_calls(self) -> None:
        """In a process that a call has forked: end it where the call returns."""
        for guard in self._guards.values():
            guard.__class__ = _GuardInFork
        self._guards, self._is_running = {}, False

    def forget(self, guard: CallGuard) -> None:
        """The calls are over."""
        self._guards.pop(id(guard), None)

    def _run(self) -> None:
        since: dict[tuple[int, int], float] = {}
        while True:
            time.sleep(GRACE / 2)
            now, guards = time.monotonic(), list(self._guards.values())
            since = {(id(one), one.calls): since.get((id(one), one.calls), now) for one in guards}
            for guard in guards:
                if now - since.get((id(guard), guard.calls), now) > guard.limit:
                    _end_process(guard)


def _end_process(guard: CallGuard) -> None:
    """End this process: only so does a call end that does not react."""
    text = f"a call of a function has not ended {guard.limit:g} s after its beginning; its time limit is {guard.seconds:g} s\n"
    os.write(_STANDARD_ERROR, text.encode())
    faulthandler.dump_traceback(file=_STANDARD_ERROR, all_threads=True)
    sys.stderr.flush()
    os._exit(1)


_watchdog = _Watchdog()


def _timeout_class(seconds: float) -> type[CallTimeoutError]:
    """A class whose instances say the limit: another thread can raise a class only, without arguments."""

    class CallOfThreadTimeoutError(CallTimeoutError):
        def __init__(self) -> None:
            super().__init__(f"it took longer than {seconds:g} s")

    return CallOfThreadTimeoutError
