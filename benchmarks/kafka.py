"""Kafka: a topic to four fields to JSON lines, a file to a topic, and a topic to another with their delay; seconds of CPU of
ours and of the broker apart, with a plain client on the same broker as the ceiling."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import data
from benchmarks.contenders import PIPELINES, last_event
from benchmarks.folders import ROOT, fresh
from benchmarks.measure import Command
from benchmarks.measure import run as measured
from benchmarks.processes import cpu_of, noted
from benchmarks.results import Result, Row
from benchmarks.settings import Settings

if TYPE_CHECKING:
    from servers.brokers.kafka_server import Kafka

TITLE = "Kafka"
ABOUT = (
    "A broker of Kafka 4.3 shares the machine with `etl run --once` on `local[2]`, which reads a topic of four partitions that "
    "holds lines of OpenSSH, grok of four fields, JSON lines on disk; and which sends a file of the same lines to such a topic, "
    "as JSON. The rate is that of the run without its start; lines and messages are counted afterwards. *Plain client* is "
    "confluent-kafka in one process without anything else: it reads values into a list, and sends lines as they are. Seconds of "
    "CPU are ours with the start of Spark; the broker's have rows of their own. The delay is that of each message from its "
    "making to a reader of committed messages, from a topic through a filter into another, at 5,000 messages a second."
)
MESSAGES = 4_000_000
PARTITIONS = 4
READ_RATE, SEND_RATE, EXACT_RATE = 300_000.0, 200_000.0, 150_000.0
DELAY_MILLIS = 1000.0
RATE = 5_000
SECONDS, WARM_SECONDS = 30.0, 10.0
STEP_SECONDS = 0.02
WAVE = 50_000
"""Messages that a plain client sends before it waits."""


class Broker:
    """The server, and what it has done."""

    def __init__(self, server: Kafka) -> None:
        self.address = server.address
        assert server.process is not None
        self.pid = server.process.pid

    def cpu(self) -> float:
        """CPU seconds so far."""
        return cpu_of(self.pid)

    def topic(self) -> str:
        """A new one."""
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        name, admin = f"bench-{time.monotonic_ns()}", AdminClient({"bootstrap.servers": self.address})
        admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)
        return name

    def reader(self, topic: str, at: int) -> Any:
        """A consumer of all partitions, from an offset on."""
        from confluent_kafka import Consumer, TopicPartition

        conf = {"group.id": "bench", "enable.partition.eof": True, "isolation.level": "read_committed"}
        fast = {"fetch.queue.backoff.ms": 2, "fetch.wait.max.ms": 10}
        consumer = Consumer({"bootstrap.servers": self.address, **conf, **fast})
        consumer.assign([TopicPartition(topic, number, at) for number in range(PARTITIONS)])
        return consumer

    def producer(self) -> Any:
        """A producer as the sink has it."""
        from confluent_kafka import Producer

        conf = {"enable.idempotence": True, "linger.ms": 5, "compression.type": "lz4"}
        return Producer({"bootstrap.servers": self.address, **conf})


def run(settings: Settings) -> Result:
    """Reading, writing, and the delay."""
    rows = {
        "read": Row("Kafka → grok → JSON lines", "events/s", at_least=READ_RATE),
        "at_least_once": Row("lines → Kafka, at least once", "events/s", at_least=SEND_RATE),
        "exactly_once": Row("lines → Kafka, exactly once", "events/s", at_least=EXACT_RATE),
        "client reads": Row("plain client, reading", "events/s"),
        "client sends": Row("plain client, sending", "events/s"),
    }
    costs = {name: Row(f"the broker's CPU: {row.label}", "s per million messages") for name, row in rows.items()}
    delays = {how: Row(f"Kafka → filter → Kafka, {how}, p99 of the delay", "ms", at_most=DELAY_MILLIS) for how in DELIVERIES}
    lines = data.w1(MESSAGES)
    with started() as server:
        broker = Broker(server)
        for _ in range(settings.runs):
            topic = broker.topic()
            with noted(broker.pid, rows["client sends"], costs["client sends"], data.lines_of(lines)):
                send(broker, topic, lines)
            with noted(broker.pid, rows["client reads"], costs["client reads"], data.lines_of(lines)):
                count(broker, topic, data.lines_of(lines))
            by_engine(broker, rows["read"], costs["read"], lines, topic, "")
            for how in DELIVERIES:
                by_engine(broker, rows[how], costs[how], lines, None, how)
        for how, row in delays.items():
            for _ in range(settings.runs):
                delay(broker, row, how)
    return Result("kafka", TITLE, ABOUT, [*rows.values(), *delays.values(), *costs.values()])


DELIVERIES = ("at_least_once", "exactly_once")


def started() -> Kafka:
    """The server of the tests, with a heap for work."""
    sys.path.append(str(ROOT / "tests"))
    from servers.brokers.kafka_server import Kafka

    return Kafka(heap="1g")


def send(broker: Broker, topic: str, lines: Path) -> None:
    """A file's lines into a topic, as they are."""
    producer = broker.producer()
    with lines.open("rb") as file:
        for number, line in enumerate(file, 1):
            producer.produce(topic, line[:-1])
            if number % WAVE == 0:
                producer.flush()
    producer.flush()


