"""The Kafka source against a real broker."""

from __future__ import annotations

import json
import logging
import time
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from kafka_broker import EVERYTHING, Broker, everything, read
from running import wait_for
from servers.brokers.kafka_server import Kafka

from connectors.kafka import topics
from connectors.kafka.consumer_groups import fetch_committed
from connectors.kafka.source import KafkaSource
from etl.api import Backlog, ComponentError, Limit, Rejects

pytestmark = pytest.mark.servers


@pytest.fixture
def broker(kafka: Kafka) -> Broker:
    return Broker(kafka)


def source(broker: Broker, *topics: str, **options: Any) -> KafkaSource:
    given = {"type": "kafka", "servers": [broker.address], "discovery": "1ms", **options}
    return KafkaSource.model_validate(given if "pattern" in options else {**given, "topics": topics})


def messages(rows: list[dict[str, Any]]) -> list[Any]:
    return [row["message"] for row in rows]


def test_values_are_text_and_offsets_those_of_kafka(broker: Broker) -> None:
    topic = broker.topic()
    broker.produce(topic, [b"one", "zwölf".encode(), b"\xff\xfe\x00bad", b"", None])

    rows = everything(source(broker, topic))

    assert messages(rows) == ["one", "zwölf", "\ufffd\ufffd\0bad", "", None]
    assert [row["_offset"] for row in rows] == [0, 1, 2, 3, 4]


def test_binary_values_stay_bytes(broker: Broker) -> None:
    topic = broker.topic()
    broker.produce(topic, [b"\xff\x00", None])

    reader = source(broker, topic, format="binary", value_field="payload")

    assert reader.fields() == pa.schema([("payload", pa.binary())])
    assert [row["payload"] for row in everything(reader)] == [b"\xff\x00", None]


def test_key_headers_and_metadata_are_fields(broker: Broker) -> None:
    topic = broker.topic(2)
    headers = [("trace", b"t1"), ("x", b"\xff"), ("y", b"1"), ("y", b"2"), ("trace", b"t2"), ("z", None)]
    broker.produce(topic, [b"a"], partition=1, key=b"k\xff", headers=headers, timestamp=1_700_000_000_123)
    broker.produce(topic, [b"b"], partition=1)

    reader = source(broker, topic, key_field="kafka.key", headers={"trace.id": "trace"}, headers_field="rest", metadata=True)
    first, second = everything(reader)

    assert first["kafka.key"] == "k\ufffd"
    assert first["trace.id"] == "t2"
    assert json.loads(first["rest"]) == {"x": "\ufffd", "y": ["1", "2"], "z": None}
    assert (first["kafka.topic"], first["kafka.partition"], first["kafka.offset"]) == (topic, 1, 0)
    assert first["kafka.timestamp"] == datetime.fromtimestamp(1_700_000_000.123, UTC)
    assert second["kafka.offset"] == 1
    assert second["kafka.key"] is second["trace.id"] is second["rest"] is None


def test_parts_of_a_partition_give_each_message_once(broker: Broker) -> None:
    topic = broker.topic(2)
    expected = [f"{number}" for number in range(50_000)]
    broker.produce(topic, [text.encode() for text in expected[:45_000]], partition=0)
    broker.produce(topic, [text.encode() for text in expected[45_000:]], partition=1)
    reader = source(broker, topic)
    start = reader.start()
    end = reader.latest(start, EVERYTHING)

    assert len(reader.splits(start, end, 4)) == 5
    assert messages(read(reader, start, end, 4)) == expected
    assert read(reader, start, end, 4) == read(reader, start, end, 4)


def test_only_committed_transactions_are_read_and_their_markers_are_gaps(broker: Broker) -> None:
    topic = broker.topic()
    broker.produce(topic, [b"a"])
    broker.transaction(topic, [b"no"] * 5, commit=False)
    broker.transaction(topic, [b"b", b"c"], commit=True)
    broker.transaction(topic, [b"never"], commit=False)

    assert messages(everything(source(broker, topic))) == ["a", "b", "c"]
    assert len(everything(source(broker, topic, isolation="read_uncommitted"))) == 9


def test_ranges_with_gaps_only_end(broker: Broker) -> None:
    topic = broker.topic()
    broker.transaction(topic, [b"no"] * 3, commit=False)
    broker.produce(topic, [b"yes"])
    reader = source(broker, topic)
    last = reader.latest(reader.start(), EVERYTHING)["topics"][topic]["to"][0]

    found = [messages(_rows(reader, topic, begin, begin + 1)) for begin in range(last)]

    assert [some for some in found if some] == [["yes"]]  # the mark of the end may come after it
    assert last > 1


def _rows(reader: KafkaSource, topic: str, begin: int, end: int) -> list[dict[str, Any]]:
    position = {"topics": {topic: {"id": "", "from": [begin], "to": [end]}}}
    return read(reader, position, position)


