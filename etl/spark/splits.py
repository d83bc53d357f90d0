"""Our sources as one Python streaming data source of Spark: its partitions are splits, its rows receipts or events.

Spark calls `Reader` (through `etl.spark.datasource`) in two kinds of process: a long-lived one that plans (offsets,
partitions, commit) and the workers that read. It logs each offset before a micro-batch runs, so the same two offsets
are planned again after a crash. An offset is ``{"sources": {name: offset}, "parallelism": n, "found": seconds,
"tick": micros?}``.
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
from etl.spark import pace, relay
from etl.spark.query_context import Part, QueryContext, current_batch, made, report
from etl.spark.state import read_json, read_numbers, write_json

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.types import StructType

T = TypeVar("T")

WHOLE = 1 << 62
"""A batch limit that limits nothing."""


class Reader:
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

    # ── Planning, in one long-lived process ──

    def begin(self) -> dict[str, Any]:
        """Where a new checkpoint begins."""
        relay.send(self._query.pipeline)
        offsets = {name: self._begin(name) for name in self._sources}
        return {"sources": offsets, "parallelism": self._query.parallelism}

    def latest(self, start: dict[str, Any]) -> dict[str, Any]:
        """Where the micro-batch ends; ``start`` itself when there is nothing to do."""
        relay.send(self._query.pipeline)
        try:
            self.commit(start)  # Spark tells of a batch's end when the next has data, for which a full journal has no room
            return self._next(start)
        except RunStopping:
            return start

    def _next(self, start: dict[str, Any]) -> dict[str, Any]:
        begun: dict[str, Offset] = start["sources"]
        if begun.keys() != self._sources.keys():  # a source came or went: a batch of its own says where the new one begins
            offsets = {name: begun[name] if name in begun else self._begin(name) for name in self._sources}
            return {"sources": offsets, "parallelism": self._query.parallelism}
        ends = self._ends(begun)
        if ends != begun:
            self._moved, self._ticked = time.monotonic(), False
            return {"sources": ends, "parallelism": self._query.parallelism, "found": time.time()}
        over = all(self._waiting(name, source.ended, begun[name]) for name, source in self._sources.items())
        ticked = self._tick(start, over)
        if over and ticked == start:
            write_json(self._query.state.ended(self._query.query), True)
        return ticked

    def _ends(self, begun: dict[str, Offset]) -> dict[str, Offset]:
        left = self._left()
        if left == 0:
            return begun
        if self._query.once and self._target is None:
            everything = Limit(WHOLE, None, bounded=True)
            self._target = {n: self._waiting(n, s.latest, begun[n], everything) for n, s in self._sources.items()}
        ends = dict(begun)
        known = read_numbers(self._query.state.query(self._query.query) / "pace.json")
        share = max(1, pace.batch_bytes(known.get("speed"), self._query.max_batch_bytes) // len(self._sources))
        most = max(1, self._query.max_batch_bytes // len(self._sources))
        for name, source in self._sources.items():
            until = self._target[name] if self._target else None
            limit = Limit(share, left, self._query.once, until, known.get("event_bytes"))
            ends[name] = pace.reach(partial(self._waiting, name, source.latest, begun[name]), limit, most)
            if left is not None and ends[name] != begun[name]:
                break  # only one source a batch while events are counted: who reads how many is known afterwards
        return ends

    def _begin(self, name: str) -> Offset:
        return self._waiting(name, self._sources[name].start)

    def _waiting(self, name: str, ask: Callable[..., T], *given: Any) -> T:
        """A source's answer; while it is down it is asked again. Raises RunStopping when the run ends before the answer comes."""
        if self._calls is None:
            self._calls = CallThread(StopFile(self._query.state.stopping))
        calls = self._calls
        return self._query.backoff(name).retry_until_done(lambda: calls.run(lambda: ask(*given)))

    def _left(self) -> int | None:
        if not self._query.limited:
            return None
        return int(read_json(self._query.state.query(self._query.query) / "limit.json"))

    def _tick(self, start: dict[str, Any], over: bool) -> dict[str, Any]:
        """Move the clock of silent or ended sources past every open window, once per silence."""
        clock = self._read.watermark if self._read else None
        if clock is None or self._ticked:
            return start
        silent = clock.idle_seconds is not None and time.monotonic() - self._moved >= clock.idle_seconds
        if not (over or (self._query.drain if self._query.once else silent)):
            return start
        known = read_numbers(self._query.state.query(self._query.query) / "clock.json")
        if "event_time" not in known:
            return start
        self._ticked = True
        tick = known["event_time"] + round((clock.reach_seconds + clock.late_seconds + 1) * 1e6)
        return start if start.get("tick") == tick else {**start, "tick": tick}

    def parts(self, start: dict[str, Any], end: dict[str, Any]) -> list[Part]:
        """The splits between two offsets, in delivery order."""
        parts: list[Part] = []
        if end.get("tick") is not None and end.get("tick") != start.get("tick"):
            parts.append(Part(0, "", None, end["tick"]))
        for name, source in self._sources.items():
            begun = start["sources"].get(name)
            if begun is None or begun == end["sources"].get(name):
                continue
            for split in self._waiting(name, source.splits, begun, end["sources"][name], end["parallelism"]):
                parts.append(Part(len(parts), name, split, found=end.get("found")))
        return parts

    def commit(self, end: dict[str, Any]) -> None:
        """All sinks of this query hold what was read up to ``end``; sources hear of it when all their readers have begun."""
        for name, source in self._sources.items():
            known = end["sources"].get(name)
            if type(source).commit is Source.commit or known is None or known == self._delivered.get(name):
                continue
            self._delivered[name] = known
            marks = self._query.state.marks(name)
            write_json(marks / f"{self._query.query}-{self._number}.json", known)
            ends = [mark for path in sorted(marks.glob("*.json")) if (mark := read_json(path)) is not None]
            if len(ends) == self._query.readers.get(name, 1):
                self._waiting(name, source.commit, ends)

    # ── Reading, in a worker ──

    def read(self, part: Part) -> Iterator[pa.RecordBatch]:
        """Run the segment over one split: receipts, or events with the receipt put aside for the driver."""
        relay.send(self._query.pipeline)
        staging = self._staging()
        try:
            yield from self._events(part, staging) if self._read else self._receipt(part, staging)
        except RunStopping:
            raise
        except Exception as error:
            report(staging, error)
            raise

    def _receipt(self, part: Part, staging: Path) -> Iterator[pa.RecordBatch]:
        receipt = self._anew(part, staging).run_to_end()
        yield pa.RecordBatch.from_pydict({"receipt": pa.array([receipt.encode()], pa.binary())})

    def _anew(self, part: Part, staging: Path) -> RestartableSegment:
        backoff = Backoff(f"query {self._query.query!r}", StopFile(self._query.state.stopping))
        return RestartableSegment(partial(self._run, part, staging), partial(self._batches, part), backoff)

    def _events(self, part: Part, staging: Path) -> Iterator[pa.RecordBatch]:
        assert self._read is not None
        if part.tick is not None:
            assert self._read.watermark is not None
            yield heartbeat(emitted(self._read), self._read.watermark.field, part.tick)
            return
        whole = self._anew(part, staging)
        yield from whole
        folder = made(staging / "receipts")
        (folder / whole.receipt.split).write_bytes(whole.receipt.encode())

    def _run(self, part: Part, staging: Path) -> SegmentRun:
        assert part.split is not None
        context = SplitContext(
            pipeline=self._query.pipeline,
            source=part.source,
            partition=part.split.partition,
            split=f"{part.name}-{self._number}" if self._number else part.name,
            order=part.order,
            staging_folder=lambda sink: str(made(staging / "sinks" / sink)),
            segment_number=self._number,
            batch=current_batch(self._query),
            stop_file=StopFile(self._query.state.stopping),
            spool_folder=self._query.state.spools,
            ordered=self._sources[part.source].ordered,
        )
        clock = self._read.watermark if self._read else None
        emits = emitted(self._read) if self._read else None
        run = SegmentRun(self._segment, part.source, context, self._query.dead_letters, emits, clock)
        run.receipt.found = part.found
        return run

    def _batches(self, part: Part) -> Iterator[Any]:
        assert part.split is not None
        read = partial(self._sources[part.source].read, part.split)
        return read_with_retries(read, self._query.backoff(part.source))

    def _staging(self) -> Path:
        return self._query.state.staging(self._query.run_id, self._query.query, current_batch(self._query).number)


def emitted(read: Read) -> pa.Schema:
    """The fields a read hands to Spark, without ``_offset``."""
    clock = read.watermark
    if clock is None or clock.field in read.schema.names:
        return read.schema
    return read.schema.append(pa.field(clock.field, pa.timestamp("us", tz="UTC")))


def splits_source(
    query: QueryContext, sources: Mapping[str, Source], segment: Segment, read: Read | None, number: int = 0
) -> type[DataSource]:
    """What Spark reads a query's sources with; ``number`` tells the reads of one query apart, which may share a source. Its
    name is unique in a session, which may run several pipelines: Spark keeps one data source a name."""
    from etl.spark.datasource import data_source

    name = f"sluice_{hashlib.sha256(f'{query.state.root}/{query.query}/{number}/{list(sources)}'.encode()).hexdigest()[:12]}"
    return data_source(name, pickle.dumps(Reader(query, sources, segment, read, number)), spark_schema(read))


def spark_schema(read: Read | None) -> StructType | str:
    """Spark's schema of what the reader yields."""
    if read is None:
        return "receipt binary"
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(emitted(read).append(pa.field("_offset", pa.int64())))
