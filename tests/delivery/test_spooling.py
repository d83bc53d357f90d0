"""Runs whose sources and sinks are down: waiting, blocking, and the spool."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from faulty import delivered, installed_here, set_fault
from running import Engine, Etl, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PIPELINE = """
    name: faults
    sources: {numbers: {type: faulty, path: "{here}/from"}}
    sinks:
      one: {from: numbers, type: faulty, path: "{here}/one", retry: {attempts: 2, initial_backoff: 50ms, max_backoff: 0.2s}, MORE}
      two: {from: numbers, type: faulty, path: "{here}/two"}
    run: {trigger: 100ms}
"""


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Create the folders of the source and the sinks, and install the components."""
    for name in ("from", "one", "two"):
        set_fault(tmp_path / name, "none")
    put(tmp_path, 0)
    with installed_here(tmp_path / "site", monkeypatch):
        yield tmp_path


def put(folder: Path, count: int) -> None:
    fresh = folder / "from" / "count.new"
    fresh.write_text(str(count))
    fresh.replace(folder / "from" / "count")


@dataclass
class Following:
    """A run that follows its source, in a process group of its own."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def output(self) -> str:
        """Its standard error."""
        return self.log.read_text()

    def says(self, text: str) -> None:
        """Wait for a text on its standard error."""
        wait_for(lambda: text in self.output or self.process.poll() is not None, what=text)
        assert text in self.output, self.output

    def end(self) -> str:
        """Stop it with SIGTERM, as systemd does; return its standard error."""
        os.killpg(self.process.pid, signal.SIGTERM)
        assert self.process.wait(120) == 0, self.output
        return self.output

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


Start = Callable[[str], Following]


@pytest.fixture
def start(etl: Etl, folders: Path) -> Iterator[Start]:
    """Start the pipeline with options of the sink ``one``; a process that still runs is killed at the end."""
    with ExitStack() as stack:

        def run(options: str) -> Following:
            pipeline = etl.pipeline(PIPELINE.replace("MORE", options))
            words = ("run", str(pipeline), "--master", "local[2]", "--state", str(etl.folder / "state"))
            log = etl.folder / "err.log"
            with log.open("wb") as err:
                command = [sys.executable, "-m", "etl", *words]
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=err, stderr=err, start_new_session=True)
            started = Following(process, log)
            stack.callback(lambda: started.kill() if process.poll() is None else None)
            return started

        yield run


def test_with_spool_other_sinks_continue_and_all_is_delivered_in_order_later(engine: Engine, folders: Path) -> None:
    set_fault(folders / "one", "down")
    with engine.following(PIPELINE.replace("MORE", "on_failure: spool")) as run:
        for count in (2000, 3000, 5000):
            put(folders, count)
            wait_for(lambda count=count: len(delivered(folders / "two")) == count, what="the other sink's events")
        assert delivered(folders / "one") == []
        assert any((folders / "state" / "spool" / "one").glob("*.arrow"))

        set_fault(folders / "one", "none")
        wait_for(lambda: len(delivered(folders / "one")) == 5000, what="the spool's events")
        put(folders, 6000)
        wait_for(lambda: len(delivered(folders / "one")) == 6000, what="the next events")

    assert delivered(folders / "one") == list(range(6000))
    assert "sink 'one': " in run.output
    assert "connection refused; its events wait in the spool" in run.output
    assert "6,000 in = 6,000 out + 0 filtered + 0 dead\n" in run.output


def test_with_block_the_query_waits_and_a_signal_ends_it(engine: Engine, start: Start, folders: Path) -> None:
    put(folders, 2000)
    set_fault(folders / "one", "refuses")
    run = start("on_failure: block")
    run.says("connection refused; trying again in")

    run.end()
    before = delivered(folders / "one")
    set_fault(folders / "one", "none")
    again = engine.run(folders / "pipeline.yaml", "--once")

    assert before == []
    assert again.status == 0, again.err
    assert sorted(delivered(folders / "one")) == list(range(2000))
    assert sorted(set(delivered(folders / "two"))) == list(range(2000))


def test_with_block_the_query_continues_when_the_sink_works_again(engine: Engine, folders: Path) -> None:
    messages = {"down": "refused; trying again", "full": "429: too many requests; trying again", "closes": "reset; trying again"}
    with engine.following(PIPELINE.replace("MORE", "on_failure: block, ledger: true")) as run:
        for number, (fault, message) in enumerate(messages.items(), 1):
            set_fault(folders / "one", fault)
            put(folders, 2000 * number)
            run.says(message)
            set_fault(folders / "one", "none")
            wait_for(lambda number=number: len(delivered(folders / "one")) == 2000 * number, what="all events")

    assert sorted(delivered(folders / "one")) == list(range(6000))


def test_with_fail_the_run_ends(etl: Etl, engine: Engine, folders: Path) -> None:
    put(folders, 1000)
    set_fault(folders / "one", "down")

    ran = engine.run(etl.pipeline(PIPELINE.replace("MORE", "on_failure: fail")), "--once")

    assert ran.status == 1
    assert "sink 'one' could not be opened or committed in 2 attempts: " in ran.err


def test_once_reports_waiting_events_and_the_next_run_delivers_them(etl: Etl, engine: Engine, folders: Path) -> None:
    put(folders, 3000)
    set_fault(folders / "one", "down")
    pipeline = etl.pipeline(PIPELINE.replace("MORE", "on_failure: spool"))

    first = engine.run(pipeline, "--once")
    set_fault(folders / "one", "none")
    second = engine.run(pipeline, "--once")

    assert first.status == 1
    assert "3,000 events for sink 'one' wait in the spool" in first.err
    assert first.done["sinks"]["one"] | {"flushes": {}} == {
        "in": 3000, "made": 0, "out": 0, "filtered": 0, "dead": 0, "spooled": 3000, "retries": 0, "flushes": {},
    }  # fmt: skip
    assert second.status == 0, second.err
    assert second.done["sinks"]["one"]["spooled"] == -3000
    assert delivered(folders / "one") == list(range(3000))
    assert sorted(delivered(folders / "two")) == list(range(3000))


def test_kills_while_the_spool_fills_and_drains_lose_and_repeat_nothing(engine: Engine, start: Start, folders: Path) -> None:
    more = "on_failure: spool, ledger: true"
    set_fault(folders / "one", "down")
    run = start(more)
    put(folders, 4000)
    wait_for(lambda: any((folders / "state" / "spool" / "one").glob("0*.json")), what="an entry of the spool")
    run.kill()
    set_fault(folders / "one", "slow")
    put(folders, 8000)
    run = start(more)
    wait_for(lambda: len(delivered(folders / "one")) > 500, what="a part of the spool")
    run.kill()
    set_fault(folders / "one", "none")

    ran = engine.run(folders / "pipeline.yaml", "--once")

    assert ran.status == 0, ran.err
    assert sorted(delivered(folders / "one")) == list(range(8000))
    assert not list((folders / "state" / "spool" / "one").glob("*.arrow"))


def test_a_run_waits_for_a_source_that_is_down_at_the_start_and_within_a_split(engine: Engine, folders: Path) -> None:
    set_fault(folders / "from", "down")
    with engine.following(PIPELINE.replace("MORE", "on_failure: block")) as run:
        run.says("connection refused; trying again in")
        put(folders, 1000)
        set_fault(folders / "from", "breaks")
        wait_for(lambda: delivered(folders / "one") != [], what="the first batch")
        set_fault(folders / "from", "none")

        wait_for(lambda: len(delivered(folders / "one")) == 1000, what="all events")
        set_fault(folders / "from", "down")

    assert delivered(folders / "one") == list(range(1000))
    assert "source 'numbers': " in run.output


def test_a_signal_during_the_start_stops_the_run(start: Start, folders: Path) -> None:
    run = start("on_failure: block")
    run.says("starting Spark")

    run.end()


def test_dead_letters_of_the_spool_are_written_once(etl: Etl, engine: Engine, folders: Path) -> None:
    put(folders, 1000)
    set_fault(folders / "one", "down")
    pipeline = etl.pipeline(PIPELINE.replace("MORE", "on_failure: spool, ledger: true"))
    engine.run(pipeline, "--once")
    set_fault(folders / "one", "picky")

    ran = engine.run(pipeline, "--once")

    letters = [json.loads(line) for line in (folders / "state" / "dead_letters.jsonl").read_text().splitlines()]
    assert ran.status == 0, ran.err
    assert delivered(folders / "one") == list(range(0, 1000, 2))
    assert [json.loads(letter["event"])["n"] for letter in letters] == list(range(1, 1000, 2))
    assert ran.done["sinks"]["one"]["dead"] == 500


def test_a_run_that_requires_health_fails_with_the_findings_of_lint(etl: Etl, folders: Path) -> None:
    pipeline = etl.pipeline(PIPELINE.replace("MORE", "on_failure: block"))
    set_fault(folders / "from", "down")
    set_fault(folders / "one", "wrong")

    ran = etl.here("run", pipeline, "--once", "--require-healthy", "--state", folders / "state")
    linted = etl.here("lint", pipeline, "--connect")

    assert (ran.status, linted.status) == (1, 1)
    assert "unreachable: $.sources.numbers: " in ran.err
    assert "unknown-table: $.sinks.one.path: there is no table in " in ran.err
    assert linted.out.splitlines() == [line for line in ran.err.splitlines() if line.startswith(str(pipeline))]
    assert not (folders / "state").exists()
