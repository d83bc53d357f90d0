"""The `mqtt` source: with a real Mosquitto, and with a broker that a test plays where one must die at a certain packet."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from mqtt_rig import Client, create_source, messages, played, publish, publish_packet, rows
from running import wait_for
from servers import ports
from servers.brokers.mosquitto_server import Mosquitto
from servers.certificates import Certificates
from source_events import receiving

from connectors.mqtt import packet_ids, packets, receiver, release_commits, session_commits
from connectors.mqtt.connection import RefusedError, connect_until
from connectors.mqtt.packet_ids import PacketIds
from connectors.mqtt.packets import Login
from connectors.shared.journal.reader import Journal
from connectors.shared.journal.writer import JournalWriter
from etl.api import ComponentError

OLD_AND_NEW = pytest.mark.parametrize("version", ["5", "3.1.1"])


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker, and a disk that is full, are tried again soon."""
    monkeypatch.setattr(receiver, "_FIRST_PAUSE_SECONDS", 0.1)
    monkeypatch.setattr(session_commits, "RETRY_SECONDS", 0.02)


def stored(source: Any) -> int:
    return sum(span.events for span in Journal(source._folder).walk(0))


def wait_stored(source: Any, count: int) -> None:
    wait_for(lambda: stored(source) >= count, what=f"{count} events in the journal")


@OLD_AND_NEW
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_become_events_with_their_topic(mosquitto: Mosquitto, tmp_path: Path, version: str, qos: int) -> None:
    topic = f"t/{version}/{qos}"
    source = create_source(tmp_path, mosquitto.address, topics=[f"t/{version}/+"], version=version, qos=2)

    with receiving(source):
        publish(mosquitto.address, ["one", "", "ends\r\n", "ü"], topic=topic, version=version, qos=qos)
        wait_stored(source, 4)

    found = rows(source)
    assert [row["message"] for row in found] == ["one", "", "ends\r\n", "ü"]
    assert {(row["mqtt.topic"], row["mqtt.qos"], row["mqtt.retain"]) for row in found} == {(topic, qos, False)}
    assert {(row["log.source.address"], row["log.source.port"]) for row in found} == {("127.0.0.1", mosquitto.port)}
    assert abs(found[0]["event.created"].timestamp() - time.time()) < 60
    assert len({row["_offset"] for row in found}) == 4


def test_properties_of_mqtt_5_are_fields(mosquitto: Mosquitto, tmp_path: Path) -> None:
    source = create_source(tmp_path, mosquitto.address, topics=["p/#"])

    with receiving(source):
        publish(mosquitto.address, ["a"], topic="p/a", content_type="text/plain", user_properties={"text": "copy"})
        publish(mosquitto.address, ["b"], topic="p/a")
        wait_stored(source, 2)

    found = [(row["message"], row["mqtt.content_type"], row["mqtt.user_properties"]) for row in rows(source)]
    assert found == [("a", "text/plain", '{"copy":"a"}'), ("b", None, None)]


def test_properties_with_several_values_and_bytes(tmp_path: Path) -> None:
    block = b"".join(packets.encode_property(packets.USER_PROPERTY, ("n", value)) for value in ("1", "2", "3"))
    block += packets.encode_property(packets.CORRELATION_DATA, b"\0\xff") + packets.encode_property(packets.RESPONSE_TOPIC, "r/t")

    def script(client: Client) -> None:
        client.welcome()
        client.subscribe()
        client.sock.sendall(publish_packet(b"x", 0, 0, properties=block))
        client.packet()

    with played(script) as address:
        source = create_source(tmp_path, address)
        with receiving(source):
            wait_stored(source, 1)

    (row,) = rows(source)
    assert row["mqtt.user_properties"] == '{"n":["1","2","3"]}'
    assert (row["mqtt.correlation_data"], row["mqtt.response_topic"]) == ("00ff", "r/t")


def test_bytes_stay_bytes_in_binary_format(mosquitto: Mosquitto, tmp_path: Path) -> None:
    source = create_source(tmp_path, mosquitto.address, topics=["b/#"], format="binary")

    with receiving(source):
        publish(mosquitto.address, [b"\0\xff\n", b""], topic="b/a")
        wait_stored(source, 2)

    assert messages(source) == [b"\0\xff\n", b""]


