"""Source and sink of RocketMQ with servers of their own, which are stopped, killed and replaced, over TLS."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rocketmq_broker import (
    EVERYTHING,
    events,
    numbered,
    outlet_of,
    read,
    read_all,
    send_events,
    sink_of,
    source_of,
    texts,
    topic_of,
    wait_for_messages,
)
from running import wait_for
from servers import ports
from servers.brokers.rocketmq_server import NEIGHBOURS, RocketMq
from servers.certificates import Certificates

from connectors.rocketmq.source import RocketmqSource
from etl.api import ComponentError, Rejects
from etl.delivery.backoff import Backoff

pytestmark = [pytest.mark.servers, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(certificates: Certificates) -> Iterator[RocketMq]:
    """Two name servers, TLS, messages of 64 KiB at most."""
    with RocketMq(name_servers=2, tls=certificates, settings={"maxMessageSize": 1 << 16}) as running:
        yield running


@pytest.fixture(scope="module")
def tls(certificates: Certificates) -> dict[str, Any]:
    return {"authority": str(certificates.authority)}


def test_missing_servers_are_a_temporary_error_that_names_them() -> None:
    here, there = ports.free(), ports.free()
    places = [f"127.0.0.1:{here[0]}", f"127.0.0.1:{there[0]}"]
    source = RocketmqSource.model_validate({"servers": places, "topics": ["web"]})

    for ask in (source.start, lambda: list(source.probe())):
        with pytest.raises(ConnectionError) as shown_text:
            ask()
        assert all(f"rocketmq {address}: Connection refused" in str(shown_text.value) for address in places)


def test_an_unknown_certificate_ends_the_run(server: RocketMq, tmp_path: Path) -> None:
    topic = topic_of(server)
    stranger = Certificates(tmp_path / "stranger")

    with pytest.raises(ComponentError, match="its certificate is not accepted"):
        source_of(server, topic, tls={"authority": str(stranger.authority)}).start()


def test_a_certificate_of_another_name_ends_the_run(server: RocketMq, tls: dict[str, Any]) -> None:
    _, port = server.address.split(";")[0].split(":")
    source = RocketmqSource.model_validate({"servers": [f"127.1:{port}"], "topics": ["web"], "tls": tls})

    with pytest.raises(ComponentError, match="its certificate is not accepted: Hostname mismatch"):
        source.start()


def test_events_are_written_and_read_over_tls(server: RocketMq, tls: dict[str, Any]) -> None:
    topic = topic_of(server)
    send_events(server, topic, events(300), body_field="message", tls=tls)

    assert texts(read_all(source_of(server, topic, tls=tls), 300)) == numbered(300)


def test_an_event_that_a_broker_refuses_is_found_and_the_others_are_stored(server: RocketMq) -> None:
    """The broker accepts 64 KiB in a request, which the sink does not know."""
    topic = topic_of(server)
    batch = events(200, message=["x" * 70_000 if n == 50 else f"event {n}" + "." * 1000 for n in range(200)])

    rejected = send_events(server, topic, batch, body_field="message")

    assert [(r.code, r.events.column("_offset").to_pylist()) for r in rejected] == [("rocketmq-rejected", [50])]
    found = read_all(source_of(server, topic), 199)
    assert texts(found) == sorted(text for n, text in enumerate(batch.column("message").to_pylist()) if n != 50)


def test_source_and_sink_survive_a_restart_of_the_broker(server: RocketMq, tls: dict[str, Any]) -> None:
    topic = topic_of(server, 1)
    send_events(server, topic, events(100), body_field="message", tls=tls)
    source = source_of(server, topic, tls=tls, discovery="1ms", timeout="3s")
    start = source.start()
    end = wait_for_messages(source, start, 100)
    rejected: list[Rejects] = []
    slept: list[float] = []

    def meanwhile(seconds: float) -> None:
        if not slept:
            server.start()
        slept.append(seconds)

    server.kill()
    with pytest.raises(ConnectionError, match="rocketmq"):
        list(source.read(source.splits(start, end, 1)[0]))
    with pytest.raises(ConnectionError, match="rocketmq"):
        source.latest(end, EVERYTHING)
    sink = sink_of(server, topic, body_field="message", tls=tls, timeout="3s", retry={"attempts": 30})
    sink_writer = outlet_of(sink, events(50), rejected.append, backoff=Backoff("sink", sleep=meanwhile))
    sink_writer.write(events(50))
    sink_writer.close()

    after = taken_when_it_is_back(source, end, 50)
    assert slept
    assert (rejected, sink_writer.delivered.accepted) == ([], 50)
    assert texts(read(source, start, after)) == sorted([*numbered(100), *numbered(50)])


def taken_when_it_is_back(source: RocketmqSource, start: dict[str, Any], count: int) -> dict[str, Any]:
    """Call as the engine does: retry after an OSError."""
    found: list[dict[str, Any]] = []

    def asked() -> bool:
        try:
            found.append(source.latest(start, EVERYTHING))
        except OSError:
            return False
        return sum(found[-1]["queues"].values()) - sum(start["queues"].values()) >= count

    wait_for(asked, what=f"{count} messages")
    return found[-1]


def test_a_broker_replaced_by_an_empty_one_at_another_address(server: RocketMq) -> None:
    topic = topic_of(server, 1)
    send_events(server, topic, events(20), body_field="message")
    source = source_of(server, topic, discovery="1ms", on_data_loss="earliest")
    start = source.start()
    end = wait_for_messages(source, start, 20)

    server.kill()
    shutil.rmtree(server.folder / "store")
    server.port = ports.free_with_neighbours(NEIGHBOURS)
    server.broker = f"{ports.HOST}:{server.port}"
    server.prepare()
    server.start()
    server.create_topic(topic, 1)
    send_events(server, topic, events(3), body_field="message")

    wait_for(lambda: fetch_bounds(source, end) == 3, what="what the new broker holds")
    with pytest.raises(ComponentError, match=r"its topic was created again, or its broker was replaced or lost messages"):
        source_of(server, topic).latest(end, EVERYTHING)
    lost, *rows = read(source, end, source.latest(end, EVERYTHING))
    assert isinstance(lost, Rejects)
    assert (lost.code, texts(rows)) == ("data-lost", numbered(3))


def fetch_bounds(source: RocketmqSource, start: dict[str, Any]) -> int:
    try:
        return int(sum(source.latest(start, EVERYTHING)["queues"].values()))
    except OSError:
        return -1


def test_another_name_server_is_used(server: RocketMq) -> None:
    topic = topic_of(server)
    send_events(server, topic, events(10), body_field="message")

    server.names[0].kill()

    send_events(server, topic, events(10), body_field="message")
    assert texts(read_all(source_of(server, topic), 20)) == sorted([*numbered(10), *numbered(10)])
    fresh = source_of(server, topic, timeout="9s")  # other options: another client, which has asked nobody yet
    assert len(read_all(fresh, 20)) == 20
    assert list(fresh.probe()) == []
    assert list(sink_of(server, topic).probe(pa.schema([]))) == []
