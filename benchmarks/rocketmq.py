"""RocketMQ: a topic to four fields to JSON lines, and a file to a topic; seconds of CPU of ours and of the broker apart."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from benchmarks import data
from benchmarks.contenders import PIPELINES, last_event
from benchmarks.folders import ROOT, fresh
from benchmarks.measure import run as measured
from benchmarks.processes import cpu_of, noted
from benchmarks.results import Result, Row
from benchmarks.settings import Settings
from connectors.rocketmq.sink import RocketmqSink
from connectors.rocketmq.source import RocketmqSource
from etl.api import Limit, Task

if TYPE_CHECKING:
    from servers.brokers.rocketmq_server import RocketMq

TITLE = "RocketMQ"
ABOUT = (
    "A broker of RocketMQ 5.3.3 with its own settings (32 messages an answer) shares the machine with `etl run --once` on "
    "`local[2]`, which reads a topic of four queues that holds lines of OpenSSH, grok of four fields, JSON lines on disk; and "
    "which sends a file of the same lines to a topic, as JSON with their identity as key. The rate is that of the run without "
    "its start; messages are counted by the broker and lines in the file. *alone* is the source in one process without Spark "
    "and the sink likewise. Seconds of CPU are ours with the start of Spark; the broker's have rows of their own."
)
MESSAGES = 2_000_000
SOURCE_RATE = 150_000.0
QUEUES = 4
BLOCK = 50_000
"""Lines written at once when a topic is filled."""

SETTLED_SECONDS = 60.0


class Broker:
    """The server, and what it has done."""

    def __init__(self, server: RocketMq) -> None:
        self.server = server
        assert server.process is not None
        self.pid = server.process.pid

    def cpu(self) -> float:
        """CPU seconds so far."""
        return cpu_of(self.pid)

    def topic(self) -> str:
        """A new one."""
        name = f"bench-{time.monotonic_ns()}"
        self.server.create_topic(name, QUEUES)
        return name

    def holds(self, topic: str) -> int:
        """Messages of a topic."""
        source = RocketmqSource(servers=(self.server.address,), topics=(topic,))
        return int(sum(source.latest(source.start(), Limit(1 << 62))["queues"].values()))

    def settled(self, topic: str, messages: int) -> None:
        """Wait until it lists all that it has stored."""
        until = time.monotonic() + SETTLED_SECONDS
        while (there := self.holds(topic)) < messages:
            if time.monotonic() > until:
                raise RuntimeError(f"the broker holds {there:,} messages of {messages:,}")
            time.sleep(0.05)


def run(settings: Settings) -> Result:
    """Reading and writing, alone and by the engine."""
    rows = {
        "source": Row("RocketMQ → grok → JSON lines", "events/s", at_least=SOURCE_RATE),
        "sink": Row("lines → RocketMQ, as JSON", "events/s"),
        "source alone": Row("the source alone", "events/s"),
        "sink alone": Row("the sink alone", "events/s"),
    }
    costs = {name: Row(f"the broker's CPU: {row.label}", "s per million messages") for name, row in rows.items()}
    lines = data.w1(MESSAGES)
    with started() as server:
        broker = Broker(server)
        for _ in range(settings.runs):
            topic = broker.topic()
            with noted(broker.pid, rows["sink alone"], costs["sink alone"], data.lines_of(lines)):
                fill(server, topic, lines)
            broker.settled(topic, data.lines_of(lines))
            with noted(broker.pid, rows["source alone"], costs["source alone"], data.lines_of(lines)):
                drain(server, topic, data.lines_of(lines))
            by_engine(broker, rows["source"], costs["source"], lines, topic)
            by_engine(broker, rows["sink"], costs["sink"], lines, None)
    return Result("rocketmq", TITLE, ABOUT, [*rows.values(), *costs.values()])


def started() -> RocketMq:
    """The server of the tests, with a heap for work."""
    sys.path.append(str(ROOT / "tests"))
    from servers.brokers.rocketmq_server import RocketMq

    return RocketMq(heap="1g", settings={"mappedFileSizeCommitLog": 256 << 20})


def fill(server: RocketMq, topic: str, lines: Path) -> None:
    """Put a file's lines into a topic, as they are."""
    sink = RocketmqSink(servers=(server.address,), topic=topic, body_field="message", identity_key=False)
    writer = sink.open(Task("bench", "out", "split", "/nowhere", pa.schema([("message", pa.string())])))
    with lines.open() as file:
        while block := [line.rstrip("\n") for line in islice(file, BLOCK)]:
            result = writer.write(pa.record_batch({"message": block}))
            if result.retryable is not None or result.rejected:
                raise RuntimeError(result.cause)
    writer.close()


def drain(server: RocketMq, topic: str, messages: int) -> None:
    """Read a topic and forget what came."""
    source = RocketmqSource(servers=(server.address,), topics=(topic,))
    start = source.start()
    splits = source.splits(start, source.latest(start, Limit(1 << 62)), 1)
    if sum(len(batch) for split in splits for batch in source.read(split) if isinstance(batch, pa.RecordBatch)) != messages:
        raise RuntimeError("the source lost messages")


def by_engine(broker: Broker, row: Row, cost: Row, lines: Path, topic: str | None) -> None:
    """The engine, from a topic; or to one, where none is given."""
    folder, messages = fresh("rocketmq"), data.lines_of(lines)
    address, target = broker.server.address, topic or broker.topic()
    reading = {"source.servers": f'["{address}"]', "source.topics": f"[{target}]", "sink.path": str(folder / "out.json")}
    writing = {"sink.servers": f'["{address}"]', "sink.topic": target, "source.path": str(lines)}
    name, places = ("rocketmq", reading) if topic else ("rocketmq-sink", writing)
    server = broker.cpu()
    spent, _, log = measured(argv(name, places, folder), folder, every=1.0)
    seconds = _done(log, messages)
    row.values.append(messages / seconds)
    row.wall.append(seconds)
    row.cpu.append(spent.cpu)
    row.pss.append(spent.peak)
    cost.values.append((broker.cpu() - server) / messages * 1e6)
    if topic is None:
        broker.settled(target, messages)
    elif (written := _lines(folder / "out.json")) != messages:
        raise RuntimeError(f"{written:,} lines of {messages:,} were written")


def argv(name: str, places: Mapping[str, str], folder: Path) -> Sequence[str]:
    """The command."""
    options = [word for path, value in places.items() for word in ("--set", f"{path}={value}")]
    run_options = ["--once", "--master", "local[2]", "--state", str(folder / "state"), "--log-format", "json"]
    return [sys.executable, "-m", "etl", "run", str(PIPELINES / f"{name}.yaml"), *options, *run_options]


def _done(log: str, messages: int) -> float:
    """Seconds of the run, as it reports them."""
    done = last_event(log, "done")
    if done["events"] != messages:
        raise RuntimeError(f"{done['events']:,} of {messages:,} messages were read")
    return float(done["work_seconds"])


def _lines(file: Path) -> int:
    with file.open("rb") as stream:
        return sum(block.count(b"\n") for block in iter(lambda: stream.read(1 << 22), b""))
