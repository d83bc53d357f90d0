"""Log messages of Spark's processes and of the driver are shown by the run."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from running import ROOT

from etl.delivery.notices import Notice
from etl.spark.reports.log_relay import ATTEMPT_SECONDS, MARK, LogRelay, forward_driver_logs, forward_worker_logs

WORKER = """
import logging
from etl.spark.reports.log_relay import relay_worker_logs

relay_worker_logs("one")
opened = logging.LogRecord("sluice.rules", logging.WARNING, "", 0, "a rule is refused", (), None)
opened.pipeline = "two"
logging.getLogger("sluice").handle(opened)
logging.getLogger("sluice").warning("of its own")
"""


@pytest.mark.slow
def test_a_record_with_a_pipeline_keeps_it() -> None:
    """In a process of its own, as a worker is: in this one the logger may serve a run of another test."""
    ran = subprocess.run([sys.executable, "-c", WORKER], cwd=ROOT, capture_output=True, text=True, check=True)

    lines = [json.loads(line.removeprefix(MARK)) for line in ran.stderr.split("\n")[:-1]]
    assert [(line["pipeline"], line["text"]) for line in lines] == [("two", "a rule is refused"), ("one", "of its own")]


def test_overlapping_runs_restore_the_logger() -> None:
    logger = logging.getLogger("sluice")
    before = logger.level, logger.propagate, list(logger.handlers)
    shown: list[str] = []
    first, second = (forward_driver_logs(LogRelay(logging.INFO, lambda level, text, name: shown.append(text))) for _ in range(2))

    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    logging.getLogger("sluice.sink").warning("one is still at work")
    second.__exit__(None, None, None)

    assert shown == ["one is still at work"]
    assert (logger.level, logger.propagate, logger.handlers) == before


def test_the_outage_of_a_pipeline_is_its_last_notice_until_it_ends() -> None:
    now = [0.0]
    relay = LogRelay(logging.ERROR, lambda *_: None, clock=lambda: now[0])
    assert relay.outage("a") == ""

    for tries in (1, 2):
        relay.forward(logging.WARNING, "x", Notice("sink 'main'", "refused", tries, 7.0, 4.0), pipeline="a")
    assert relay.outage("a") == "sink 'main': refused; trying again in 4.0 s (2nd time, since 7.0 s)"
    assert relay.outage("b") == ""
    relay.forward(logging.WARNING, "x", Notice("sink 'main'", "", 2, 9.0), pipeline="a")
    assert relay.outage("a") == ""

    relay.forward(logging.WARNING, "x", Notice("source 'in'", "refused", 1, 0.0, 4.0), pipeline="a")
    now[0] = ATTEMPT_SECONDS + 3
    assert relay.outage("a")
    now[0] += 2
    assert relay.outage("a") == "", "its task was killed"


def line_of(text: str, pipeline: str) -> str:
    return f"{MARK}{json.dumps({'level': logging.WARNING, 'text': text, 'process': 1, 'pipeline': pipeline})}\n"


def test_runs_that_share_a_log_read_it_once_and_get_their_own_messages(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.write_text(line_of("before", "a"))
    shown: list[tuple[str, str]] = []

    def forwarding(name: str, from_start: bool = False) -> AbstractContextManager[None]:
        relay = LogRelay(logging.INFO, lambda level, text, pipeline: shown.append((name, text)))
        return forward_worker_logs(log, relay, [name], from_start)

    def append(text: str) -> None:
        with log.open("a") as file:
            file.write(text)

    with forwarding("a"):
        append(line_of("to a", "a") + line_of("to nobody", "b"))
        with forwarding("b"):
            append("a line of Java\n" + line_of("to b", "b") + line_of("to all", "") + MARK + "{half")
            assert [thread.name for thread in threading.enumerate()].count("worker logs") == 1
        append(" a line}\n" + line_of("to nobody", "b") + line_of("the last", "a"))
    with forwarding("a", from_start=True):
        pass

    assert [text for name, text in shown if name == "a"] == ["to a", "to all", "the last", "before", "to a", "to all", "the last"]
    assert [text for name, text in shown if name == "b"] == ["to b", "to all"]
    assert "worker logs" not in [thread.name for thread in threading.enumerate()]
