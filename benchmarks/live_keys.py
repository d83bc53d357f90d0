"""Steps with five million live keys: the state lane without Spark, in a process of its own for each step.

``python -m benchmarks.live_keys KIND KEYS ROWS FOLDER`` is that process; it prints rows a CPU second and bytes a key.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import measure
from benchmarks.folders import fresh
from benchmarks.results import Result, Row
from benchmarks.settings import Settings

TITLE = "Steps with five million live keys"
KEYS, ROWS, BATCH_ROWS = 5_000_000, 1_000_000, 100_000
LOAD_ROWS = 500_000
"""Rows of a micro-batch in which keys are loaded."""

EVENTS_A_SECOND = 10_000
ABOUT = (
    f"{KEYS:,} events of as many addresses are loaded into the state, in micro-batches of {LOAD_ROWS:,}. Then {ROWS:,} events of "
    f"random addresses in micro-batches of {BATCH_ROWS:,} are measured: hashing, look-ups, results, state files with their "
    "merges, and manifests, in one process with one thread, without Spark and without parsing. *Loading* is the micro-batches "
    "that bring new keys."
)
FIRST = 1_795_000_000_000_000
"""The time of the first event, microseconds since the epoch."""

STEPS = {
    "dedupe": "type: dedupe, time: time, keys: [ip], within: 1d, late: 1h",
    "suppress": "type: suppress, time: time, keys: [ip], within: 1d, late: 1h",
    "over": "type: over, time: time, keys: [ip], within: 1d, late: 10s, aggregates: {total: sum(bytes), events: count(*)}",
    "sequence": "type: sequence, time: time, keys: [ip], within: 1d, late: 10s, "
    "events: {small: bytes < 4900, large: bytes >= 4900}, pattern: 'small{3,} then large'",
    "top": "type: top, time: time, keys: [ip], by: bytes, limit: 1, late: 10s",
}
MIN_ROWS_A_SECOND = {"dedupe": 800_000, "suppress": 800_000, "top": 800_000, "over": 300_000, "sequence": 300_000}
PIPELINE = """
name: live-keys
source: {{type: file, path: in.jsonl}}
steps:
  - {{type: json, fields: {{time: timestamp, ip: string, bytes: bigint}}}}
  - {{{step}}}
sink: {{type: discard}}
"""


def run(settings: Settings) -> Result:
    """Each step once."""
    rows = []
    for kind in STEPS:
        speed, loading = Row(kind, "rows/CPU s", at_least=MIN_ROWS_A_SECOND[kind]), Row(f"{kind}, loading", "rows/CPU s")
        size = Row(f"{kind}, bytes a key", "bytes on disk")
        folder = fresh("live-keys")
        argv = [sys.executable, "-m", "benchmarks.live_keys", kind, str(KEYS), str(ROWS), str(folder)]
        cost, out, _ = measure.run(argv, folder)
        found = json.loads(out.splitlines()[-1])
        for row, name in ((speed, "speed"), (loading, "loading"), (size, "bytes")):
            row.values.append(found[name])
        speed.cpu.append(cost.cpu)
        speed.pss.append(cost.peak)
        speed.wall.append(cost.wall)
        print(f"  {kind}: {found}, {cost.peak:.0f} MB", file=sys.stderr, flush=True)
        rows += [speed, loading, size]
    fresh("live-keys")
    return Result("live-keys", TITLE, ABOUT, rows)


class StepRun:
    """The stateful step of a pipeline on the lane, as the driver and the tasks of a run with one task call it."""

    def __init__(self, pipeline: str, folder: Path) -> None:
        from etl.config.loader import load
        from etl.plan.frames import state_graph_of
        from etl.running.planning import RunRequest, planned_run
        from etl.spark.lane.lane_batch import Lane
        from etl.spark.lane.lane_stages import stages_of
        from etl.spark.query_context import QueryContext

        file = folder / "pipeline.yaml"
        file.write_text(pipeline)
        whole = planned_run(load(file), RunRequest(state=str(folder / "state"), master="local[1]"), "local[1]")
        plan = whole.plan.queries[0]
        graph = state_graph_of(plan.frame)
        assert graph is not None
        self.graph = graph
        query = QueryContext(
            pipeline="live-keys",
            query=plan.name,
            run_id="run",
            state=whole.state,
            dead_letters=whole.plan.dead_letters,
            parallelism=1,
            max_batch_bytes=1 << 30,
            durable=False,
            once=True,
        )
        self.lane = Lane(tuple(stages_of(plan)), graph.inputs, query)
        self.number = 0
        _ = self.lane.manifests.seed

    def add(self, events: pa.RecordBatch) -> None:
        """A micro-batch of one split."""
        from etl.api import BatchId
        from etl.receipts import NO_SEGMENT, Receipt
        from etl.spark.lane.lane_batch import run_here
        from etl.spark.lane.operators import operator_of
        from etl.state.row_files import RowWriter

        manifests, stage = self.lane.manifests, self.lane.stages[0]
        watermark = manifests.read(self.number - 1).stage(0).watermark
        writer = RowWriter(operator_of(stage.step, stage.incoming), manifests, f"rows-{self.number:012d}-0-0-000000", watermark)
        for first in range(0, events.num_rows, 1 << 16):
            writer.add(events.slice(first, 1 << 16))
        latest = pc.max(events.column("time")).value
        receipt = Receipt("", "rows", 0, NO_SEGMENT, rows={0: writer.close()}, event_times={0: latest})
        outcome = self.lane.advance(BatchId("query", self.number), [receipt], run_here)
        manifests.write(self.number, outcome.state)
        self.number += 1

    @property
    def bytes(self) -> int:
        """Of the state files in use."""
        return sum(file.bytes for stage in self.lane.manifests.read(self.number - 1).stages for file in stage.files)


def _events(addresses: Iterable[np.ndarray[tuple[int], np.dtype[np.int64]]]) -> Iterator[pa.RecordBatch]:
    """Events of these addresses, micro-batch by micro-batch."""
    number, chance = 0, np.random.default_rng(7)
    for numbers in addresses:
        times = FIRST + (number + np.arange(len(numbers))) * (1_000_000 // EVENTS_A_SECOND)
        names = pa.array(numbers + 10_000_000).cast(pa.string())
        columns = {
            "time": pa.array(times, pa.timestamp("us", "UTC")),
            "ip": names,
            "bytes": pa.array(chance.integers(0, 5000, len(numbers))),
            "_offset": pa.array(number + np.arange(len(numbers))),
        }
        number += len(numbers)
        yield pa.RecordBatch.from_pydict(columns)


def main(kind: str, keys: int, rows: int, folder: Path) -> None:
    """The process that is measured."""
    step, chance = StepRun(PIPELINE.format(step=STEPS[kind]), folder), np.random.default_rng(8)
    loads = [np.arange(first, min(first + LOAD_ROWS, keys)) for first in range(0, keys, LOAD_ROWS)]
    warm = [chance.integers(0, keys, BATCH_ROWS) for _ in range(2)]
    measured = [chance.integers(0, keys, BATCH_ROWS) for _ in range(rows // BATCH_ROWS)]
    used = []
    for events in _events(chain(loads, warm, measured)):
        began = time.process_time()
        step.add(events)
        used.append(time.process_time() - began)
    late = used[1 : len(loads)]
    found = {
        "speed": rows / sum(used[-len(measured) :]),
        "loading": (keys - LOAD_ROWS) / sum(late),
        "bytes": step.bytes / keys,
    }
    print(json.dumps({name: round(value, 1) for name, value in found.items()}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
