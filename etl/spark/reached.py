"""How far earlier runs came in each source, from Spark's log of offsets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from etl.api import Offset
from etl.plan.model import QueryPlan
from etl.spark.state import StateFolder

_HEAD_LINES = 2
"""Version and settings; then a line for each read of the query."""


def reached(state: StateFolder, queries: Iterable[QueryPlan]) -> dict[str, Offset]:
    """Source → where it stands; without those that no run has begun, or whose log is none that we know."""
    return {name: offset for query in queries for read in _last(state, query.name) for name, offset in read.items()}


def _last(state: StateFolder, query: str) -> Iterator[dict[str, Offset]]:
    folder = state.checkpoint(query) / "offsets"
    batches = [int(path.name) for path in folder.iterdir() if path.name.isdigit()] if folder.is_dir() else []
    if batches:
        for line in (folder / str(max(batches))).read_text("utf-8").splitlines()[_HEAD_LINES:]:
            found = _read(line)
            if isinstance(found, dict) and isinstance(found.get("sources"), dict):
                yield found["sources"]


def _read(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None  # a source of Spark's own, or one without an offset yet
