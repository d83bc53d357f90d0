"""Calls that are abandoned when the run ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

from connectors.discard import DiscardSink
from etl.api import Limit, Offset, Schema, Source
from etl.delivery import call_thread
from etl.delivery.backoff import RunStopping
from etl.delivery.call_thread import CallThread
from etl.plan.segments import Output
from etl.spark.query_context import QueryContext
from etl.spark.split_planner import SplitPlanner
from etl.spark.state.folder import StateFolder


@pytest.fixture
def never() -> Iterator[threading.Event]:
    """An event that is set when the test ends."""
    event = threading.Event()
    yield event
    event.set()


def test_a_call_returns_its_result_or_error_also_when_the_run_ends() -> None:
    calls = CallThread(lambda: True)

    assert calls.run(lambda: 1) == 1
    with pytest.raises(ZeroDivisionError):
        calls.run(lambda: 1 // 0)
    assert calls.run(lambda: 2) == 2


def test_the_thread_ends_with_its_object() -> None:
    calls = CallThread(lambda: False)
    calls.run(partial(id, calls))  # a call that refers to the object
    thread = calls._thread
    assert thread is not None
    assert thread.is_alive()

    del calls

    thread.join(120)
    assert not thread.is_alive()


def test_all_calls_run_in_one_thread() -> None:
    calls = CallThread(lambda: False)

    assert len({calls.run(threading.get_ident) for _ in range(3)}) == 1


def test_a_call_that_does_not_return_is_abandoned_when_the_run_ends(never: threading.Event) -> None:
    ending = threading.Event()
    calls = CallThread(ending.is_set, grace_seconds=0.2)
    threading.Timer(0.2, ending.set).start()

    with pytest.raises(RunStopping):
        calls.run(never.wait)
    with pytest.raises(RunStopping):
        calls.run(lambda: 1)


class Hanging(Source):
    """A source whose `latest` does not return."""

    type: Literal["hanging"] = "hanging"

    def fields(self) -> Schema:
        return pa.schema([("message", pa.string())])

    def latest(self, start: Offset, limit: Limit) -> Offset:
        threading.Event().wait()
        return start


def test_planning_ends_with_the_run_although_the_source_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_thread.CallThread.__init__, "__defaults__", (0.2,))
    state = StateFolder(tmp_path)
    letters = Output("dead_letters", DiscardSink(), pa.schema([]))
    query = QueryContext(
        pipeline="p",
        query="main",
        run_id="run",
        state=state,
        dead_letters=letters,
        parallelism=1,
        max_batch_bytes=1 << 20,
        once=False,
    )
    planner = SplitPlanner(query, {"log": Hanging()})
    start = {"sources": {"log": {}}, "parallelism": 1}
    threading.Timer(0.2, state.stopping.touch).start()

    assert planner.latest_offset(start) == start
