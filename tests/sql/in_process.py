"""Runs scripts without stateful steps in the test's process, and gives the rows of their sinks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from etl.api import OFFSET, Limit
from etl.config.loader import inspect
from etl.delivery.dead_letters import SCHEMA
from etl.plan.planner import plan
from etl.segment.segment_run import SegmentRun, SplitContext
from etl.testing.capture import Capture, read_captured
from etl.testing.trial import capture_outputs
from etl.testing.values import to_rows

ALL = Limit(1 << 40, None, bounded=True)


def sink_rows(text: str, folder: Path) -> Mapping[str, list[dict[str, Any]]]:
    """The rows that each sink of a script gets; nothing needs Spark, and no event is a dead letter."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "job.sql").write_text(text, "utf-8")
    checked = inspect(folder / "job.sql", {})
    assert checked.pipeline is not None, "\n".join(map(str, checked.problems))
    pipeline = replace(checked.pipeline, sinks=capture_outputs(checked.pipeline, checked.pipeline.sinks, folder))
    planned = plan(pipeline, Capture(folder=str(folder / "dead")), SCHEMA)
    for query in planned.queries:
        assert query.frame is None, "the script has stateful steps"
        for order, (name, source) in enumerate(query.sources.items()):
            first = source.start()
            for number, split in enumerate(source.splits(first, source.latest(first, ALL), 1)):
                context = SplitContext(
                    pipeline=planned.pipeline,
                    source=name,
                    partition="test",
                    split=f"{order:03d}-{number:03d}-{name}",
                    order=order,
                    staging_folder=lambda _: "",
                )
                assert not list(SegmentRun(query.segment, name, context, planned.dead_letters).process(source.read(split)))
    assert not [row for batch in read_captured(folder / "dead") for row in to_rows(batch)] if (folder / "dead").is_dir() else True
    return {name: _rows(folder / name) for name in pipeline.sinks}


def _rows(folder: Path) -> list[dict[str, Any]]:
    if not folder.is_dir():
        return []
    return [
        {key: value for key, value in row.items() if key != OFFSET} for batch in read_captured(folder) for row in to_rows(batch)
    ]
