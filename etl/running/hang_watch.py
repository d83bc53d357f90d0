"""Reports calls of components that do not return, and interrupts them at last."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from etl.delivery.driver_calls import DriverCall
from etl.running.messages import Message, OnMessage
from etl.running.supervision import SupervisedRun
from etl.spark.long_calls import PlannerCall, read_long_calls

REPORT_SECONDS = 60.0
"""Seconds after which a call is reported. Each attempt of a sink that is down is a call of its own, and shorter."""

STUCK_SECONDS = 30.0
"""Seconds from the interruption of a call to the report that it goes on."""

LOOK_SECONDS = 5.0
"""Seconds between two looks."""


LongCall: TypeAlias = DriverCall | PlannerCall


@dataclass
class HangWatch:
    """Watches the calls of some pipelines."""

    runs: Sequence[SupervisedRun]
    on_message: OnMessage
    report_seconds: float
    stuck_seconds: float
    _reported: dict[LongCall, str] = field(default_factory=dict)
    """Running calls, and what was reported last."""
    _stuck: set[LongCall] = field(default_factory=set)

    def look(self) -> None:
        """Report calls that have become long, and interrupt those that have reached their limit."""
        at_work = {one.name: self._long_calls(one) for one in self.runs}
        for one in self.runs:
            for call in at_work[one.name]:
                self._look_at(one, call)
            one.hanging = next((self._reported[call] for call in at_work[one.name] if not _may_be_healthy(call)), "")
            one.slow = next((self._reported[call] for call in at_work[one.name] if _may_be_healthy(call)), "")
        going_on = {call for calls in at_work.values() for call in calls}
        self._reported = {call: text for call, text in self._reported.items() if call in going_on}
        self._stuck &= going_on

    def _long_calls(self, one: SupervisedRun) -> list[LongCall]:
        """The calls in this process, and in those that plan micro-batches, which give up a call at the limit by themselves."""
        planning = read_long_calls(one.run.state, (query.name for query in one.run.plan.queries))
        seconds = min(self.report_seconds, one.run.mode.max_commit_seconds)
        return [*one.run.calls.longer_than(seconds), *(call for call in planning if call.seconds > seconds)]

    def _look_at(self, one: SupervisedRun, call: LongCall) -> None:
        limit = one.run.mode.max_commit_seconds
        if call not in self._reported:
            text = f"{call.what} has not returned for {call.seconds:.0f} s; it is at {call.location()}"
            verb = "takes long" if _may_be_healthy(call) else "hangs"
            self._report(one, call, f"{verb}: {text}; after {limit:g} s it is interrupted; other pipelines go on", "warning")
        if isinstance(call, PlannerCall):
            return
        if call.interrupted is None and call.seconds > limit:
            one.run.calls.interrupt(call)
        elif call.is_interrupted_for(self.stuck_seconds) and call not in self._stuck:
            self._stuck.add(call)
            text = f"{call.what} cannot be interrupted; it is at {call.location()}"
            self._report(one, call, f"hangs: {text}; the pipeline starts again when it returns; other pipelines go on", "error")

    def _report(self, one: SupervisedRun, call: LongCall, text: str, level: str) -> None:
        self._reported[call] = text
        self.on_message(Message("hanging", text, level, one.name))


def _may_be_healthy(call: LongCall) -> bool:
    return call.may_be_long and (isinstance(call, PlannerCall) or call.interrupted is None)


@contextmanager
def hang_watch(runs: Sequence[SupervisedRun], on_message: OnMessage) -> Iterator[None]:
    """Watch in a thread while the body runs."""
    ends = threading.Event()
    watch = HangWatch(runs, on_message, REPORT_SECONDS, STUCK_SECONDS)

    def work() -> None:
        while not ends.wait(LOOK_SECONDS):
            watch.look()

    thread = threading.Thread(target=work, name="hang watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()
