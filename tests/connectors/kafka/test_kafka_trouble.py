"""Kafka that is down, refuses, restarts or loses a topic: clear messages, and no loss."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kafka_broker import EVERYTHING, Broker, events, messages_of, read, task
from running import wait_for
from servers.brokers.kafka_server import Kafka
from servers.certificates import Certificates
from servers.ports import free

from connectors.kafka.sink import KafkaSink
from connectors.kafka.source import KafkaSource
from etl.api import ComponentError, Writer
from etl.delivery.backoff import Backoff, read_with_retries

pytestmark = pytest.mark.servers

EVENTS = events([{"n": number} for number in range(1000)])
NEW = events([{"text": "new"}, {"text": "newer"}])


def source(address: str, topic: str = "t", **options: Any) -> KafkaSource:
    return KafkaSource.model_validate({"type": "kafka", "servers": [address], "topics": [topic], "timeout": "3s", **options})


def sink(address: str, topic: str = "t", **options: Any) -> KafkaSink:
    return KafkaSink.model_validate({"type": "kafka", "servers": [address], "topic": topic, "timeout": "3s", **options})


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Kafka]:
    """A broker that asks for a password and shows a certificate of another name; at other ports it wants a password without
    TLS, and a client's certificate without a password."""
    folder = tmp_path_factory.mktemp("elsewhere")
    own = "listener.name.mutual.ssl"
    settings = {
        f"{own}.keystore.type": "PEM",
        f"{own}.keystore.location": certificates.server.together,
        f"{own}.truststore.type": "PEM",
        f"{own}.truststore.location": certificates.authority,
        f"{own}.client.auth": "required",
    }
    tls = Certificates(folder, names="DNS:elsewhere.example.org")
    with Kafka(sasl="SCRAM-SHA-256", tls=tls, settings=settings, more={"PLAIN": "SASL_PLAINTEXT", "MUTUAL": "SSL"}) as server:
        yield server


def login(server: Kafka, **other: Any) -> dict[str, Any]:
    assert server.tls is not None
    tls = {"authority": str(server.tls.authority), "verify": "authority"}
    return {"user": server.user, "password": server.password, "mechanism": "SCRAM-SHA-256", "tls": tls, **other}


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_a_broker_that_is_absent_is_temporary_and_named(delivery: str) -> None:
    address = f"127.0.0.1:{free(1)[0]}"
    writer = sink(address, delivery=delivery).open(task(None, EVENTS))

    with pytest.raises(ConnectionError, match=f"kafka {address}: .*Connection refused"):
        source(address).start()
    with pytest.raises(ConnectionError, match=f"kafka {address}: .*Connection refused"):
        list(source(address).probe())
    with pytest.raises(ConnectionError, match=f"kafka {address}: .*Connection refused"):
        writer.write(EVENTS)
    writer.abort()


def test_a_wrong_password_ends_the_run_and_is_not_shown(guarded: Kafka) -> None:
    options = login(guarded, password="hunter2")

    for attempt in (source(guarded.address, **options).start, lambda: list(source(guarded.address, **options).probe())):
        with pytest.raises(ComponentError, match="check user, password and mechanism") as raised:
            attempt()
        assert guarded.address in str(raised.value)
        assert "hunter2" not in str(raised.value)


def test_a_certificate_of_another_name_ends_the_run(guarded: Kafka) -> None:
    assert guarded.tls is not None
    options = login(guarded, tls={"authority": str(guarded.tls.authority)})

    with pytest.raises(ComponentError, match=r"check tls\.authority, the server's name"):
        list(sink(guarded.address, **options).open(task(None, EVENTS)).write(EVENTS).rejected)
    with pytest.raises(ComponentError, match="certificate verify failed"):
        source(guarded.address, **options).start()


def let_in(guarded: Kafka, way: str, certificates: Certificates) -> tuple[str, dict[str, Any]]:
    """Return address and options of an authorised client."""
    if way == "SASL_SSL":
        return guarded.address, login(guarded)
    if way == "SASL_PLAINTEXT":
        return guarded.listeners["PLAIN"], {"user": guarded.user, "password": guarded.password, "mechanism": "SCRAM-SHA-512"}
    pair = certificates.client
    tls = {"authority": str(certificates.authority), "certificate": str(pair.certificate), "key": str(pair.key)}
    return guarded.listeners["MUTUAL"], {"tls": tls}


