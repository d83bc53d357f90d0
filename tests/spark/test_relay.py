"""Messages of Spark's processes on their way to the terminal."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

from running import ROOT

from etl.spark import relay

WORKER = """
import logging
from etl.spark import relay

relay.send("one")
opened = logging.LogRecord("sluice.rules", logging.WARNING, "", 0, "a rule is refused", (), None)
opened.pipeline = "two"
logging.getLogger("sluice").handle(opened)
logging.getLogger("sluice").warning("of its own")
"""


def test_a_message_of_what_was_opened_for_another_pipeline_keeps_its_name() -> None:
    """In a process of its own, as a worker is: in this one the logger may serve a run of another test."""
    ran = subprocess.run([sys.executable, "-c", WORKER], cwd=ROOT, capture_output=True, text=True, check=True)

    lines = [json.loads(line.removeprefix(relay.MARK)) for line in ran.stderr.split("\n")[:-1]]
    assert [(line["pipeline"], line["text"]) for line in lines] == [("two", "a rule is refused"), ("one", "of its own")]


def test_runs_that_overlap_leave_the_logger_as_it_was() -> None:
    logger = logging.getLogger("sluice")
    before = logger.level, logger.propagate, list(logger.handlers)
    heard: list[str] = []
    first, second = (
        relay.driver_logs_forwarded(relay.LogRelay(logging.INFO, lambda level, text, name: heard.append(text))) for _ in range(2)
    )

    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    logging.getLogger("sluice.sink").warning("one is still at work")
    second.__exit__(None, None, None)

    assert heard == ["one is still at work"]
    assert (logger.level, logger.propagate, logger.handlers) == before
