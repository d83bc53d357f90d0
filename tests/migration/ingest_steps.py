"""Ingest pipelines of a few processors, as a test imports them."""

from __future__ import annotations

from typing import Any

from etl.migration.ingest.pipeline import IngestImport
from etl.migration.sampling import json_members


def imported(*processors: Any, lines: tuple[str, ...] = (), **pipelines: Any) -> IngestImport:
    ingest = IngestImport(
        {"main": {"processors": list(processors)}, **{name: {"processors": one} for name, one in pipelines.items()}},
        lambda name, path: f"{name}:{path}",
        samples={"message": json_members(lines)} if lines else {},
    )
    ingest.run("main")
    return ingest


def steps(*processors: Any, **pipelines: Any) -> list[dict[str, Any]]:
    """The steps of processors that are all carried over."""
    ingest = imported(*processors, **pipelines)
    assert [str(one) for one in ingest.report.left] == []
    return [step.options for step in ingest.draft.steps]


def grok(pattern: str, **more: Any) -> dict[str, Any]:
    return {"grok": {"field": "message", "patterns": [pattern], **more}}
