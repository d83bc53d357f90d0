"""Log messages of Spark's processes and of the driver are shown by the run."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import pytest
from running import ROOT

from etl.spark.reports.log_relay import MARK, LogRelay, forward_driver_logs

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