@OLD_AND_NEW
@pytest.mark.parametrize(("retained", "expected"), [(True, ["old", "new"]), (False, ["new"])])
def test_retained_messages(mosquitto: Mosquitto, tmp_path: Path, version: str, retained: bool, expected: list[str]) -> None:
    topic = f"r/{version}/{retained}"
    publish(mosquitto.address, ["old"], topic=topic, retain=True)
    source = create_source(tmp_path, mosquitto.address, topics=[topic], version=version, retained=retained)

    with receiving(source):
        publish(mosquitto.address, ["new"], topic=topic)
        wait_for(lambda: "new" in messages(source), what="the new message")

    found = rows(source)
    assert [row["message"] for row in found] == expected
    assert [row["mqtt.retain"] for row in found] == [row["message"] == "old" for row in found]


def test_the_broker_keeps_messages_while_no_run_receives(mosquitto: Mosquitto, tmp_path: Path) -> None:
    source = create_source(tmp_path, mosquitto.address, topics=["k/#"])
    with receiving(source):
        publish(mosquitto.address, ["first"], topic="k/a")
        wait_stored(source, 1)

    publish(mosquitto.address, ["meanwhile"], topic="k/a")
    with receiving(source):
        wait_for(lambda: len(messages(source)) == 2, what="the second message")

    assert messages(source) == ["first", "meanwhile"]


@OLD_AND_NEW
def test_a_clean_start_skips_what_was_published_meanwhile(mosquitto: Mosquitto, tmp_path: Path, version: str) -> None:
    source = create_source(tmp_path, mosquitto.address, topics=[f"c/{version}"], clean_start=True, version=version)
    with receiving(source):
        publish(mosquitto.address, ["first"], topic=f"c/{version}")
        wait_stored(source, 1)

    publish(mosquitto.address, ["meanwhile"], topic=f"c/{version}")
    with receiving(source):
        publish(mosquitto.address, ["last"], topic=f"c/{version}")
        wait_for(lambda: messages(source)[-1] == "last", what="the last message")

    assert messages(source) == ["first", "last"]


@OLD_AND_NEW
def test_a_topic_that_is_removed_is_unsubscribed(mosquitto: Mosquitto, tmp_path: Path, version: str) -> None:
    a, b = f"u/{version}/a", f"u/{version}/b"
    with receiving(create_source(tmp_path, mosquitto.address, topics=[a, b], version=version)):
        pass

    source = create_source(tmp_path, mosquitto.address, topics=[b], version=version)
    with receiving(source):
        publish(mosquitto.address, ["no longer"], topic=a)
        publish(mosquitto.address, ["yes"], topic=b)
        wait_stored(source, 1)

    assert messages(source) == ["yes"]


@OLD_AND_NEW
def test_a_shared_subscription_divides_messages(mosquitto: Mosquitto, tmp_path: Path, version: str) -> None:
    topics = [f"$share/group/s/{version}/#"]
    pair = [create_source(tmp_path / name, mosquitto.address, topics=topics, version=version) for name in "ab"]
    texts = [str(number) for number in range(40)]

    with receiving(pair[0]), receiving(pair[1]):
        publish(mosquitto.address, texts, topic=f"s/{version}/x")
        wait_for(lambda: sum(map(stored, pair)) == 40, what="all messages")

    parts = [messages(source) for source in pair]
    assert all(parts)
    assert sorted(parts[0] + parts[1], key=int) == texts


def test_a_message_that_is_too_long_is_a_dead_letter(mosquitto: Mosquitto, tmp_path: Path) -> None:
    source = create_source(tmp_path, mosquitto.address, topics=["l/#"], max_message_bytes=1000, qos=2)

    with receiving(source):
        publish(mosquitto.address, ["before", "x" * 100_000, "after"], topic="l/a", qos=2)
        wait_stored(source, 3)

    found = rows(source)
    assert sorted(row["message"] for row in found if "code" not in row) == ["after", "before"]
    ((code, reason, text),) = [(row["code"], row["reason"], row["message"]) for row in found if "code" in row]
    assert code == "message-too-long"
    assert "more than max_message_bytes" in reason
    assert text == "x" * (64 << 10)


@pytest.mark.slow
def test_tls_and_a_login(certificates: Certificates, tmp_path: Path) -> None:
    with Mosquitto(tls=certificates, login=("sluice", "change-me")) as broker:
        tls = {"authority": str(certificates.authority)}
        options = {"user": "sluice", "password": "change-me", "tls": tls}
        source = create_source(tmp_path, f"localhost:{broker.port}", **options)
        with receiving(source):
            publish(f"localhost:{broker.port}", [f"secret {number}" for number in range(2000)], **options)
            wait_stored(source, 2000)
        assert messages(source)[-1] == "secret 1999"

        for wrong, message in (
            ({**options, "password": "wrong-word"}, "refuses the connection: "),
            ({**options, "tls": {}}, "the certificate of localhost:.* is not accepted: .*(self-signed|unable to get)"),
        ):
            with pytest.raises(ComponentError, match=message) as error:
                create_source(tmp_path, f"localhost:{broker.port}", **wrong).receiver().start()
            assert "wrong-word" not in repr(error.value)
            with pytest.raises(ComponentError, match=message):
                list(create_source(tmp_path, f"localhost:{broker.port}", **wrong).probe())


