"""Messages of Spark's processes on their way to the terminal."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from etl.spark import relay


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """The logger of a process that has sent nothing yet."""
    found = logging.getLogger("sluice")
    before, found.handlers = found.handlers, []
    state = found.level, found.propagate
    yield found
    found.handlers = before
    found.level, found.propagate = state
    relay._worker_pipeline["pipeline"] = ""


def test_a_message_of_what_was_opened_for_another_pipeline_keeps_its_name(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    relay.send("one")
    opened = logging.LogRecord("sluice.rules", logging.WARNING, "", 0, "a rule is refused", (), None)
    opened.pipeline = "two"

    logger.handle(opened)
    logger.warning("of its own")

    lines = [json.loads(line.removeprefix(relay.MARK)) for line in capsys.readouterr().err.split("\n")[:-1]]
    assert [(line["pipeline"], line["text"]) for line in lines] == [("two", "a rule is refused"), ("one", "of its own")]