def count(broker: Broker, topic: str, messages: int) -> None:
    """Read a topic and forget what came."""
    consumer, left = broker.reader(topic, 0), messages
    while left > 0:
        left -= len([one.value() for one in consumer.consume(20_000, 0.1) if one.error() is None])
    consumer.close()


def by_engine(broker: Broker, row: Row, cost: Row, lines: Path, topic: str | None, how: str) -> None:
    """The engine, from a topic; or to one, where none is given."""
    folder, messages = fresh("kafka"), data.lines_of(lines)
    target = topic or broker.topic()
    reading = {"source.servers": f'["{broker.address}"]', "source.topics": f"[{target}]", "sink.path": str(folder / "out.json")}
    writing = {"sink.servers": f'["{broker.address}"]', "sink.topic": target, "source.path": str(lines), "sink.delivery": how}
    name, overrides = ("kafka", reading) if topic else ("kafka-sink", writing)
    server = broker.cpu()
    spent, _, log = measured(argv(name, overrides, folder, "--once"), folder, every=1.0)
    done = last_event(log, "done")
    if done["events"] != messages:
        raise RuntimeError(f"{done['events']:,} of {messages:,} messages were read")
    row.values.append(messages / float(done["work_seconds"]))
    row.wall.append(float(done["work_seconds"]))
    row.cpu.append(spent.cpu)
    row.pss.append(spent.peak)
    cost.values.append((broker.cpu() - server) / messages * 1e6)
    if topic is None:
        count(broker, target, messages)
    elif (written := _lines(folder / "out.json")) != messages:
        raise RuntimeError(f"{written:,} lines of {messages:,} were written")


def delay(broker: Broker, row: Row, how: str) -> None:
    """How long messages take from one topic to another while `RATE` of them come every second."""
    folder, source, target = fresh("kafka"), broker.topic(), broker.topic()
    servers = f'["{broker.address}"]'
    overrides = {"source.servers": servers, "source.topics": f"[{source}]", "sink.servers": servers, "sink.topic": target}
    with Command(argv("kafka-filter", {**overrides, "sink.delivery": how}, folder), folder, every=1.0) as command:
        millis = _delays(broker, source, target, command)
        command.terminate()
        cost = command.wait(60)
    if cost.code:
        raise RuntimeError(f"exit {cost.code}; see {command.stderr}")
    millis.sort()
    row.values.append(millis[int(len(millis) * 0.99)])
    row.cpu.append(cost.cpu)
    row.pss.append(cost.peak)
    row.remark = f"median {millis[len(millis) // 2]:.0f} ms, most {millis[-1]:.0f} ms"


def _delays(broker: Broker, source: str, target: str, command: Command) -> list[float]:
    """Milliseconds of each message that was made after the run had warmed up, every second one being filtered."""
    producer, consumer = broker.producer(), broker.reader(target, 0)
    found: list[float] = []
    number, warm = 0, None
    began = time.time()
    while warm is None or time.time() < warm + SECONDS + WARM_SECONDS:
        while number < (time.time() - began) * RATE:
            producer.produce(source, b"%.6f %s" % (time.time(), (b"even", b"odd")[number % 2]))
            number += 1
        producer.poll(0)
        came = [one.value() for one in consumer.consume(RATE, STEP_SECONDS) if one.error() is None]
        now = time.time()
        warm = warm or (now if came else None)
        if warm is not None:
            made = (float(value.split()[0]) for value in came)
            found += [(now - at) * 1000 for at in made if at > warm + WARM_SECONDS]
        if command.process.poll() is not None:
            raise RuntimeError(f"the run ended; see {command.stderr}")
    return found


def argv(name: str, overrides: Mapping[str, str], folder: Path, *more: str) -> Sequence[str]:
    """The command."""
    options = [word for path, value in overrides.items() for word in ("--set", f"{path}={value}")]
    run_options = [*more, "--master", "local[2]", "--state", str(folder / "state"), "--log-format", "json"]
    return [sys.executable, "-m", "etl", "run", str(PIPELINES / f"{name}.yaml"), *options, *run_options]


def _lines(file: Path) -> int:
    with file.open("rb") as stream:
        return sum(block.count(b"\n") for block in iter(lambda: stream.read(1 << 22), b""))
