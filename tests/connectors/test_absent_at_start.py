"""A run whose servers are down at its start: it waits for each with a message, then delivers all events.

One run for all of them, from each system into each, through doors that are shut until the run has said that it waits there.
"""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pymysql
import pytest
from kafka_broker import Broker
from rocketmq_broker import read_all, send_events, source_of, texts
from running import Etl, wait_for
from servers.brokers.kafka_server import Kafka
from servers.brokers.rocketmq_server import RocketMq
from servers.databases.mariadb_server import MariaDb
from servers.relay import Relay
from servers.search.opensearch_server import OpenSearch

from etl.api import OFFSET

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.servers]

PIPELINE = """
name: absent
sources:
  k: {type: kafka, servers: ["<from kafka>"], topics: ["<name>-in"]}
  r: {type: rocketmq, servers: ["<from rocketmq>"], topics: ["<name>-in"]}
  d: {type: database, url: "mysql://<from mariadb>/sluice", user: sluice, password: change-me, table: <table>_in,
      fields: {message: string}}
  e: {type: elasticsearch, urls: ["http://<from opensearch>"], index: <name>-in, fields: {message: string}}
sinks:
  to_k: {from: [k, r, d, e], type: kafka, servers: ["<to kafka>"], topic: <name>-out, value_field: message}
  to_r: {from: [k, r, d, e], type: rocketmq, servers: ["<to rocketmq>"], topic: <name>-out, body_field: message}
  to_d: {from: [k, r, d, e], type: database, url: "mysql://<to mariadb>/sluice", user: sluice, password: change-me,
      table: <table>_out, create: true}
  to_e: {from: [k, r, d, e], type: elasticsearch, urls: ["http://<to opensearch>"], index: <name>-out}
"""
SYSTEMS = ("kafka", "rocketmq", "mariadb", "opensearch")
LINES = ["one", "two", "three"]


@dataclass
class Systems:
    """The servers, each with two relays: one for sources and one for sinks."""

    kafka: Kafka
    rocketmq: RocketMq
    mariadb: MariaDb
    opensearch: OpenSearch
    name: str = field(default_factory=lambda: f"absent-{uuid.uuid4().hex[:8]}")
    doors: dict[str, Relay] = field(default_factory=dict)

    def __post_init__(self) -> None:
        addresses = {name: getattr(self, name).address.removeprefix("http://") for name in SYSTEMS}
        self.doors = {f"{way} {name}": Relay(address) for way in ("from", "to") for name, address in addresses.items()}

    @property
    def pipeline(self) -> str:
        text = PIPELINE.replace("<name>", self.name).replace("<table>", self.table)
        for place, door in self.doors.items():
            text = text.replace(f"<{place}>", door.address)
        return text

    @property
    def table(self) -> str:
        return self.name.replace("-", "_")

    def fill(self) -> None:
        """Write three events to each."""
        broker = Broker(self.kafka)
        for way in ("in", "out"):
            broker.topic(name=f"{self.name}-{way}")
            self.rocketmq.create_topic(f"{self.name}-{way}", 1)
        broker.produce(f"{self.name}-in", [line.encode() for line in LINES])
        sent = pa.RecordBatch.from_pydict({"message": LINES, OFFSET: pa.array(range(len(LINES)), pa.int64())})
        send_events(self.rocketmq, f"{self.name}-in", sent, body_field="message", identity_key=False)
        self.sql(f"CREATE TABLE {self.table}_in (message VARCHAR(20))")
        self.sql(f"INSERT INTO {self.table}_in VALUES ('one'), ('two'), ('three')")
        body = "".join(f'{{"index":{{}}}}\n{json.dumps({"message": line})}\n' for line in LINES)
        self.opensearch.ask("POST", f"/{self.name}-in/_bulk?refresh=true", body.encode(), "application/x-ndjson")

    def found(self) -> dict[str, list[str]]:
        """Return the events that each received."""
        self.opensearch.ask("POST", f"/{self.name}-out/_refresh")
        _, answer = self.opensearch.ask("GET", f"/{self.name}-out/_search?size=100")
        source = source_of(self.rocketmq, f"{self.name}-out")
        return {
            "kafka": sorted(value.decode() for value in Broker(self.kafka).values(f"{self.name}-out")),
            "rocketmq": sorted(texts(read_all(source, len(LINES) * len(SYSTEMS)))),
            "mariadb": sorted(row[0] for row in self.sql(f"SELECT message FROM {self.table}_out")),
            "opensearch": sorted(hit["_source"]["message"] for hit in json.loads(answer)["hits"]["hits"]),
        }

    def sql(self, text: str) -> list[tuple[str]]:
        server = self.mariadb
        login = {"user": server.user, "password": server.password, "database": server.database}
        with pymysql.connect(host=server.host, port=server.port, autocommit=True, **login) as connection:
            cursor = connection.cursor()
            cursor.execute(text)
            return list(cursor.fetchall())


@pytest.fixture
def systems(kafka: Kafka, rocketmq: RocketMq, mariadb: MariaDb, opensearch: OpenSearch) -> Iterator[Systems]:
    with ExitStack() as stack:
        made = Systems(kafka, rocketmq, mariadb, opensearch)
        for door in made.doors.values():
            stack.enter_context(door)
        yield made


def test_a_run_waits_for_missing_servers_and_delivers_all(systems: Systems, etl: Etl) -> None:
    systems.fill()
    log = etl.folder / "err.log"
    words = ("run", str(etl.pipeline(systems.pipeline)), "--once", "--master", "local[2]", "--state", str(etl.folder / "state"))
    with log.open("wb") as err:
        run = subprocess.Popen([sys.executable, "-m", "etl", *words], stdin=subprocess.DEVNULL, stdout=err, stderr=err)
    shut = dict(systems.doors)
    with ExitStack() as stack:
        stack.callback(lambda: run.kill() if run.poll() is None else None)
        while shut:
            shut.pop(_waited_for(run, log, shut)).open()
        assert run.wait(120) == 0, log.read_text()

    assert systems.found() == dict.fromkeys(SYSTEMS, sorted(LINES * len(SYSTEMS)))


def test_a_run_that_requires_health_names_all_missing_servers(systems: Systems, etl: Etl) -> None:
    state = etl.folder / "state"
    ran = etl.here("run", etl.pipeline(systems.pipeline), "--once", "--require-healthy", "--state", state)

    assert ran.status != 0
    assert "starting Spark" not in ran.err
    for door in systems.doors.values():
        assert door.address in ran.err


def _waited_for(run: subprocess.Popen[bytes], log: Path, shut: Mapping[str, Relay]) -> str:
    """Return the first relay for which the run waits."""

    def named() -> list[str]:
        waits = [line for line in log.read_text().splitlines() if "trying again in" in line]
        return [name for name, door in shut.items() if any(door.address in line for line in waits)]

    wait_for(lambda: named() or run.poll() is not None, what=f"a word about one of {', '.join(shut)}")
    assert named(), log.read_text()
    return named()[0]
