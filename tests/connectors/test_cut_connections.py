"""Sinks whose connections are cut at random points: nothing is lost, and nothing is there twice where that is promised.

Each sink writes a few splits through a relay that resets every connection after a random number of bytes, as the engine does:
failed batches are retried, and a split that is lost is written again from its start.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from databases import Database
from fake_http import FakeServer
from kafka_broker import Broker
from lake_writing import batch_of, delta_storage, iceberg_storage, stage
from redis_rig import client_of, create_sink
from running import wait_for
from servers.brokers.kafka_server import Kafka
from servers.brokers.mosquitto_server import Mosquitto, subscribed
from servers.brokers.redis_server import Redis
from servers.databases.clickhouse_server import ClickHouse
from servers.object_store import StoreProcess
from servers.ports import free
from servers.relay import Relay

from connectors.clickhouse.sink import ClickHouseSink
from connectors.http.sink import HttpSink
from connectors.kafka.sink import KafkaSink
from connectors.lake.sink import LakeSink
from connectors.mqtt.sink import MqttSink
from etl.api import IDENTITY, OFFSET, BatchId, Rejects, Retry, Sink, SplitLostError, Task
from etl.delivery.backoff import Backoff
from etl.delivery.sink_writer import SinkWriter

pytestmark = pytest.mark.slow

SPLITS, EVENTS, BATCH = 3, 4000, 250
TEXT = "x" * 100
SOON = {"initial_backoff": "1ms", "max_backoff": "10ms"}
BATCHED = {"batch": {"max_events": BATCH}, "retry": SOON}
EVERY = Counter(range(SPLITS * EVENTS))
MIN_BYTES, MAX_BYTES = 2_000, 400_000
"""When connections are cut. A batch has about 30 kB: some are cut within their first one, others after ten."""


def write(sink: Sink, ordered: bool = True) -> None:
    """Write all splits."""
    names = [f"in-0-{n:020}-{n + 1:020}" if ordered else f"result-{n:06}" for n in range(SPLITS)]
    for number, name in enumerate(names):
        batches = [_events(at) for at in range(number * EVENTS, (number + 1) * EVENTS, BATCH)]
        schema = batches[0].drop_columns([OFFSET, IDENTITY]).schema
        task = Task("p", "out", name, "/nonexistent", schema, BatchId("cut", 1), ordered=ordered)
        while not _write_split(sink, task, batches):
            pass


def _write_split(sink: Sink, task: Task, batches: list[pa.RecordBatch]) -> bool:
    """Write a split; returns False if it is lost, and has to be written again."""
    backoff = Backoff("sink", retry=Retry(initial_backoff=timedelta(milliseconds=1), max_backoff=timedelta(milliseconds=10)))
    writer = SinkWriter("out", sink, sink.open(task), _refuse, backoff=backoff)
    try:
        for batch in batches:
            writer.write(batch)
        writer.close()
    except SplitLostError:
        writer.abort()
        return False
    return True


def _events(first: int) -> pa.RecordBatch:
    numbers = list(range(first, first + BATCH))
    identities = [f"e-{n}" for n in numbers]
    return pa.RecordBatch.from_pydict({"id": numbers, "text": [TEXT] * BATCH, OFFSET: numbers, IDENTITY: identities})


def _refuse(rejects: Rejects) -> None:
    raise AssertionError(f"{rejects.code}: {rejects.reasons}")


@contextmanager
def cutting(target: str, max_bytes: int = MAX_BYTES) -> Iterator[Relay]:
    """Return a relay that has cut connections in the end."""
    draw = random.Random(7)
    with Relay(target, lambda: draw.randint(MIN_BYTES, max_bytes)) as relay:
        relay.open()
        yield relay
        assert relay.cuts


# ── At least once ──


def test_http_requests(tmp_path: Path) -> None:
    server = FakeServer()
    with server.running(), cutting(server.url.removeprefix("http://")) as relay:
        write(HttpSink.model_validate({"type": "http", "urls": [f"http://{relay.address}/in"], **BATCHED}))

    complete = [request for request in server.requests if request.sent == int(request.headers["content-length"])]
    by_key = {request.headers["idempotency-key"]: [event["id"] for event in json.loads(request.body)] for request in complete}
    assert Counter(number for numbers in by_key.values() for number in numbers) == EVERY


@pytest.mark.parametrize("qos", [1, 2])
def test_mqtt_messages(mosquitto: Mosquitto, qos: int) -> None:
    topic = f"cut/{qos}"
    with subscribed(mosquitto, topic) as got, cutting(mosquitto.address) as relay:
        options = {"servers": [relay.address], "topic": topic, "qos": qos, **BATCHED}
        write(MqttSink.model_validate({"type": "mqtt", **options}))
        wait_for(lambda: len({_id(message.payload) for message in [*got]}) == len(EVERY), what="the messages")

    assert {_id(message.payload) for message in got} == set(EVERY)


def _id(payload: bytes | None) -> int:
    return int(json.loads(payload or b"")["id"])


# ── Exactly once ──


@pytest.fixture(scope="module")
def relayed_kafka() -> Iterator[tuple[Kafka, Relay]]:
    """A broker that sends clients of one of its listeners to the relay."""
    broker = Kafka(more={"RELAYED": "PLAINTEXT"})
    with cutting(broker.listeners["RELAYED"]) as relay:
        addresses = {"CLIENTS": broker.address, "INTERNAL": f"127.0.0.1:{broker.internal}", "RELAYED": relay.address}
        broker.settings["advertised.listeners"] = ",".join(f"{name}://{address}" for name, address in addresses.items())
        with broker:
            yield broker, relay


@pytest.mark.servers
@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_kafka_messages(relayed_kafka: tuple[Kafka, Relay], delivery: str) -> None:
    server, relay = relayed_kafka
    broker = Broker(server)
    topic = broker.topic(2)

    options = {"servers": [relay.address], "topic": topic, "delivery": delivery, **BATCHED}
    write(KafkaSink.model_validate({"type": "kafka", **options}))

    found = Counter(_id(value) for value in broker.values(topic))
    assert found == EVERY if delivery == "exactly_once" else found.keys() == EVERY.keys()


def test_redis_entries(redis: Redis) -> None:
    with cutting(f"{redis.host}:{redis.port}") as relay:
        url = redis.url.replace(f"{redis.host}:{redis.port}", relay.address)
        write(create_sink(redis, url=url, key="cut", delivery="exactly_once", **BATCHED))

    assert Counter(int(fields["id"]) for _, fields in client_of(redis).xrange("cut")) == EVERY


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("name", ["mariadb", "postgres"])
def test_rows_of_databases(name: str, ordered: bool, request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue(name)
    login = {"user": server.user, "password": server.password, "table": f"cut_{ordered}".lower()}
    scheme = {"mariadb": "mysql", "postgres": "postgresql"}[name]
    direct = Database({**login, "url": f"{scheme}://{server.address}/{server.database}"}, login["table"])
    direct.clear()

    with cutting(server.address, MAX_BYTES if ordered else 3 * MAX_BYTES) as relay:  # else a split is one transaction
        options = {**direct.options, "url": f"{scheme}://{relay.address}/{server.database}"}
        write(Database(options, direct.table).sink(create=True, **BATCHED), ordered)

    assert Counter(row[0] for row in direct.run("SELECT id FROM {t}")) == EVERY
    direct.clear()


def test_rows_of_clickhouse(clickhouse: ClickHouse) -> None:
    settings = "SETTINGS non_replicated_deduplication_window = 1000"
    clickhouse.rows(f"CREATE TABLE cut (id Int64, text String) ENGINE = MergeTree ORDER BY tuple() {settings}")
    login = {"user": clickhouse.user, "password": clickhouse.password, "table": "cut"}

    with cutting(clickhouse.address.removeprefix("http://")) as relay:
        options = {"urls": [f"http://{relay.address}"], **login, **BATCHED}
        write(ClickHouseSink.model_validate({"type": "clickhouse", **options}))

    assert Counter(int(row["id"]) for row in clickhouse.rows("SELECT id FROM cut")) == EVERY


@pytest.fixture
def relayed_store() -> Iterator[tuple[StoreProcess, str, Callable[[], int]]]:
    """An S3 server, the address of a relay to it, and its cuts: both in processes of their own, because delta-rs holds the
    interpreter's lock while it waits for an answer.
    """
    with StoreProcess() as store:
        store.client().create_bucket(Bucket="lake")
        context = get_context("spawn")
        cuts, (port,) = context.Value("i", 0), free(1)
        relay = context.Process(target=_relay, args=(store.address, port, cuts), daemon=True)
        relay.start()
        yield store, f"127.0.0.1:{port}", lambda: int(cuts.value)
        relay.kill()
        relay.join()


def _relay(target: str, port: int, cuts: Any) -> None:
    draw = random.Random(7)
    relay = Relay(target, lambda: draw.randint(500, 20_000))
    relay.port = port
    relay.open()
    while True:
        cuts.value = relay.cuts
        time.sleep(0.05)


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_tables_of_a_lake(relayed_store: tuple[StoreProcess, str, Callable[[], int]], format_: str, tmp_path: Path) -> None:
    store, address, cuts = relayed_store
    sink = LakeSink.model_validate(_lake_options(format_, address, tmp_path))
    schema = pa.schema([("n", pa.int64())])
    _until_it_works(lambda: sink.prepare(schema))

    for number in range(5):
        batch = batch_of([{"n": number * 100 + n} for n in range(100)], schema)
        staged, _ = _until_it_works(partial(stage, sink, tmp_path, batch, number))
        _until_it_works(partial(sink.committer(str(tmp_path)).commit, BatchId("q1", number), [staged]))

    assert Counter(_numbers(_lake_options(format_, store.address, tmp_path))) == Counter(range(500))
    assert cuts()


def _lake_options(format_: str, address: str, folder: Path) -> dict[str, Any]:
    if format_ == "delta":
        return {"type": "lake", "format": "delta", "table": "s3://lake/delta/cut", "storage": delta_storage(address)}
    catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": "s3://lake/iceberg"}
    return {
        "type": "lake",
        "format": "iceberg",
        "table": "logs.cut",
        "catalog": catalog,
        "storage": iceberg_storage(address),
    }


def _numbers(options: dict[str, Any]) -> list[int]:
    """Read the table without the relay."""
    if options["format"] == "delta":
        from deltalake import DeltaTable

        table = DeltaTable(options["table"], storage_options=options["storage"]).to_pyarrow_table()
    else:
        from pyiceberg.catalog import load_catalog

        table = load_catalog("default", **options["catalog"], **options["storage"]).load_table("logs.cut").scan().to_arrow()
    return list(table.column("n").to_pylist())


def _until_it_works(call: Callable[[], Any]) -> Any:
    """Retry temporary errors, as the engine does."""
    for _ in range(200):
        try:
            return call()
        except OSError:
            continue
    raise AssertionError("it never worked")