def test_a_broker_that_is_down_is_named_and_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (port,) = ports.free()
    source = create_source(tmp_path, f"127.0.0.1:{port}")
    with caplog.at_level(logging.WARNING), receiving(source):
        assert f"mqtt: no connection to 127.0.0.1:{port}: Connection refused; retrying" in caplog.text
        with Mosquitto(port=port) as broker:
            wait_for(lambda: "connected to" in caplog.text, what="the connection")
            publish(broker.address, ["late"])
            wait_stored(source, 1)
    assert messages(source) == ["late"]


def test_a_source_whose_broker_is_silent_stops_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while its name, TCP or TLS is waited for, where nothing can be interrupted."""
    silent = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        source = create_source(tmp_path, f"127.0.0.1:{listener.getsockname()[1]}", timeout="100ms")
        receiver = source.receiver()
        receiver.start()
        monkeypatch.setattr("connectors.mqtt.connection._open", lambda *_: silent.wait())
        wait_for(lambda: any(thread.name == "mqtt connect" for thread in threading.enumerate()), what="another attempt")
        begun = time.monotonic()
        receiver.stop()

    assert time.monotonic() - begun < 60, "the attempt has no end"
    silent.set()


def test_an_attempt_that_is_given_up_does_not_log_in(tmp_path: Path) -> None:
    stopping = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        settings = create_source(tmp_path, f"127.0.0.1:{listener.getsockname()[1]}").settings()
        stopping.set()

        assert connect_until(stopping, settings, Login("a", True, True, 60, None, None)) is None
        listener.settimeout(60)
        accepted, _ = listener.accept()
        with accepted:
            accepted.settimeout(60)
            assert accepted.recv(100) == b""


def test_something_else_than_a_broker_is_named(tmp_path: Path) -> None:
    def script(client: Client) -> None:
        client.packet()
        client.sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with played(script) as address, pytest.raises(OSError, match="is this an MQTT broker"):
        list(create_source(tmp_path, address).probe())


@pytest.mark.parametrize(
    ("code", "error", "message"),
    [
        (0x87, RefusedError, "not authorized"),
        (0x84, RefusedError, "does not support this version"),
        (0x89, OSError, "the server is busy"),
    ],
)
def test_a_refused_connection_says_why(tmp_path: Path, code: int, error: type[Exception], message: str) -> None:
    properties = packets.encode_property(packets.REASON_TEXT, "because")

    with (
        played(lambda client: client.welcome(code=code, properties=properties) and None) as address,
        pytest.raises(error, match=f"refuses the connection: .*{message}.*'because'"),
    ):
        list(create_source(tmp_path, address).probe())


def test_a_refused_subscription_ends_the_run_at_its_start(tmp_path: Path) -> None:
    def script(client: Client) -> None:
        client.welcome()
        _, body = client.packet()
        client.sock.sendall(b"\x90\x04" + body[:2] + b"\0\x87")
        client.packet()

    with played(script) as address, pytest.raises(ComponentError, match=r"refuses the subscription to 't/#': not authorized"):
        create_source(tmp_path, address).receiver().start()


def answered(client: Client, count: int) -> list[tuple[int, int]]:
    """The types and packet identifiers of the next packets."""
    found = []
    for _ in range(count):
        kind, body = client.packet()
        found.append((kind, int.from_bytes(body[:2], "big")))
    return found


def test_a_message_of_qos_2_that_comes_again_is_stored_once(tmp_path: Path) -> None:
    answers: list[tuple[int, int]] = []

    def first(client: Client) -> None:
        client.welcome()
        client.subscribe()
        client.sock.sendall(publish_packet(b"a", 7, 4) + publish_packet(b"b", 8, 4))
        answers.extend(answered(client, 2))  # the connection ends: as if the broker had not got them

    def second(client: Client) -> None:
        client.welcome(has_session=True)
        client.subscribe()
        client.sock.sendall(publish_packet(b"a", 7, 4 | 8) + publish_packet(b"b", 8, 4 | 8))
        answers.extend(answered(client, 2))
        client.sock.sendall(b"\x62\x02\0\x07\x62\x02\0\x08")
        answers.extend(answered(client, 2))
        client.sock.sendall(publish_packet(b"c", 7, 4))  # the identifier is free again
        answers.extend(answered(client, 1))
        client.packet()

    with played(first, second) as address:
        source = create_source(tmp_path, address, qos=2)
        with receiving(source):
            wait_stored(source, 3)

    assert messages(source) == ["a", "b", "c"]
    assert answers == [(5, 7), (5, 8), (5, 7), (5, 8), (7, 7), (7, 8), (5, 7)]


def test_packet_identifiers_survive_the_end_of_the_process(tmp_path: Path) -> None:
    """Stored without an entry in the file of identifiers, as after a kill between the two: the journal has them."""

    def script(client: Client) -> None:
        client.welcome(has_session=True)
        client.subscribe()
        client.sock.sendall(publish_packet(b"a", 7, 4 | 8) + publish_packet(b"new", 9, 4 | 8))
        client.packet()
        client.packet()

    def earlier(client: Client) -> None:
        client.welcome()
        client.subscribe()
        client.sock.sendall(publish_packet(b"a", 7, 4))
        client.packet()
        client.packet()

    with played(earlier, script) as address:
        source = create_source(tmp_path, address, qos=2, client_id="c")
        path = tmp_path / "journal" / packet_ids.FILE_NAME
        receiver = source.receiver()
        receiver.start()
        before = path.read_bytes()
        wait_stored(source, 1)
        receiver.stop()
        path.write_bytes(before + b'{"at": 1')  # and a torn entry
        with receiving(source):
            wait_stored(source, 2)

    assert messages(source) == ["a", "new"]


def test_identifiers_of_another_session_mean_nothing(tmp_path: Path) -> None:
    def script(client: Client) -> None:
        client.welcome()
        client.subscribe()
        client.sock.sendall(publish_packet(b"x", 7, 4 | 8))
        client.packet()
        client.packet()

    with played(script, script) as address:
        source = create_source(tmp_path, address, qos=2)
        for count in (1, 2):
            with receiving(source):
                wait_stored(source, count)

    assert messages(source) == ["x", "x"]


def test_damage_ends_a_connection_and_not_the_source(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def damaged(client: Client) -> None:
        client.welcome()
        client.subscribe()
        client.sock.sendall(publish_packet(b"a", 0, 0) + b"\x36\x05\0\x01t\0\x01")
        client.packet()

    def good(client: Client) -> None:
        client.welcome(has_session=True)
        client.subscribe()
        client.sock.sendall(publish_packet(b"b", 0, 0) + b"\xe0\x01\x8e")
        client.packet()

    with caplog.at_level(logging.WARNING), played(damaged, good) as address:
        source = create_source(tmp_path, address)
        with receiving(source):
            wait_for(lambda: "another client" in caplog.text, what="the end of the second connection")

    assert "a packet is damaged (first byte 0x36)" in caplog.text
    assert "ends the connection: another client has connected with the same client_id" in caplog.text
    assert messages(source) == ["a", "b"]


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the journal is full: a list with one entry."""
    state = [True]
    monkeypatch.setattr(JournalWriter, "has_space", lambda self: not state[0])
    return state


