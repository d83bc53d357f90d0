"""Reading from Spark's offset log how far earlier runs have read each source."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from etl.api import Offset
from etl.plan.model import QueryPlan
from etl.spark.state import StateFolder

_HEAD_LINES = 2
"""Number of lines for version and settings, before one line for each read of the query."""


def read_committed_offsets(state: StateFolder, queries: Iterable[QueryPlan]) -> dict[str, Offset]:
    """Source → its committed offset. Sources without one, or with an unknown log format, are left out."""
    return {name: offset for query in queries for read in _last_offsets(state, query.name) for name, offset in read.items()}


def _last_offsets(state: StateFolder, query: str) -> Iterator[dict[str, Offset]]:
    folder = state.checkpoint(query) / "offsets"
    batches = [int(path.name) for path in folder.iterdir() if path.name.isdigit()] if folder.is_dir() else []
    if batches:
        for line in (folder / str(max(batches))).read_text("utf-8").splitlines()[_HEAD_LINES:]:
            found = _parse(line)
            if isinstance(found, dict) and isinstance(found.get("sources"), dict):
                yield found["sources"]


def _parse(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None  # a source that Spark reads itself, or one without an offset yet
