"""Log messages of Spark's processes and of the driver are shown by the run."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import pytest
from running import ROOT

from etl.delivery.notices import Notice
from etl.spark.reports.log_relay import ATTEMPT_SECONDS, MARK, LogRelay, forward_driver_logs

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