def test_nothing_is_acknowledged_while_the_journal_is_full(tmp_path: Path, full: list[bool]) -> None:
    acknowledged: list[float] = []

    def script(client: Client) -> None:
        client.welcome()
        client.subscribe()
        client.sock.sendall(publish_packet(b"a", 7, 2))
        kind, _ = client.packet()
        assert kind == 12  # a ping: the connection stays open
        full[0] = False
        opened = time.monotonic()
        while client.packet()[0] != 4:
            pass
        acknowledged.append(time.monotonic() - opened)
        client.packet()

    with played(script) as address:
        source = create_source(tmp_path, address, keep_alive="1s")
        with receiving(source):
            wait_stored(source, 1)
            wait_for(lambda: bool(acknowledged), what="the acknowledgement")

    assert messages(source) == ["a"]


def test_a_full_disk_of_identifiers_delays_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, failures = os.write, [OSError(28, "No space left on device")]

    def failing(file: int, data: bytes) -> int:
        if data.startswith(b'{"at"') and failures:
            raise failures.pop()
        return write(file, data)

    def script(client: Client) -> None:
        client.welcome()
        client.subscribe()
        client.sock.sendall(publish_packet(b"a", 7, 4))
        assert answered(client, 1) == [(5, 7)]
        assert not failures
        client.packet()

    monkeypatch.setattr(packet_ids.os, "write", failing)
    with played(script) as address:
        source = create_source(tmp_path, address, qos=2)
        with receiving(source):
            wait_for(lambda: not failures, what="a failed write")
            wait_stored(source, 1)

    assert messages(source) == ["a"]


