"""Calls of components that may hang, such as a sink's commit: which are running, since when, and where their code is.

A call that blocks for ever holds up its pipeline only: each pipeline has threads of its own. But nobody would see why.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from sysconfig import get_path
from types import FrameType
from typing import TypeVar

from etl.api import EtlError
from etl.thread_interrupts import raise_in_thread, withdraw_exception

T = TypeVar("T")

_STANDARD_LIBRARY = get_path("stdlib")
_PACKAGES = get_path("purelib")


class HungCallError(EtlError):
    """A call was interrupted because it took too long."""


class _Interrupt(BaseException):
    """Raised in the thread of a call that is interrupted; no code that handles errors takes it for one of its own."""


@dataclass(eq=False)
class DriverCall:
    """A running call."""

    what: str
    """Such as ``the commit of sink 'main'``."""
    thread: int
    began: float
    """On the monotonic clock."""
    abort: Callable[[], None] | None = None
    """Ends what the call waits for, such as a process; called when it is interrupted."""
    may_be_long: bool = False
    """Whether a healthy one may take minutes, such as the reading of a large table."""
    interrupted: float | None = None
    """When it was interrupted, on the same clock."""

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        return time.monotonic() - self.began

    def is_interrupted_for(self, seconds: float) -> bool:
        """Whether it goes on so long after it was interrupted."""
        return self.interrupted is not None and time.monotonic() - self.interrupted > seconds

    def location(self) -> str:
        """Where its code is: ``sink.py:71 in commit, which calls socket.py:705 in readinto``. Empty if its thread has ended."""
        frame = sys._current_frames().get(self.thread)
        if frame is None:
            return ""
        innermost, own = frame, frame
        while _is_library(own) and own.f_back is not None:
            own = own.f_back
        text = _text(own)
        return text if own is innermost else f"{text}, which calls {_text(innermost)}"


def _is_library(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return file.startswith((_STANDARD_LIBRARY, _PACKAGES, "<"))


def _text(frame: FrameType) -> str:
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} in {frame.f_code.co_name}"


@dataclass
class DriverCalls:
    """The calls of one pipeline that are running, from any thread."""

    _calls: list[DriverCall] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, what: str, call: Callable[[], T], abort: Callable[[], None] | None = None, may_be_long: bool = False) -> T:
        """Call a component. Raises HungCallError when it was interrupted.

        The interruption may come at any instruction until `_end` has removed the call, also within it: then the second one does
        what is left. No context manager, whose own code would be outside of the ``try``.
        """
        record = DriverCall(what, threading.get_ident(), time.monotonic(), abort, may_be_long)
        self._calls.append(record)
        try:
            try:
                return call()
            finally:
                self._end(record)
        except _Interrupt:
            self._end(record)
            raise HungCallError(f"{what} hung for {record.seconds:.0f} s and was interrupted") from None
        except Exception as error:
            if record.interrupted is None:
                raise
            raise HungCallError(f"{what} hung for {record.seconds:.0f} s and was interrupted: {error}") from error

    def _end(self, record: DriverCall) -> None:
        """Remove a call: from then on nothing interrupts it, and an interruption that has not come yet does not come."""
        with self._lock:
            if record.interrupted is not None:
                withdraw_exception()  # the call ended just before
            if record in self._calls:
                self._calls.remove(record)

    def longer_than(self, seconds: float) -> list[DriverCall]:
        """The calls that have been running for longer."""
        return [call for call in list(self._calls) if call.seconds > seconds]

    def interrupt(self, call: DriverCall) -> None:
        """Raise an exception in a call. It takes effect when the code of the call goes on: what blocks in the operating system or
        in a library without a time limit stays blocked."""
        with self._lock:
            if call not in self._calls or call.interrupted is not None:
                return
            call.interrupted = time.monotonic()
            raise_in_thread(call.thread, _Interrupt)
        if call.abort is not None:
            call.abort()