def test_a_limit_is_shared_by_partitions(broker: Broker) -> None:
    topic = broker.topic(3)
    for partition, count in enumerate((100, 10, 100)):
        broker.produce(topic, [b"x"] * count, partition=partition)
    reader = source(broker, topic)
    start = reader.start()

    end = reader.latest(start, Limit(60 * 50, event_bytes=50.0))
    later = reader.latest(end, EVERYTHING)

    assert end["topics"][topic]["to"] == [25, 10, 25]
    assert later["topics"][topic]["from"] == [25, 10, 25]
    assert later["topics"][topic]["to"] == [100, 10, 100]
    assert [reader.backlog(offset) for offset in (start, end, later)] == [Backlog(210), Backlog(150), Backlog(0)]
    assert reader.latest(later, EVERYTHING) == later


def test_a_bounded_run_ends_at_the_first_end_offsets(broker: Broker) -> None:
    topic = broker.topic()
    broker.produce(topic, [b"x"] * 10)
    reader = source(broker, topic)
    start = reader.start()
    target = reader.latest(start, EVERYTHING)
    broker.produce(topic, [b"late"] * 10)
    broker.grow(topic, 2)
    broker.produce(topic, [b"late"] * 10, partition=1)

    end = reader.latest(start, Limit(1 << 62, bounded=True, until=target))

    assert messages(read(reader, start, end)) == ["x"] * 10
    assert reader.latest(end, Limit(1 << 62, bounded=True, until=target)) == end


def test_new_partitions_are_read_from_their_first_message_even_with_start_latest(broker: Broker) -> None:
    topic = broker.topic()
    broker.produce(topic, [b"old"])
    reader = source(broker, topic, start="latest")
    start = reader.start()
    assert reader.latest(start, EVERYTHING) == start

    broker.grow(topic, 2)
    broker.produce(topic, [b"new"], partition=1)
    wait_for(lambda: reader.latest(start, EVERYTHING) != start)

    assert messages(read(reader, start, reader.latest(start, EVERYTHING))) == ["new"]


def test_topics_that_match_a_pattern_are_found_while_running(broker: Broker) -> None:
    first = broker.topic()
    reader = source(broker, pattern=f"{first}.*")
    broker.produce(first, [b"1"])
    start = reader.start()
    end = reader.latest(start, EVERYTHING)
    second = broker.topic(name=f"{first}-b")
    broker.topic(name=f"x-{first}")
    broker.produce(second, [b"2"])

    wait_for(lambda: reader.latest(end, EVERYTHING) != end)
    more = reader.latest(end, EVERYTHING)

    assert messages(read(reader, start, end)) == ["1"]
    assert messages(read(reader, end, more)) == ["2"]
    assert sorted(more["topics"]) == [first, second]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0, 1, 2, 3]),
        ({"start": "latest"}, []),
        ({"start": "timestamp", "start_time": "2023-11-14T22:13:22Z"}, [2, 3]),
        ({"start": "timestamp", "start_time": "2999-01-01T00:00:00Z"}, []),
        ({"start": "offsets", "start_offsets": {"TOPIC": {"0": 1}}}, [1, 2, 3]),
        ({"start": "offsets"}, [0, 1, 2, 3]),
    ],
)
def test_where_a_new_pipeline_begins(broker: Broker, options: dict[str, Any], expected: list[int]) -> None:
    topic = broker.topic()
    for number in range(4):
        broker.produce(topic, [str(number).encode()], timestamp=1_700_000_000_000 + number * 1000)
    given = json.loads(json.dumps(options).replace("TOPIC", topic))

    assert messages(everything(source(broker, topic, **given))) == [str(number) for number in expected]


@pytest.mark.parametrize(
    ("offsets", "reason"),
    [
        ({"0": 5}, "TOPIC/0 cannot start at offset 5, it ends at 4"),
        ({"1": 0}, "there is no partition TOPIC/1; did you mean 'TOPIC/0'"),
    ],
)
def test_start_offsets_that_do_not_exist(broker: Broker, offsets: dict[str, int], reason: str) -> None:
    topic = broker.topic()
    broker.produce(topic, [b"m"] * 4)

    with pytest.raises(ComponentError, match=f"start_offsets: {reason.replace('TOPIC', topic)}"):
        source(broker, topic, start="offsets", start_offsets={topic: offsets}).start()


def test_delivered_offsets_are_committed_to_a_group_at_which_another_pipeline_can_begin(broker: Broker) -> None:
    topic = broker.topic(2)
    broker.produce(topic, [b"a", b"b"], partition=0)
    group = f"group-{topic}"
    reader = source(broker, topic, commit_group=group)
    end = reader.latest(reader.start(), EVERYTHING)

    reader.commit([end])

    assert fetch_committed(reader.settings(), group, [(topic, 0), (topic, 1)]) == {(topic, 0): 2, (topic, 1): 0}
    broker.produce(topic, [b"c"], partition=0)
    assert messages(everything(source(broker, topic, start="group", start_group=group))) == ["c"]
    assert len(everything(source(broker, topic, start="group", start_group="nobody"))) == 3


