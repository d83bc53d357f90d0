"""Calls that are abandoned when the run ends."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest
from running import wait_for

from connectors.discard import DiscardSink
from etl.api import Limit, Offset, Schema, Source
from etl.delivery import call_thread
from etl.delivery.backoff import RunStopping
from etl.delivery.call_thread import CallThread
from etl.delivery.driver_calls import DriverCall, HungCallError
from etl.plan.segments import Output
from etl.spark.long_calls import read_long_calls
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


def test_a_call_that_takes_too_long_is_given_up(never: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_thread, "LONG_SECONDS", 0.01)
    noted: list[DriverCall | None] = []
    calls = CallThread(lambda: False, max_seconds=0.3, on_long_call=noted.append)

    depths = []
    for _ in range(3):
        with pytest.raises(HungCallError, match=r"`latest` of source 'a' hung for 0 s .* which calls threading.py:") as raised:
            calls.run(never.wait, "`latest` of source 'a'")
        depths.append(len(list(traceback.walk_tb(raised.value.__traceback__))))

    assert depths[2] == depths[1]  # the error is raised again and again while the call hangs
    assert [call and call.what for call in (noted[0], noted[-1])] == ["`latest` of source 'a'", None]


class Hanging(Source):
    """A source whose `latest` does not return."""

    type: Literal["hanging"] = "hanging"

    def fields(self) -> Schema:
        return pa.schema([("message", pa.string())])

    def latest(self, start: Offset, limit: Limit) -> Offset:
        threading.Event().wait()
        return start


START = {"sources": {"log": {}}, "parallelism": 1}


def context(folder: Path) -> QueryContext:
    return QueryContext(
        pipeline="p",
        query="main",
        run_id="run",
        state=StateFolder(folder),
        dead_letters=Output("dead_letters", DiscardSink(), pa.schema([])),
        parallelism=1,
        max_batch_bytes=1 << 20,
        once=False,
    )


def test_planning_ends_with_the_run_although_the_source_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, *others = CallThread.__init__.__defaults__ or ()
    monkeypatch.setattr(CallThread.__init__, "__defaults__", (0.2, *others))
    query = context(tmp_path)
    state = query.state
    planner = SplitPlanner(query, {"log": Hanging()})
    threading.Timer(0.2, state.stopping.touch).start()

    assert planner.latest_offset(START) == START
    assert list(read_long_calls(state, ["main"])) == []


def test_a_source_that_hangs_fails_its_query_and_is_seen_by_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_thread, "LONG_SECONDS", 0.01)
    query = replace(context(tmp_path), max_call_seconds=0.5)
    planner = SplitPlanner(query, {"log": Hanging()})
    with ThreadPoolExecutor(1) as pool:
        planning = pool.submit(planner.latest_offset, START)
        wait_for(lambda: list(read_long_calls(query.state, ["main"])) != [])
        (call,) = read_long_calls(query.state, ["main"])
        with pytest.raises(HungCallError):
            planning.result()

    assert call.what == "`latest` of source 'log' (hanging)"
    assert call.location().startswith("test_call_thread.py:")
    assert list(read_long_calls(query.state, ["main"])) == []
