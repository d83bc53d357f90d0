"""A server with 20 pipelines, files and a real Kafka, while pipelines are removed, deployed and changed at random and the server
is killed a minute after it was ready: then every event of every pipeline must be in its output exactly once.

Run it with `make chaos`, MINUTES=10 and RATE=50 events a second of each input.
It prints what it did and ends with 1 if an event is missing or repeated.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from running import wait_for, wait_for_orphans
from servers.brokers.kafka_server import Kafka

KILL_SECONDS = 60.0
"""Seconds from the moment at which a server is ready to its end: on a busy machine it starts for longer than that."""

READY_SECONDS = 300.0
"""Seconds that a server may take to be ready."""

DRAIN_SECONDS = 600.0
"""Seconds for the events that are left when nothing disturbs any more."""

FILES, TOPICS, STREAMS = 8, 6, 3
"""Pipelines from a file, from a topic, and pairs of a publisher and a subscriber."""

STEP = 'steps: [{{type: regex, patterns: ["^(?P<n>[0-9]+)$"]}}]\nsink: {{type: file, path: "{out}"}}\n'


@dataclass
class Chaos:
    folder: Path
    broker: str
    rate: int
    random: random.Random = field(default_factory=lambda: random.Random(21))
    done: Counter[str] = field(default_factory=Counter)
    """What was done, and how often."""
    sent: dict[str, int] = field(default_factory=dict)
    """Output → events of its input."""
    texts: dict[str, str] = field(default_factory=dict)
    """Pipeline → its file."""
    ends: threading.Event = field(default_factory=threading.Event)
    server: subprocess.Popen[bytes] | None = None

    def plan(self) -> None:
        """The files of all pipelines."""
        for number in range(FILES):
            name, out = f"f{number}", self.folder / f"f{number}.jsonl"
            self.texts[name] = f'source: {{type: file, path: "{self.folder}/f{number}.log"}}\n' + STEP.format(out=out)
        for number in range(TOPICS):
            name, out = f"k{number}", self.folder / f"k{number}.jsonl"
            source = f"source: {{type: kafka, servers: ['{self.broker}'], topics: [k{number}]}}\n"
            self.texts[name] = source + STEP.format(out=out)
        for number in range(STREAMS):
            stream = f'type: stream, name: s{number}, folder: "{self.folder}/streams"'
            self.texts[f"p{number}"] = f'source: {{type: file, path: "{self.folder}/p{number}.log"}}\nsink: {{{stream}}}\n'
            source = f"source: {{{stream}, fields: {{message: string}}}}\n"
            self.texts[f"s{number}"] = source + STEP.format(out=self.folder / f"p{number}.jsonl")
        self.sent = dict.fromkeys([*(f"f{n}" for n in range(FILES)), *(f"k{n}" for n in range(TOPICS))], 0)
        self.sent |= dict.fromkeys((f"p{n}" for n in range(STREAMS)), 0)

    def job(self, name: str) -> Path:
        return self.folder / "jobs" / "chaos" / f"{name}.yaml"

    def deploy(self, name: str, version: str = "") -> None:
        fresh = self.folder / f"{name}.new"
        fresh.write_text(f"description: version {version}\n{self.texts[name]}")
        fresh.replace(self.job(name))

    def produce(self) -> None:
        """Append to files and send to topics, until the end."""
        producer = Producer({"bootstrap.servers": self.broker, "enable.idempotence": True, "linger.ms": 50})
        share = max(1, self.rate // 5)
        while not self.ends.wait(0.2):
            for name, first in self.sent.items():
                numbers = range(first, first + share)
                if name.startswith("k"):
                    for number in numbers:
                        producer.produce(name, str(number).encode())
                    producer.poll(0)
                else:
                    with (self.folder / f"{name}.log").open("a") as file:
                        file.writelines(f"{number}\n" for number in numbers)
                self.sent[name] = first + share
        producer.flush(60)

    def disturb(self) -> None:
        """Remove and deploy pipelines at random, until the end; then all are deployed."""
        while not self.ends.wait(self.random.uniform(2, 8)):
            name = self.random.choice([*self.texts])
            if self.job(name).exists() and self.random.random() < 0.5:
                self.job(name).unlink()
                self.done["removals"] += 1
            else:
                self.deploy(name, str(self.done.total()))
                self.done["deployments"] += 1
        for name in self.texts:
            if not self.job(name).exists():
                self.deploy(name)

    def start_server(self) -> None:
        words = ["serve", "jobs", "--listen", "0", "--state", "state", "--master", "local[2]"]
        with (self.folder / "serve.log").open("a") as log:
            self.server = subprocess.Popen([sys.executable, "-m", "etl", *words], cwd=self.folder, stdout=log, stderr=log)

    def wait_until_ready(self) -> None:
        """Wait for the server that was started last."""
        log, starts = self.folder / "serve.log", self.done["servers that were ready"] + 1
        wait_for(lambda: log.read_text().count("ready: ") >= starts, READY_SECONDS, "ready")
        self.done["servers that were ready"] = starts

    def kill_server(self) -> None:
        assert self.server is not None
        self.server.kill()
        self.server.wait()
        with suppress(AssertionError):
            wait_for_orphans(self.folder)

    def outputs(self) -> dict[str, Counter[int]]:
        found = {}
        for name in self.sent:
            path = self.folder / f"{name}.jsonl"
            lines = path.read_text().splitlines() if path.exists() else []
            found[name] = Counter(int(json.loads(line)["n"]) for line in lines)
        return found

    def missing_and_repeated(self) -> tuple[int, int]:
        found = self.outputs()
        missing = sum(len(range(sent)) - sum(n in found[name] for n in range(sent)) for name, sent in self.sent.items())
        return missing, sum(count - 1 for numbers in found.values() for count in numbers.values())


def main(minutes: float, rate: int = 50) -> int:
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    (folder / "jobs" / "chaos").mkdir(parents=True)
    with Kafka() as kafka:
        chaos = Chaos(folder, kafka.address, rate)
        chaos.plan()
        admin = AdminClient({"bootstrap.servers": kafka.address})
        for created in admin.create_topics([NewTopic(f"k{n}", 2, 1) for n in range(TOPICS)]).values():
            created.result()
        for name in chaos.texts:
            chaos.deploy(name)
        threads = [threading.Thread(target=chaos.produce), threading.Thread(target=chaos.disturb)]
        began = time.monotonic()
        chaos.start_server()
        for thread in threads:
            thread.start()
        while time.monotonic() - began < minutes * 60:
            chaos.wait_until_ready()
            time.sleep(KILL_SECONDS)
            chaos.kill_server()
            chaos.done["kills of the server"] += 1
            chaos.start_server()
            sums = f"of {sum(chaos.sent.values()):,} events missing, repeated: {chaos.missing_and_repeated()}"
            print(f"{time.monotonic() - began:.0f} s: {dict(chaos.done)}, {sums}", flush=True)
        chaos.ends.set()
        for thread in threads:
            thread.join()
        until = time.monotonic() + DRAIN_SECONDS
        while time.monotonic() < until and chaos.missing_and_repeated()[0]:
            time.sleep(3)
        assert chaos.server is not None
        chaos.server.terminate()
        chaos.server.wait(180)
        missing, repeated = chaos.missing_and_repeated()
        text = f"{sum(chaos.sent.values()):,} events in {len(chaos.sent)} outputs of {len(chaos.texts)} pipelines"
        print(f"{minutes:g} minutes, {dict(chaos.done)}: {text}: {missing} missing, {repeated} repeated; in {folder}", flush=True)
        return int(bool(missing or repeated))


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), *map(int, sys.argv[2:])))
