"""The sources of a query as one Python streaming data source of Spark: partitions are splits, rows are receipts or events.

Spark calls `SplitReader` (through `etl.spark.datasource`) in two kinds of process: a long-lived planner (offsets, partitions,
commit) and the workers, which read. Spark logs each offset before its micro-batch runs, so that after a crash the same two
offsets are planned again. An offset is ``{"sources": {name: offset}, "parallelism": n, "found": seconds, "tick": micros?}``.
"""

from __future__ import annotations

import hashlib
import pickle
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from etl.api import Limit, Offset, Source
from etl.delivery.backoff import Backoff, RunStopping, StopFile, read_with_retries
from etl.delivery.call_thread import CallThread
from etl.plan.model import Read, Segment
from etl.segment.event_time import heartbeat
from etl.segment.restartable_segment import RestartableSegment
from etl.segment.segment_run import SegmentRun, SplitContext
from etl.spark import pace
from etl.spark.query_context import QueryContext, SplitTask, current_batch, ensure_folder, store_error
from etl.spark.reports.log_relay import relay_worker_logs
from etl.spark.state.json_files import read_json, read_numbers, write_json

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.types import StructType

T = TypeVar("T")

UNLIMITED = 1 << 62
"""Bytes of a micro-batch without limit."""


class SplitReader:
    """Plans micro-batches over several sources and reads their splits through a segment."""

    def __init__(
        self, query: QueryContext, sources: Mapping[str, Source], segment: Segment, read: Read | None, number: int = 0
    ) -> None:
        self._query = query
        self._sources = dict(sources)
        self._segment = segment
        self._read = read
        self._number = number
        self._target: dict[str, Offset] | None = None
        self._moved = time.monotonic()
        self._ticked = False
        self._delivered: dict[str, Offset] = {}
        self._calls: CallThread | None = None

    # ── Planner: one long-lived process ──

    def initial_offset(self) -> dict[str, Any]:
        """The first offset of a new checkpoint."""
        relay_worker_logs(self._query.pipeline)
        offsets = {name: self._initial_offset(name) for name in self._sources}
        return {"sources": offsets, "parallelism": self._query.parallelism}

    def latest_offset(self, start: dict[str, Any]) -> dict[str, Any]:
        """The end offset of the next micro-batch; ``start`` when there is nothing to read."""
        relay_worker_logs(self._query.pipeline)
        try:
            self.commit(start)  # Spark commits a batch only when the next has data, for which a full journal has no room
            return self._next_offset(start)
        except RunStopping:
            return start

    def _next_offset(self, start: dict[str, Any]) -> dict[str, Any]:
        begun: dict[str, Offset] = start["sources"]
        if (
            begun.keys() != self._sources.keys()
        ):  # sources were added or removed: an empty batch logs the first offset of a new one
            offsets = {name: begun[name] if name in begun else self._initial_offset(name) for name in self._sources}
            return {"sources": offsets, "parallelism": self._query.parallelism}
        ends = self._end_offsets(begun)
        if ends != begun:
            self._moved, self._ticked = time.monotonic(), False
            return {"sources": ends, "parallelism": self._query.parallelism, "found": time.time()}
        all_ended = all(self._call_source(name, source.ended, begun[name]) for name, source in self._sources.items())
        ticked = self._advance_clock(start, all_ended)
        if all_ended and ticked == start:
            write_json(self._query.state.ended(self._query.query), True)
        return ticked

    def _end_offsets(self, begun: dict[str, Offset]) -> dict[str, Offset]:
        left = self._events_left()
        if left == 0:
            return begun
        if self._query.once and self._target is None:
            everything = Limit(UNLIMITED, None, bounded=True)
            self._target = {n: self._call_source(n, s.latest, begun[n], everything) for n, s in self._sources.items()}
        ends = dict(begun)
        known = read_numbers(self._query.state.query(self._query.query) / "pace.json")
        share = max(1, pace.batch_bytes(known.get("speed"), self._query.max_batch_bytes) // len(self._sources))
        most = max(1, self._query.max_batch_bytes // len(self._sources))
        for name, source in self._sources.items():
            until = self._target[name] if self._target else None
            limit = Limit(share, left, self._query.once, until, known.get("event_bytes"))
            ends[name] = pace.end_of_batch(partial(self._call_source, name, source.latest, begun[name]), limit, most)
            if left is not None and ends[name] != begun[name]:
                break  # with a limit of events only one source a batch: the number read is known afterwards
        return ends

    def _initial_offset(self, name: str) -> Offset:
        return self._call_source(name, self._sources[name].start)

    def _call_source(self, name: str, ask: Callable[..., T], *given: Any) -> T:
        """Call a method of a source; retry while the source is down. Raises RunStopping when the run stops first."""
        if self._calls is None:
            self._calls = CallThread(StopFile(self._query.state.stopping))
        calls = self._calls
        return self._query.backoff(name).retry_until_done(lambda: calls.run(lambda: ask(*given)))

    def _events_left(self) -> int | None:
        if not self._query.limited:
            return None
        return int(read_json(self._query.state.query(self._query.query) / "limit.json"))

    def _advance_clock(self, start: dict[str, Any], all_ended: bool) -> dict[str, Any]:
        """Advance the event time of idle or ended sources past every open window, once for each idle time."""
        clock = self._read.watermark if self._read else None
        if clock is None or self._ticked:
            return start
        silent = clock.idle_seconds is not None and time.monotonic() - self._moved >= clock.idle_seconds
        if not (all_ended or (self._query.drain if self._query.once else silent)):
            return start
        known = read_numbers(self._query.state.query(self._query.query) / "clock.json")
        if "event_time" not in known:
            return start
        self._ticked = True
        tick = known["event_time"] + round((clock.reach_seconds + clock.late_seconds + 1) * 1e6)
        return start if start.get("tick") == tick else {**start, "tick": tick}

    def plan_tasks(self, start: dict[str, Any], end: dict[str, Any]) -> list[SplitTask]:
        """The tasks between two offsets, in delivery order."""
        parts: list[SplitTask] = []
        if end.get("tick") is not None and end.get("tick") != start.get("tick"):
            parts.append(SplitTask(0, "", None, end["tick"]))
        for name, source in self._sources.items():
            begun = start["sources"].get(name)
            if begun is None or begun == end["sources"].get(name):
                continue
            for split in self._call_source(name, source.splits, begun, end["sources"][name], end["parallelism"]):
                parts.append(SplitTask(len(parts), name, split, found=end.get("found")))
        return parts

    def commit(self, end: dict[str, Any]) -> None:
        """Commit ``end`` to the sources: all sinks of this query have the events before it.

        A source's `commit` is called once all queries that read it have an offset.
        """
        for name, source in self._sources.items():
            known = end["sources"].get(name)
            if type(source).commit is Source.commit or known is None or known == self._delivered.get(name):
                continue
            self._delivered[name] = known
            marks = self._query.state.marks(name)
            write_json(marks / f"{self._query.query}-{self._number}.json", known)
            ends = [mark for path in sorted(marks.glob("*.json")) if (mark := read_json(path)) is not None]
            if len(ends) == self._query.readers.get(name, 1):
                self._call_source(name, source.commit, ends)

    # ── Workers: reading ──

    def read(self, part: SplitTask) -> Iterator[pa.RecordBatch]:
        """Run the segment over one split; yields its receipt, or its events, with the receipt in a file for the driver."""
        relay_worker_logs(self._query.pipeline)
        staging = self._staging_folder()
        try:
            yield from self._run_for_spark(part, staging) if self._read else self._run_to_receipt(part, staging)
        except RunStopping:
            raise
        except Exception as error:
            store_error(staging, error)
            raise

    def _run_to_receipt(self, part: SplitTask, staging: Path) -> Iterator[pa.RecordBatch]:
        receipt = self._restartable_segment(part, staging).run_to_end()
        yield pa.RecordBatch.from_pydict({"receipt": pa.array([receipt.encode()], pa.binary())})

    def _restartable_segment(self, part: SplitTask, staging: Path) -> RestartableSegment:
        backoff = Backoff(f"query {self._query.query!r}", StopFile(self._query.state.stopping))
        return RestartableSegment(partial(self._run, part, staging), partial(self._batches, part), backoff)

    def _run_for_spark(self, part: SplitTask, staging: Path) -> Iterator[pa.RecordBatch]:
        assert self._read is not None
        if part.tick is not None:
            assert self._read.watermark is not None
            yield heartbeat(emitted_schema(self._read), self._read.watermark.field, part.tick)
            return
        whole = self._restartable_segment(part, staging)
        yield from whole
        folder = ensure_folder(staging / "receipts")
        (folder / whole.receipt.split).write_bytes(whole.receipt.encode())

    def _run(self, part: SplitTask, staging: Path) -> SegmentRun:
        assert part.split is not None
        context = SplitContext(
            pipeline=self._query.pipeline,
            source=part.source,
            partition=part.split.partition,
            split=f"{part.name}-{self._number}" if self._number else part.name,
            order=part.order,
            staging_folder=lambda sink: str(ensure_folder(staging / "sinks" / sink)),
            segment_number=self._number,
            batch=current_batch(self._query),
            stop_file=StopFile(self._query.state.stopping),
            spool_folder=self._query.state.spools,
            ordered=self._sources[part.source].ordered,
        )
        clock = self._read.watermark if self._read else None
        emits = emitted_schema(self._read) if self._read else None
        run = SegmentRun(self._segment, part.source, context, self._query.dead_letters, emits, clock)
        run.receipt.found = part.found
        return run

    def _batches(self, part: SplitTask) -> Iterator[Any]:
        assert part.split is not None
        read = partial(self._sources[part.source].read, part.split)
        return read_with_retries(read, self._query.backoff(part.source))

    def _staging_folder(self) -> Path:
        return self._query.state.staging(self._query.run_id, self._query.query, current_batch(self._query).number)


def emitted_schema(read: Read) -> pa.Schema:
    """The fields of a read's output for Spark, without ``_offset``."""
    clock = read.watermark
    if clock is None or clock.field in read.schema.names:
        return read.schema
    return read.schema.append(pa.field(clock.field, pa.timestamp("us", tz="UTC")))


def splits_source(
    query: QueryContext, sources: Mapping[str, Source], segment: Segment, read: Read | None, number: int = 0
) -> type[DataSource]:
    """The data source class for one read of a query; ``number`` counts the reads of the query, which may share a source.

    Its name is unique in the session, which may run several pipelines: Spark has one data source for each name.
    """
    from etl.spark.datasource import data_source

    name = f"sluice_{hashlib.sha256(f'{query.state.root}/{query.query}/{number}/{list(sources)}'.encode()).hexdigest()[:12]}"
    return data_source(name, pickle.dumps(SplitReader(query, sources, segment, read, number)), spark_schema(read))


def spark_schema(read: Read | None) -> StructType | str:
    """Spark's schema of what the reader yields."""
    if read is None:
        return "receipt binary"
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(emitted_schema(read).append(pa.field("_offset", pa.int64())))