@pytest.mark.parametrize("way", ["SASL_SSL", "SASL_PLAINTEXT", "a client's certificate"])
def test_an_authenticated_client_reads_and_writes(guarded: Kafka, certificates: Certificates, way: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = "".join(filter(str.isalpha, way))
    client = {**guarded.client(), "ssl.endpoint.identification.algorithm": "none", "log_level": 0}
    admin = AdminClient(client)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(120)
    address, options = let_in(guarded, way, certificates)
    options["timeout"] = "30s"
    reader, component = source(address, topic, **options), sink(address, topic, delivery="exactly_once", **options)
    writer = component.open(task(None, EVENTS))
    writer.write(EVENTS)
    writer.close()

    wait_for(lambda: reader.latest(reader.start(), EVERYTHING) != reader.start(), what="the end of the transaction")
    start = reader.start()

    assert len(read(reader, start, reader.latest(start, EVERYTHING))) == 1000
    assert list(component.probe(EVENTS.schema)) == []


def test_a_replaced_cluster_is_an_error(guarded: Kafka, kafka: Kafka) -> None:
    """The topics of the other cluster have other ids, whatever offsets they have."""
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = Broker(kafka).topic()
    Broker(kafka).produce(topic, [b"old"] * 3)
    before = source(kafka.address, topic)
    end = before.latest(before.start(), EVERYTHING)
    admin = AdminClient({**guarded.client(), "ssl.endpoint.identification.algorithm": "none", "log_level": 0})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(120)
    login = {"user": guarded.user, "password": guarded.password, "mechanism": "SCRAM-SHA-512", "timeout": "30s"}
    strict, lenient = (source(guarded.listeners["PLAIN"], topic, on_data_loss=how, **login) for how in ("fail", "earliest"))

    with pytest.raises(ComponentError, match=rf"topic '{topic}' was deleted and created again"):
        Backoff("source").retry_until_done(lambda: strict.latest(end, EVERYTHING))
    assert Backoff("source").retry_until_done(lambda: lenient.latest(end, EVERYTHING)) == end, "nothing is there yet"
    writer = sink(guarded.listeners["PLAIN"], topic, value_field="text", **login).open(task(None, NEW))
    writer.write(NEW)
    again = Backoff("source").retry_until_done(lambda: lenient.latest(end, EVERYTHING))

    assert [row["message"] for row in read(lenient, end, again)] == ["new", "newer"]


def test_a_wrong_password_without_tls_ends_the_run(guarded: Kafka) -> None:
    address = guarded.listeners["PLAIN"]

    with pytest.raises(ComponentError, match=rf"kafka {address}: .*check user, password and mechanism") as raised:
        source(address, user=guarded.user, password="hunter2", mechanism="SCRAM-SHA-512").start()
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("shown", ["none", "of another authority"])
def test_a_client_without_a_known_certificate_gets_a_clear_error(guarded: Kafka, certificates: Certificates, shown: str) -> None:
    assert guarded.tls is not None
    address, pair = guarded.listeners["MUTUAL"], guarded.tls.client
    own = {} if shown == "none" else {"certificate": str(pair.certificate), "key": str(pair.key)}

    with pytest.raises(ComponentError, match=rf"kafka {address}: .*certificate.*tls\.certificate where it wants one"):
        source(address, tls={"authority": str(certificates.authority), **own}).start()


@pytest.mark.slow
def test_a_restart_of_the_broker_loses_nothing() -> None:
    with Kafka() as server:
        broker = Broker(server)
        topic, other = broker.topic(), broker.topic()
        broker.produce(topic, [b"%d" % number for number in range(30_000)])
        reader = source(server.address, topic)
        start = reader.start()
        (split, *_) = reader.splits(start, reader.latest(start, EVERYTHING), 1)
        backoff = Backoff("source 'in'")
        writers = [sink(server.address, other, delivery=how, timeout="60s").open(task(broker, EVENTS)) for how in DELIVERIES]
        for writer in writers:
            writer.write(EVENTS)

        found = read_with_retries(lambda: reader.read(split), backoff)
        rows = messages_of([next(found)])
        server.kill()
        starting = threading.Thread(target=server.start)
        starting.start()
        rows += messages_of(found)
        starting.join()
        for writer in writers:
            assert backoff.retry_until_done(lambda writer=writer: writer.write(EVENTS)).retryable is None
        for writer in writers:
            writer.close()

        assert rows == [f"{number}" for number in range(30_000)]
        assert backoff.retry_until_done(lambda: reader.latest(start, EVERYTHING)) == reader.latest(start, EVERYTHING)
        assert len(broker.values(other)) == 4 * 1000


DELIVERIES = ("at_least_once", "exactly_once")


def test_a_topic_deleted_while_it_is_written_to_ends_the_run(kafka: Kafka) -> None:
    broker = Broker(kafka)
    topic = broker.topic()
    component = sink(broker.address, topic, timeout="5s", properties={"topic.metadata.propagation.max.ms": 1000})
    writer = component.open(task(broker, EVENTS))
    writer.write(EVENTS)

    broker.delete(topic)

    with pytest.raises(ComponentError, match=f"correct the name of the topic|no topic '{topic}'; did you mean"):
        _write_often(writer)


def _write_often(writer: Writer) -> None:
    """Write several times, because the deletion of a topic is noticed after a while."""
    for _ in range(20):
        writer.write(EVENTS)