def test_a_group_with_members_gives_a_warning(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    from confluent_kafka import Consumer

    topic = broker.topic()
    broker.produce(topic, [b"a"])
    group = f"group-{topic}"
    member = Consumer({**broker.server.client(), "group.id": group, "log_level": 0})
    member.subscribe([topic])
    wait_for(lambda: member.poll(0.1) is not None or bool(member.assignment()))
    reader = source(broker, topic, commit_group=group)

    with caplog.at_level(logging.WARNING):
        reader.commit([reader.latest(reader.start(), EVERYTHING)])

    assert group in caplog.text
    member.close()


def test_expired_messages_end_the_run_or_are_skipped(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    topic = broker.topic()
    broker.produce(topic, [f"{number}".encode() for number in range(10)])
    strict, lenient = source(broker, topic), source(broker, topic, on_data_loss="earliest")
    start = strict.latest(strict.start(), Limit(1, event_bytes=1.0))
    broker.expire(topic, 0, 6)

    with pytest.raises(ComponentError, match=r"messages 1 to 5 expired.*on_data_loss: earliest"):
        strict.latest(start, EVERYTHING)
    with caplog.at_level(logging.WARNING):
        end = lenient.latest(start, EVERYTHING)

    assert messages(read(lenient, start, end)) == ["6", "7", "8", "9"]
    assert "expired before" in caplog.text


def test_messages_that_expire_between_planning_and_reading(broker: Broker) -> None:
    topic = broker.topic()
    broker.produce(topic, [f"{number}".encode() for number in range(10)])
    strict, lenient = source(broker, topic), source(broker, topic, on_data_loss="earliest")
    start = strict.start()
    end = strict.latest(start, EVERYTHING)
    broker.expire(topic, 0, 8)
    (split,) = strict.splits(start, end, 1)

    with pytest.raises(ComponentError, match="messages 0 to 7 of"):
        list(strict.read(split))
    batch, lost = lenient.read(split)

    assert isinstance(batch, pa.RecordBatch)
    assert batch.column("message").to_pylist() == ["8", "9"]
    assert isinstance(lost, Rejects)
    assert lost.code == "data-lost"


def test_a_topic_that_was_created_again_is_another_topic(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    topic = broker.topic()
    broker.produce(topic, [b"old"] * 3)
    strict, lenient = source(broker, topic), source(broker, topic, on_data_loss="earliest")
    end = strict.latest(strict.start(), EVERYTHING)
    broker.delete(topic)
    wait_for(lambda: topic not in broker.admin.list_topics(timeout=120).topics)
    broker.topic(name=topic)
    broker.produce(topic, [b"new"] * 5)

    with pytest.raises(ComponentError, match="was deleted and created again"):
        _settled(strict, end)
    again = _settled(lenient, end)

    assert messages(read(lenient, end, again)) == ["new"] * 5


def test_a_deleted_topic_ends_the_run_after_a_while(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "GONE_SECONDS", 1.0)
    topic = broker.topic()
    broker.produce(topic, [b"old"] * 3)
    reader = source(broker, topic)
    end = reader.latest(reader.start(), EVERYTHING)
    broker.delete(topic)

    with pytest.raises(ComponentError, match=f"topic '{topic}' no longer exists: it had been read up to 0: 3"):
        _settled(reader, end)


def _settled(reader: KafkaSource, begin: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a call that is retried after each OSError, as the engine does."""
    for _ in range(200):
        try:
            return reader.latest(begin, EVERYTHING)
        except OSError:
            time.sleep(0.1)
    raise AssertionError("it was temporary for too long")


def test_a_topic_that_does_not_exist_is_named_with_the_nearest(broker: Broker) -> None:
    topic = broker.topic(name="shop-orders-today")
    reader = source(broker, "shop-orders-todya")

    with pytest.raises(ComponentError, match=f"no topic 'shop-orders-todya'; did you mean '{topic}'"):
        reader.start()
    (finding,) = reader.probe()
    assert finding.code == "unknown-topic"
    assert list(source(broker, topic).probe()) == []
    assert "shop-orders-todya" not in broker.admin.list_topics(timeout=120).topics


def test_a_missing_topic_is_created_if_set(broker: Broker) -> None:
    name = f"made-{uuid4().hex}"
    reader = source(broker, name, create={"partitions": 3, "replication": 1})
    assert list(reader.probe()) == []

    start = reader.start()

    assert len(broker.admin.list_topics(timeout=120).topics[name].partitions) == 3
    assert source(broker, name, create={"partitions": 5}).start() == start


def test_a_refused_creation_ends_the_run(broker: Broker) -> None:
    name = f"made-{uuid4().hex}"

    with pytest.raises(ComponentError, match=r"check create\.partitions and create\.replication"):
        source(broker, name, create={"replication": 50}).start()


def test_large_messages_are_read(broker: Broker) -> None:
    topic = broker.topic(max_message_bytes="6000000")
    large = b"x" * (5 << 20)
    broker.produce(topic, [b"a", large, b"b"])

    assert [len(text) for text in messages(everything(source(broker, topic)))] == [1, len(large), 1]


def test_an_unknown_property_is_an_error(broker: Broker) -> None:
    with pytest.raises(ComponentError, match=r'No such configuration property: "fetch.maximum"'):
        source(broker, broker.topic(), properties={"fetch.maximum": 1}).start()
