"""A pipeline whose sink blocks in the driver: it is reported with its place, interrupted, and others go on."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from running import Engine, wait_for

from connectors.file.writing.appender import Appender
from etl.api import BatchId, Staged
from etl.config.loader import load
from etl.delivery.driver_calls import DriverCall, DriverCalls, HungCallError
from etl.running import hang_watch
from etl.running.hang_watch import HangWatch
from etl.running.messages import Message
from etl.running.planning import RunRequest
from etl.running.service import RunService
from etl.spark.long_calls import LongCallFile, long_call_file
from etl.spark.queries import Queries
from etl.spark.run import PipelineRun
from etl.spark.state.folder import StateFolder

PIPELINE = """
name: {name}
source: {{type: file, path: "{here}/{name}.log"}}
steps: [{{type: regex, patterns: ["^(?P<n>[0-9]+)$"]}}]
sink: {{type: file, path: "{here}/{name}.jsonl"}}
run: {{trigger: 100ms}}
"""


def loop(gate: threading.Event) -> None:
    while not gate.is_set():
        time.sleep(0.01)


def block(gate: threading.Event) -> None:
    gate.wait()


def numbers(path: Path) -> list[int]:
    return sorted(int(json.loads(line)["n"]) for line in path.read_text().splitlines()) if path.exists() else []


@pytest.mark.spark
@pytest.mark.parametrize(("hang", "place"), [(loop, "in loop"), (block, "in block, which calls threading.py:")])
def test_a_commit_that_hangs_is_reported_and_interrupted_while_others_go_on(
    hang: Callable[[threading.Event], None], place: str, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in (("REPORT_SECONDS", 0.3), ("STUCK_SECONDS", 0.5), ("LOOK_SECONDS", 0.1)):
        monkeypatch.setattr(hang_watch, name, seconds)
    gate, commit = threading.Event(), Appender.commit

    def commit_or_hang(self: Appender, batch: BatchId, staged: Sequence[Staged]) -> None:
        if str(self.layout.path).endswith("/a.jsonl"):
            hang(gate)
        commit(self, batch, staged)

    monkeypatch.setattr(Appender, "commit", commit_or_hang)
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(PIPELINE.format(name=name, here=tmp_path))
        (tmp_path / f"{name}.log").write_text("1\n2\n")
    request = RunRequest(state=str(tmp_path / "state"), master=engine.shared.master)
    service = RunService([load(tmp_path / f"{name}.yaml") for name in "ab"], request, several=True, shared=engine.shared)
    messages: list[Message] = []

    def said(event: str, words: str) -> bool:
        return any(one.event == event and words in one.text and one.pipeline == "a" for one in messages)

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(service.work, messages.append)
        try:
            wait_for(lambda: said("hanging", "the commit of micro-batch 0 of sink 'main' (file) has not returned"))
            assert said("hanging", place)
            service.runs[0].mode = replace(service.runs[0].mode, max_commit_seconds=0.5)  # the starts of queries take longer
            wait_for(lambda: numbers(tmp_path / "b.jsonl") == [1, 2])
            with (tmp_path / "b.log").open("a") as file:
                file.write("3\n")
            wait_for(lambda: numbers(tmp_path / "b.jsonl") == [1, 2, 3])
            assert numbers(tmp_path / "a.jsonl") == []
            if hang is block:
                wait_for(lambda: said("hanging", "cannot be interrupted"))
                assert service.supervised[0].problem.startswith("hangs: ")
            else:
                wait_for(lambda: said("failed", "hung for"))
            gate.set()
            wait_for(lambda: numbers(tmp_path / "a.jsonl") == [1, 2])
            wait_for(lambda: service.supervised[0].problem == "")
        finally:
            gate.set()
            service.stop()
            working.result()

    assert service.supervised[1].failures == 0
    assert service.supervised[0].failures >= 1
    assert numbers(tmp_path / "a.jsonl") == [1, 2]


def test_a_call_of_a_source_in_the_process_that_plans_is_reported_while_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("etl.spark.long_calls.WRITE_SECONDS", 0.0)
    state, messages = StateFolder(tmp_path), []
    file = LongCallFile(long_call_file(state, "main", 0))
    run: Any = SimpleNamespace(
        state=state,
        plan=SimpleNamespace(queries=[SimpleNamespace(name="main")]),
        calls=DriverCalls(),
        mode=SimpleNamespace(max_commit_seconds=1800.0),
    )
    one: Any = SimpleNamespace(name="a", run=run, hanging="")
    watch = HangWatch([one], messages.append, report_seconds=60.0, stuck_seconds=30.0)

    call = DriverCall("`latest` of source 'log' (file)", threading.get_ident(), time.monotonic() - 50)
    file.note(call)
    watch.look()
    assert (one.slow, messages) == ("", [])
    watch.report_seconds = 40.0
    for _ in range(2):
        file.note(call)
        watch.look()
        assert one.slow.startswith("takes long: `latest` of source 'log' (file) has not returned for 50 s; it is at ")
        assert one.hanging == ""  # it may list very many files

    file.note(None)
    watch.look()
    assert (one.slow, len(messages)) == ("", 1)


def test_a_large_table_that_is_read_is_no_call_that_hangs_until_it_was_interrupted() -> None:
    calls, gate = DriverCalls(), threading.Event()
    run: Any = SimpleNamespace(
        state=StateFolder(Path("none")),
        plan=SimpleNamespace(queries=[]),
        calls=calls,
        mode=SimpleNamespace(max_commit_seconds=60.0),
    )
    one: Any = SimpleNamespace(name="a", run=run)
    watch = HangWatch([one], lambda _: None, report_seconds=0.0, stuck_seconds=30.0)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(calls.run, "the reading of table 'intel' (file)", gate.wait, may_be_long=True)
        try:
            wait_for(lambda: calls.longer_than(0) != [])
            watch.look()
            assert (one.hanging, one.slow[:34]) == ("", "takes long: the reading of table '")

            calls.interrupt(calls.longer_than(0)[0])
            watch.look()
            assert (one.hanging != "", one.slow) == (True, "")
        finally:
            gate.set()
        with pytest.raises(HungCallError):
            reading.result()


def test_a_query_whose_start_was_interrupted_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, active, stopped = DriverCalls(), [], []
    plan: Any = SimpleNamespace(name="main")
    for name in ("a.other", "a.main"):
        active.append(SimpleNamespace(name=name, stop=partial(stopped.append, name)))
    whatever: Any = None
    session: Any = SimpleNamespace(streams=SimpleNamespace(active=active))
    queries = Queries(
        session=session,
        plan=SimpleNamespace(pipeline="a"),  # type: ignore[arg-type]
        **dict.fromkeys(("commits", "state", "mode", "run_id", "reports", "stop"), whatever),
    )

    def begin_and_hang(self: Queries, plan: Any) -> None:
        calls.interrupt(calls.longer_than(0)[0])
        loop(threading.Event())

    monkeypatch.setattr(Queries, "start", begin_and_hang)
    run: Any = SimpleNamespace(calls=calls)
    with pytest.raises(HungCallError, match="the start of query 'main' hung for 0 s"):
        PipelineRun._start_query(run, queries, plan)

    assert stopped == ["a.main"]
