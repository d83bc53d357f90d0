"""A source that several queries read commits only offsets that all of them have delivered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pyarrow as pa
from pydantic import PrivateAttr

from connectors.discard import DiscardSink
from etl.api import Limit, Offset, Schema, Source
from etl.plan.segments import Output
from etl.spark.query_context import QueryContext
from etl.spark.split_planner import SplitPlanner
from etl.spark.state.folder import StateFolder


class Counted(Source):
    """A source of numbers that records the offsets that it commits."""

    type: Literal["counted"] = "counted"
    _commits: list[list[int]] = PrivateAttr(default_factory=list)

    def fields(self) -> Schema:
        return pa.schema([("message", pa.string())])

    def start(self) -> Offset:
        return {"at": 0}

    def latest(self, start: Offset, limit: Limit) -> Offset:
        return {"at": start["at"] + 10}

    def commit(self, ends: Sequence[Offset]) -> None:
        self._commits.append(sorted(end["at"] for end in ends))


def planner(folder: Path, source: Source, query: str, number: int = 0) -> SplitPlanner:
    state = StateFolder(folder)
    letters = Output("dead_letters", DiscardSink(), pa.schema([]))
    job = QueryContext(
        pipeline="p",
        query=query,
        run_id="run",
        state=state,
        dead_letters=letters,
        parallelism=1,
        max_batch_bytes=1 << 20,
        once=False,
        readers={"numbers": 3},
    )
    return SplitPlanner(job, {"numbers": source}, number=number)


def at(place: int) -> dict[str, object]:
    return {"sources": {"numbers": {"at": place}}, "parallelism": 1}


def test_a_source_commits_the_offsets_of_all_its_readers(tmp_path: Path) -> None:
    source = Counted()
    one, two, three = planner(tmp_path, source, "a"), planner(tmp_path, source, "b"), planner(tmp_path, source, "b", 1)

    one.commit(at(50))
    two.commit(at(20))
    assert source._commits == []

    three.commit(at(40))
    two.latest_offset(at(30))  # where a batch begins, the one before has been delivered
    two.latest_offset(at(30))

    assert source._commits == [[20, 40, 50], [30, 40, 50]]
