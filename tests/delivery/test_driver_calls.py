"""Calls of components in the driver: their place, and their interruption."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest
from running import wait_for

from etl.delivery.driver_calls import DriverCalls, HungCallError


class Caller:
    """A thread with a running call."""

    def __init__(self, calls: DriverCalls, work: Callable[[], object]) -> None:
        self.error: BaseException | None = None
        self._calls, self._work = calls, work
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        wait_for(lambda: calls.longer_than(0) != [])

    def _run(self) -> None:
        try:
            self._calls.run("the commit of sink 'main'", self._work)
        except BaseException as error:
            self.error = error


def loop_without_end() -> None:
    while True:
        time.sleep(0.01)


def test_a_call_that_loops_has_a_place_and_is_interrupted() -> None:
    calls = DriverCalls()
    caller = Caller(calls, loop_without_end)

    (call,) = calls.longer_than(0)
    assert call.what == "the commit of sink 'main'"
    assert call.location().startswith("test_driver_calls.py:")
    assert call.location().endswith("in loop_without_end")
    calls.interrupt(call)
    caller.thread.join(120)

    assert isinstance(caller.error, HungCallError)
    assert "the commit of sink 'main' hung for 0 s and was interrupted" in str(caller.error)
    assert calls.longer_than(0) == []
    assert call.location() == ""


def test_a_call_that_blocks_goes_on_until_it_returns() -> None:
    calls, returns = DriverCalls(), threading.Event()
    caller = Caller(calls, returns.wait)

    (call,) = calls.longer_than(0)
    assert ", which calls threading.py:" in call.location()
    calls.interrupt(call)
    caller.thread.join(0.2)
    assert (caller.thread.is_alive(), call.is_interrupted_for(0.0), call.is_interrupted_for(60)) == (True, True, False)
    returns.set()
    caller.thread.join(120)

    assert isinstance(caller.error, HungCallError)


def test_what_a_call_waits_for_is_aborted_with_it() -> None:
    calls, ended = DriverCalls(), threading.Event()

    def interrupt() -> None:
        wait_for(lambda: calls.longer_than(0) != [])
        calls.interrupt(calls.longer_than(0)[0])

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(HungCallError):
        calls.run("a", ended.wait, abort=ended.set)
    thread.join()


def test_a_call_that_has_returned_is_not_interrupted() -> None:
    calls = DriverCalls()
    found = calls.run("a", lambda: (*calls.longer_than(0), *calls.longer_than(60)))
    assert [call.what for call in found] == ["a"]

    calls.interrupt(found[0])

    for _ in range(1000):
        assert found[0].interrupted is None


def test_an_interruption_at_the_end_of_a_call_never_leaves_it_as_another_error() -> None:
    calls, ends, interrupted = DriverCalls(), threading.Event(), 0

    def interrupt_all() -> None:
        while not ends.is_set():
            for call in calls.longer_than(-1):
                calls.interrupt(call)

    thread = threading.Thread(target=interrupt_all)
    thread.start()
    before, until = sys.getswitchinterval(), time.monotonic() + 60
    sys.setswitchinterval(1e-6)
    try:
        while interrupted < 50 and time.monotonic() < until:
            try:
                calls.run("a", lambda: sum(range(100)))
            except HungCallError:
                interrupted += 1
            sum(map(abs, range(10)))  # an interruption that is late would come here
            assert calls.longer_than(-1) == []
    finally:
        sys.setswitchinterval(before)
        ends.set()
        thread.join()
    assert interrupted == 50


def test_an_error_of_a_call_passes() -> None:
    calls = DriverCalls()

    def fail() -> None:
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        calls.run("a", fail)

    assert calls.longer_than(0) == []


TRACED_AFTERWARDS = """
import sys, threading, time
from etl.delivery.driver_calls import DriverCalls, HungCallError
from etl.udf.call_guard import CallGuard, CallTimeoutError

def interrupted_call():
    calls = DriverCalls()
    def interrupt():
        while not calls.longer_than(0):
            time.sleep(0.001)
        calls.interrupt(calls.longer_than(0)[0])
    threading.Thread(target=interrupt).start()
    try:
        calls.run("a", lambda: {call})
    except HungCallError:
        return
    raise AssertionError("no interruption")

def guarded_call():
    try:
        with CallGuard(0.05):
            {call}
    except CallTimeoutError:
        return
    raise AssertionError("no interruption")

thread = threading.Thread(target={function})
thread.start()
thread.join()
sys.settrace(lambda frame, event, argument: None)
(lambda: None)()
print("traced")
"""


@pytest.mark.parametrize("function", ["interrupted_call", "guarded_call"])
@pytest.mark.parametrize("call", ["time.sleep(0.5)", "[time.sleep(0.01) for _ in range(1000)]"], ids=["waits", "loops"])
def test_functions_are_traced_after_an_interruption(function: str, call: str) -> None:
    """CPython 3.11 begins no traced function while an exception of another thread seems to wait."""
    code = TRACED_AFTERWARDS.replace("{function}", function).replace("{call}", call)
    assert subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True, text=True).stdout == "traced\n"
