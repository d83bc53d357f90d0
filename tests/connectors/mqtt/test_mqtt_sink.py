"""The `mqtt` sink: with a real Mosquitto, read by the client of the Eclipse project, and with a broker that a test plays."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from mqtt_rig import Client, batch_of, create_sink, played, write
from running import wait_for
from servers.brokers.mosquitto_server import Mosquitto, subscribed

from connectors.mqtt import packets, writer
from connectors.mqtt.sink import MqttSink
from etl.api import ComponentError, Rejects


@pytest.fixture(autouse=True)
def own_pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(writer, "POOL", pool := writer._Pool())
    yield
    for idle in pool._idle.values():
        for broker in idle:
            broker.connection.close()


@pytest.mark.parametrize("version", ["5", "3.1.1"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_events_are_messages(mosquitto: Mosquitto, version: str, qos: int) -> None:
    batch = batch_of(text=["a", None, "ü" * 100], host=["h1", "h2", "h3"])
    sink = create_sink(mosquitto.address, topic=f"w/{version}/{qos}/{{host}}", version=version, qos=qos)

    with subscribed(mosquitto, f"w/{version}/{qos}/#") as got:
        result = write(sink, batch)
        wait_for(lambda: len(got) == 3, what="the messages")

    assert result.retryable is None
    assert [(message.topic[-2:], message.payload.decode(), message.qos) for message in got] == [
        ("h1", "a", qos),
        ("h2", "", qos),
        ("h3", "ü" * 100, qos),
    ]


def test_the_payload_is_the_event_as_json_with_properties(mosquitto: Mosquitto) -> None:
    batch = pa.record_batch({"a.b": [1, None], "c": ["x", None], "_offset": [0, 1]})
    options = {"content_type": "application/json", "expiry": "1h", "user_properties": {"c": "sea"}}
    sink = create_sink(mosquitto.address, topic="j/x", payload_field=None, **options)

    with subscribed(mosquitto, "j/#") as got:
        write(sink, batch)
        wait_for(lambda: len(got) == 2, what="the messages")

    assert [json.loads(message.payload) for message in got] == [{"a": {"b": 1}, "c": "x"}, {"a": {"b": None}, "c": None}]
    properties = [message.properties.json() for message in got]
    assert properties[0] == {"ContentType": "application/json", "MessageExpiryInterval": 3600, "UserProperty": [("sea", "x")]}
    assert "UserProperty" not in properties[1]


def test_retained_messages_are_there_for_later_subscribers(mosquitto: Mosquitto) -> None:
    write(create_sink(mosquitto.address, topic="keep/{text}", retain=True), batch_of(text=["x", "y"]))

    with subscribed(mosquitto, "keep/#") as got:
        wait_for(lambda: len(got) == 2, what="the messages")
    assert sorted(message.payload for message in got) == [b"x", b"y"]

    write(create_sink(mosquitto.address, topic="keep/x", retain=True), batch_of(text=pa.array([None], pa.string())))
    with subscribed(mosquitto, "keep/#") as got:
        wait_for(lambda: len(got) == 1, what="the message that is left")
    assert [message.payload for message in got] == [b"y"]


def test_many_messages_of_many_sizes_in_flight(mosquitto: Mosquitto) -> None:
    texts = ["x" * (number % 300) + str(number) for number in range(3000)]
    batch = batch_of(text=texts)

    with subscribed(mosquitto, "m/#") as got:
        for qos in (1, 2):
            assert write(create_sink(mosquitto.address, topic="m/x", qos=qos), batch).retryable is None
        wait_for(lambda: len(got) == 6000, what="the messages")

    assert [message.payload.decode() for message in got] == texts * 2


def codes(rejected: Sequence[Rejects]) -> list[tuple[str, list[Any]]]:
    return [(one.code, one.events.column("_offset").to_pylist()) for one in rejected]


def test_what_no_broker_accepts_is_rejected(mosquitto: Mosquitto) -> None:
    names = ["good", None, "a+b", "#", "n\0", "x" * 70_000]

    result = write(create_sink(mosquitto.address, topic="{text}"), batch_of(text=names))
    properties = create_sink(mosquitto.address, topic="a", payload_field=None, user_properties={"text": "p"})
    long = write(properties, batch_of(text=["x" * 70_000, "y"]))

    assert codes(result.rejected) == [("null-topic", [1]), ("bad-topic", [2, 3, 4]), ("bad-topic", [5])]
    assert codes(long.rejected) == [("properties-too-long", [0])]


def acknowledging(client: Client, count: int, **codes: int) -> None:
    """Answer PUBLISH packets of QoS 1 with codes by their payload."""
    for _ in range(count):
        kind, body = client.packet()
        assert kind == 3
        at = 2 + int.from_bytes(body[:2], "big")
        payload = body[at + 3 :].decode()
        client.sock.sendall(b"\x40\x04" + body[at : at + 2] + bytes([codes.get(payload, 0), 0]))


def test_messages_that_the_broker_refuses(mosquitto: Mosquitto) -> None:
    def script(client: Client) -> None:
        client.welcome(properties=packets.encode_property(packets.RECEIVE_MAXIMUM, 2))
        acknowledging(client, 5, bad=0x90, later=0x97, nobody=0x10)

    with played(script) as address:
        sink = create_sink(address, topic="t/{text}", batch={"max_events": 10})
        result = write(sink, batch_of(text=["a", "bad", "nobody", "later", "b"]))

    assert codes(result.rejected) == [("mqtt-rejected", [1])]
    assert "the topic is not valid" in str(result.rejected[0].reasons)
    assert result.retryable.to_pylist() == [3]
    assert "a quota is exceeded" in result.cause


def test_a_fixed_topic_without_permission_ends_the_run() -> None:
    def script(client: Client) -> None:
        client.welcome()
        acknowledging(client, 1, a=0x87)

    with played(script) as address, pytest.raises(ComponentError, match="refuses a message to 't/a': not authorized"):
        write(create_sink(address), batch_of(text=["a"]))


def test_after_a_lost_connection_the_messages_without_answer_are_written_again(mosquitto: Mosquitto) -> None:
    def script(client: Client) -> None:
        client.welcome()
        acknowledging(client, 2)

    with played(script) as address:
        result = write(create_sink(address), batch_of(text=["a", "b", "c", "d"]))

    assert result.retryable.to_pylist() == [2, 3]
    assert "has closed the connection" in result.cause or "is lost" in result.cause


def test_a_broker_that_is_silent_is_a_temporary_failure() -> None:
    def script(client: Client) -> None:
        client.welcome()
        while True:
            client.packet()

    for qos in (0, 1):
        with played(script) as address, pytest.raises(TimeoutError, match=r"has not (acknowledged|answered)"):
            write(create_sink(address, timeout="50ms", qos=qos), batch_of(text=["a"]))


def test_limits_of_the_broker() -> None:
    limits = packets.encode_property(packets.MAXIMUM_QOS, 1) + packets.encode_property(packets.MAXIMUM_PACKET_SIZE, 100)

    def script(client: Client) -> None:
        client.welcome(properties=limits)
        acknowledging(client, 1)

    with played(script, script) as address:
        with pytest.raises(ComponentError, match="accepts messages with QoS 1 at most: write qos: 1"):
            write(create_sink(address, qos=2), batch_of(text=["a"]))
        result = write(create_sink(address), batch_of(text=["a", "x" * 100]))

    assert codes(result.rejected) == [("event-too-large", [1])]


def test_a_process_keeps_its_connection(mosquitto: Mosquitto) -> None:
    sink = create_sink(mosquitto.address)
    write(sink, batch_of(text=["a"]))
    (idle,) = writer.POOL._idle[sink.settings()]

    write(sink, batch_of(text=["b"]))
    assert writer.POOL._idle[sink.settings()] == [idle]

    idle.connection.sock.shutdown(socket.SHUT_RDWR)
    write(sink, batch_of(text=["c"]))
    (fresh,) = writer.POOL._idle[sink.settings()]
    assert fresh is not idle


def test_a_refused_login_and_no_secret_in_messages() -> None:
    with Mosquitto(login=("sluice", "change-me")) as broker:
        assert write(create_sink(broker.address, user="sluice", password="change-me"), batch_of(text=["a"])).retryable is None
        sink = create_sink(broker.address, user="sluice", password="wrong-word")
        with pytest.raises(ComponentError, match="refuses the connection") as error:
            write(sink, batch_of(text=["a"]))

    assert "wrong-word" not in f"{error.value!r} {sink!r} {sink.settings()!r}"


def test_findings() -> None:
    incoming = pa.schema([("text", pa.string()), ("_offset", pa.int64())])
    sink = MqttSink.model_validate(
        {
            "servers": ["h:1"],
            "topic": "a/{txt}/#",
            "version": "3.1.1",
            "expiry": "1h",
            "payload_field": "nothing",
            "user_properties": {"text": "x" * 70_000},
        }
    )

    found = [(finding.code, finding.path) for finding in sink.check(incoming)]

    assert found == [
        ("unknown-field", ("topic",)),
        ("unknown-field", ("payload_field",)),
        ("bad-topic", ("topic",)),
        ("unused-option", ("expiry",)),
        ("unused-option", ("user_properties",)),
        ("too-long", ("user_properties", "text")),
    ]
    assert list(sink.writes()) == ["mqtt://h:1/a/txt/#"]
    assert create_sink("h:1", qos=0).guaranteed() == "none"
    assert create_sink("h:1", qos=2).guaranteed() == "at least once"