def qos_2_messages(client: Client, count: int) -> None:
    """Send messages of QoS 2, and wait for PUBREC."""
    client.welcome()
    client.subscribe()
    client.sock.sendall(b"".join(publish_packet(b"m%d" % number, number, 4) for number in range(1, count + 1)))
    assert answered(client, count) == [(5, number) for number in range(1, count + 1)]


def release_packet(number: int) -> bytes:
    return b"\x62\x02" + number.to_bytes(2, "big")


def test_releases_that_come_one_by_one_share_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count, syncs, done = 2000, list[int](), threading.Event()

    def slow_sync(ids: PacketIds, file: int) -> None:
        os.close(file)
        syncs.append(file)
        time.sleep(0.02)

    def script(client: Client) -> None:
        qos_2_messages(client, count)
        client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number in range(1, count + 1):
            client.sock.sendall(release_packet(number))
        assert answered(client, count) == [(7, number) for number in range(1, count + 1)]
        done.set()
        client.packet()

    monkeypatch.setattr(PacketIds, "_sync", slow_sync)
    with played(script) as address:
        source = create_source(tmp_path, address, qos=2)
        with receiving(source):
            wait_for(done.is_set, what="PUBCOMP for each release")

    assert 0 < len(syncs) < count / 4


def test_messages_are_stored_while_releases_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_end, answers = threading.Event(), threading.Event(), list[tuple[int, int]]()

    def waiting_sync(ids: PacketIds, file: int) -> None:
        os.close(file)
        begun.set()
        assert may_end.wait(100)

    def script(client: Client) -> None:
        qos_2_messages(client, 1)
        client.sock.sendall(release_packet(1))
        assert begun.wait(100)
        client.sock.sendall(publish_packet(b"m2", 2, 4))
        answers.extend(answered(client, 1))
        may_end.set()
        answers.extend(answered(client, 1))
        client.packet()

    monkeypatch.setattr(PacketIds, "_sync", waiting_sync)
    with played(script) as address:
        source = create_source(tmp_path, address, qos=2)
        with receiving(source):
            wait_for(lambda: len(answers) == 2, what="both answers")

    assert answers == [(5, 2), (7, 1)]
    assert messages(source) == ["m1", "m2"]


def test_a_release_that_cannot_be_recorded_is_not_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    release, failures, done = PacketIds.release, [OSError(28, "No space left on device")], threading.Event()

    def failing(ids: PacketIds, released: Any) -> None:
        if failures:
            raise failures.pop()
        release(ids, released)

    def script(client: Client) -> None:
        qos_2_messages(client, 1)
        client.sock.sendall(release_packet(1))
        assert answered(client, 1) == [(7, 1)]
        assert not failures
        done.set()
        client.packet()

    monkeypatch.setattr(PacketIds, "release", failing)
    monkeypatch.setattr(release_commits, "RETRY_SECONDS", 0.02)
    with played(script) as address:
        source = create_source(tmp_path, address, qos=2)
        with receiving(source):
            wait_for(done.is_set, what="PUBCOMP")

    assert "mqtt: releases cannot be written; retrying: No space left on device" in caplog.text


def test_findings(tmp_path: Path) -> None:
    source = create_source(
        tmp_path, "localhost", topics=["a#", "b", "b"], version="3.1.1", session_expiry="1h", password="x", tls={"key": "k"}
    )

    found = [(finding.code, finding.path) for finding in source.check()]

    assert found == [
        ("bad-port", ("servers", 0)),
        ("missing-user", ("password",)),
        ("no-certificate", ("tls", "key")),
        ("bad-topic", ("topics", 0)),
        ("duplicate-topic", ("topics", 2)),
        ("unused-option", ("session_expiry",)),
    ]


def test_what_a_sink_writes_is_read(tmp_path: Path) -> None:
    source = create_source(tmp_path, "h:1883", topics=["$share/g/alerts/#"])

    assert source.reads("mqtt://h:1883/alerts/host.name")
    assert not source.reads("mqtt://h:1883/other")
    assert not source.reads("mqtt://g:1883/alerts/a")
