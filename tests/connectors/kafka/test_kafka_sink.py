"""The Kafka sink against a real broker."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from kafka_broker import Broker, events, task
from running import wait_for
from servers.brokers.kafka_server import Kafka

from connectors.kafka.ledger import LedgerEntry
from connectors.kafka.producer_pool import PRODUCER_POOL
from connectors.kafka.sink import KafkaSink
from connectors.shared.ledger_cleaner import LedgerCleaner
from etl.api import (
    CHANGE,
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    BatchId,
    ComponentError,
    Result,
    SplitLostError,
    Staged,
    Task,
)

pytestmark = pytest.mark.servers

EVENTS = events([{"source.ip": "10.0.0.1", "n": 1, "message": "a\nb"}, {"source.ip": None, "n": 2, "message": "ü"}])
BOTH = pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])


@pytest.fixture
def broker(kafka: Kafka) -> Broker:
    return Broker(kafka)


def sink(broker: Broker, topic: str, **options: Any) -> KafkaSink:
    return KafkaSink.model_validate({"type": "kafka", "servers": [broker.address], "topic": topic, **options})


def write(broker: Broker, component: KafkaSink, batch: pa.RecordBatch, of: Task | None = None) -> tuple[Result, Staged | None]:
    writer = component.open(of or task(broker, batch))
    result = writer.write(batch)
    return result, writer.close()


def rejected(result: Result) -> list[tuple[str, list[Any]]]:
    return [(one.code, one.events.column("n").to_pylist()) for one in result.rejected]


@BOTH
def test_an_event_is_a_message_of_json(broker: Broker, delivery: str) -> None:
    topic = broker.topic()

    result, _ = write(broker, sink(broker, topic, delivery=delivery), EVENTS)

    assert result.retryable is None
    assert not result.rejected
    assert broker.values(topic) == [
        b'{"source":{"ip":"10.0.0.1"},"n":1,"message":"a\\nb"}',
        '{"source":{"ip":null},"n":2,"message":"ü"}'.encode(),
    ]
    assert [one.key() for one in broker.messages(topic)] == [None, None]


@BOTH
def test_of_changes_the_last_of_a_key_is_sent_and_a_row_that_is_removed_is_a_tombstone(broker: Broker, delivery: str) -> None:
    topic, kinds = broker.topic(), [INSERT, INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE]
    rows = zip([1, 2, 1, 1, 2], [10, 20, 10, 11, 20], kinds, strict=True)
    batch = events([{"id": id_, "n": n, CHANGE: kind} for id_, n, kind in rows])

    result, _ = write(broker, sink(broker, topic, key=["id"], delivery=delivery), batch)

    assert result.retryable is None
    assert [(one.key(), one.value()) for one in broker.messages(topic)] == [(b"1", b'{"id":1,"n":11}'), (b"2", None)]


def test_keys_are_json_and_changes_rows_without_them_or_messages_of_debezium(broker: Broker) -> None:
    upserts, changes = broker.topic(), broker.topic()
    batch = events(
        [{"k_id": 1, "n": 10, CHANGE: INSERT}, {"k_id": 2, "n": 20, CHANGE: UPDATE_AFTER}, {"k_id": 1, "n": 10, CHANGE: DELETE}]
    )
    keyed = {"key": ["k_id"], "key_format": "json"}
    last = sink(broker, upserts, **keyed, key_prefix="k_", key_in_value=False)

    write(broker, last, batch)
    write(broker, sink(broker, changes, **keyed, changes="debezium"), batch)

    assert [(one.key(), one.value()) for one in broker.messages(upserts)] == [(b'{"id":2}', b'{"n":20}'), (b'{"id":1}', None)]
    assert last.open(task(broker, batch)).sizes(batch).to_pylist() == [len('{"id":1}{"n":10}')] * 3
    assert [(one.key(), one.value()) for one in broker.messages(changes)] == [
        (b'{"k_id":1}', b'{"before":null,"after":{"k_id":1,"n":10},"op":"c"}'),
        (b'{"k_id":2}', b'{"before":null,"after":{"k_id":2,"n":20},"op":"c"}'),
        (b'{"k_id":1}', b'{"before":{"k_id":1,"n":10},"after":null,"op":"d"}'),
    ]


@BOTH
def test_key_headers_time_and_a_raw_value(broker: Broker, delivery: str) -> None:
    topic = broker.topic()
    at = datetime(2026, 11, 20, 6, 0, 0, 123456, UTC)
    batch = events(
        [
            {"user": "anna", "n": 1, "raw": b"\xff\x00", "time": at, "trace": "t1"},
            {"user": None, "n": None, "raw": None, "time": None, "trace": None},
        ]
    )
    component = sink(
        broker, topic, key=["user", "n"], value_field="raw", headers={"trace": "x-trace"}, time_field="time", delivery=delivery
    )

    assert component.open(task(broker, batch)).sizes(batch).to_pylist() == [2 + len("anna|1") + len("x-tracet1"), len("x-trace")]
    write(broker, component, batch)

    first, second = broker.messages(topic)
    assert (first.key(), first.value(), first.headers()) == (b"anna|1", b"\xff\x00", [("x-trace", b"t1")])
    assert first.timestamp()[1] == int(at.timestamp() * 1000)
    assert (second.key(), second.value(), second.headers()) == (None, None, None)
    assert second.timestamp()[1] > 1_700_000_000_000


def test_sizes_are_those_of_values_and_keys(broker: Broker) -> None:
    topic = broker.topic()
    component = sink(broker, topic, key=["source.ip"])

    sizes = component.open(task(broker, EVENTS)).sizes(EVENTS)
    write(broker, component, EVENTS)

    assert sizes.to_pylist() == [len(one.value() or b"") + len(one.key() or b"") for one in broker.messages(topic)]


def test_a_key_chooses_the_same_partition_as_in_java_clients(broker: Broker) -> None:
    topic = broker.topic(10)
    batch = events([{"k": key} for key in ("sluice", "kafka", "10.0.0.1", "21")])

    write(broker, sink(broker, topic, key=["k"]), batch)

    found = {one.key(): one.partition() for one in broker.messages(topic)}
    assert found == {key.encode(): (murmur2(key.encode()) & 0x7FFFFFFF) % 10 for key in ("sluice", "kafka", "10.0.0.1", "21")}


def murmur2(data: bytes) -> int:
    """Compute the hash as Kafka's Utils.murmur2 does."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    if rest := data[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


@BOTH
def test_a_topic_that_an_event_names_is_checked(broker: Broker, delivery: str) -> None:
    one, other = broker.topic(), broker.topic()
    names = [one, other, one, "a/b", None, "..", "x" * 300, "no-such-topic"]
    batch = events([{"n": number, "topic": name} for number, name in enumerate(names)])

    result, _ = write(broker, sink(broker, "{topic}", delivery=delivery), batch)

    assert rejected(result) == [("bad-topic", [3, 4, 5, 6]), ("unknown-topic", [7])]
    assert [json.loads(value)["n"] for value in broker.values(one)] == [0, 2]
    assert [json.loads(value)["n"] for value in broker.values(other)] == [1]


@BOTH
def test_a_message_of_5_mib_is_a_dead_letter_and_its_neighbours_arrive(broker: Broker, delivery: str) -> None:
    topic = broker.topic()
    batch = events([{"n": 1, "m": "a"}, {"n": 2, "m": "x" * (5 << 20)}, {"n": 3, "m": "b"}])

    result, _ = write(broker, sink(broker, topic, delivery=delivery), batch)

    assert rejected(result) == [("event-too-large", [2])]
    assert result.rejected[0].reasons[0].as_py() == (
        f"value, key and headers have {(5 << 20) + 14} bytes, but topic {topic!r} allows {1048588 - 256}"
    )
    assert [json.loads(value)["n"] for value in broker.values(topic)] == [1, 3]


@BOTH
def test_a_topic_that_accepts_5_mib_gets_them(broker: Broker, delivery: str) -> None:
    topic = broker.topic(max_message_bytes="6000000")
    batch = events([{"m": "x" * (5 << 20)}])

    result, _ = write(broker, sink(broker, topic, value_field="m", delivery=delivery), batch)

    assert not result.rejected
    assert [len(value) for value in broker.values(topic)] == [5 << 20]


@BOTH
def test_a_topic_of_small_messages_gets_small_batches(broker: Broker, delivery: str) -> None:
    topic = broker.topic(max_message_bytes="2000")
    batch = events([{"n": number, "m": "y" * (3000 if number == 7 else 100)} for number in range(500)])

    result, _ = write(broker, sink(broker, topic, delivery=delivery, compression="none"), batch)

    assert rejected(result) == [("event-too-large", [7])]
    assert len(broker.values(topic)) == 499


@BOTH
def test_a_compacted_topic_accepts_no_null_key(broker: Broker, delivery: str) -> None:
    topic = broker.topic(cleanup_policy="compact")

    result, _ = write(broker, sink(broker, topic, key=["source.ip"], delivery=delivery), EVENTS)

    assert rejected(result) == [("null-key", [2])]
    assert len(broker.values(topic)) == 1


@BOTH
def test_a_topic_that_does_not_exist_ends_the_run(broker: Broker, delivery: str) -> None:
    topic = broker.topic(name=f"alerts-{delivery}")

    with pytest.raises(ComponentError, match=f"no topic '{topic}x'; did you mean '{topic}'"):
        write(broker, sink(broker, f"{topic}x", delivery=delivery), EVENTS)
    assert [finding.code for finding in sink(broker, f"{topic}x").probe(EVENTS.schema)] == ["unknown-topic"]
    assert list(sink(broker, topic).probe(EVENTS.schema)) == []


def test_a_missing_topic_is_created_before_the_first_event(broker: Broker) -> None:
    name = f"made-{uuid4().hex}"
    component = sink(broker, name, create={"partitions": 2})

    for _ in range(2):
        component.prepare(EVENTS.schema)
    write(broker, component, EVENTS)

    assert len(broker.admin.list_topics(timeout=120).topics[name].partitions) == 2
    assert len(broker.values(name)) == EVENTS.num_rows


def test_a_split_that_was_written_is_not_written_again(broker: Broker) -> None:
    topic = broker.topic()
    component = sink(broker, topic, delivery="exactly_once")

    _, first = write(broker, component, EVENTS)
    _, second = write(broker, component, EVENTS)
    write(broker, component, EVENTS, task(broker, EVENTS, split="another"))
    write(broker, component, EVENTS, task(broker, EVENTS, number=1))
    write(broker, component, EVENTS, task(broker, EVENTS, query="another"))

    assert first == second
    assert len(broker.values(topic)) == 4 * 2


def test_splits_of_one_micro_batch_are_open_in_parallel(broker: Broker) -> None:
    topic = broker.topic()
    component = sink(broker, topic, delivery="exactly_once")
    writers = [component.open(task(broker, EVENTS, split=f"split-{number}")) for number in range(3)]

    for _ in range(2):
        for writer in writers:
            writer.write(EVENTS)
    for writer in writers:
        writer.close()

    assert len(broker.values(topic)) == 3 * 2 * 2


def test_what_an_aborted_split_sent_is_not_committed(broker: Broker) -> None:
    topic = broker.topic()
    component = sink(broker, topic, delivery="exactly_once")
    writer = component.open(task(broker, EVENTS))
    writer.write(EVENTS)

    writer.abort()

    assert broker.values(topic) == []
    assert len(broker.messages(topic, committed=False)) == 2
    write(broker, component, EVENTS)
    assert len(broker.values(topic)) == 2


def test_a_writer_that_was_replaced_is_fenced(broker: Broker) -> None:
    topic = broker.topic()
    component = sink(broker, topic, delivery="exactly_once")
    zombie = component.open(task(broker, EVENTS))
    zombie.write(EVENTS)

    _in_another_process()
    write(broker, component, EVENTS)

    with pytest.raises(SplitLostError, match=r"fence|old epoch|returned NULL"):  # as a flush of confluent-kafka says at times
        zombie.write(EVENTS)
    assert len(broker.values(topic)) == 2
    zombie.abort()


def test_a_writer_that_committed_late_is_found_in_the_ledger(broker: Broker) -> None:
    topic = broker.topic()
    component = sink(broker, topic, delivery="exactly_once")
    slow = component.open(task(broker, EVENTS))
    slow.write(EVENTS)
    _in_another_process()
    late = component.open(task(broker, EVENTS))

    slow.close()
    late.write(EVENTS)
    late.close()

    assert len(broker.values(topic)) == 2


def _in_another_process() -> None:
    """Drop the producers, so that the rest of the test is like another worker."""
    PRODUCER_POOL._reserved_names.clear()


def test_a_producer_is_reused_for_the_next_micro_batch_only(broker: Broker) -> None:
    topic = broker.topic()
    component = sink(broker, topic, delivery="exactly_once")

    def used(number: int) -> object:
        writer = component.open(task(broker, EVENTS, number=number))
        writer.write(EVENTS)
        client = writer._client  # type: ignore[attr-defined]
        writer.close()
        return client

    first, second, third = used(0), used(1), used(3)

    assert first is second
    assert second is not third
    assert len(broker.values(topic)) == 6


def test_a_split_without_events_costs_nothing(broker: Broker) -> None:
    component = sink(broker, broker.topic(), delivery="exactly_once")

    writer = component.open(task(broker, EVENTS))

    assert writer.close() is None


def test_rejects_are_the_same_when_a_split_is_found_in_the_ledger(broker: Broker) -> None:
    topic = broker.topic(max_message_bytes="2000")
    batch = events([{"n": 1, "m": "a"}, {"n": 2, "m": "x" * 3000}])
    component = sink(broker, topic, delivery="exactly_once")

    first, _ = write(broker, component, batch)
    again, _ = write(broker, component, batch)

    assert rejected(first) == rejected(again) == [("event-too-large", [2])]


def test_rejects_that_differ_from_the_ledger_are_reported(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    component = sink(broker, broker.topic(), delivery="exactly_once")
    write(broker, component, EVENTS)

    with caplog.at_level(logging.WARNING):
        write(broker, component, EVENTS.slice(1), task(broker, EVENTS))

    assert "the ledger has 2 messages for a split that has 1 now" in caplog.text


def test_entries_of_finished_micro_batches_are_deleted(broker: Broker, tmp_path: Path) -> None:
    component = sink(broker, broker.topic(), delivery="exactly_once")
    tasks = [task(broker, EVENTS, split=f"split-{number % 2}", number=number // 2) for number in range(6)]
    groups = [LedgerEntry.for_task(one).group for one in tasks]
    staged = [write(broker, component, EVENTS, one)[1] for one in tasks]

    def commit(number: int) -> None:
        committer = component.committer(str(tmp_path))  # another each time, as after a restart
        assert isinstance(committer, LedgerCleaner)
        committer.commit(BatchId(tasks[0].batch.query, number), [one for one in staged[number * 2 : number * 2 + 2] if one])

    commit(0)
    commit(0)
    commit(1)
    wait_for(lambda: not broker.groups() & set(groups[:2]))
    assert set(groups[2:]) <= broker.groups()
    commit(2)
    wait_for(lambda: not broker.groups() & set(groups[:4]))
    assert set(groups[4:]) <= broker.groups()


def test_an_unexpected_rejection_fails_the_transaction(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    from connectors.kafka import sendable_events
    from connectors.kafka.topic_limits import TopicLimits

    monkeypatch.setattr(sendable_events, "fetch_topic_limits", lambda settings, topic: TopicLimits(1_000_000))
    topic = broker.topic(max_message_bytes="2000")
    batch = events([{"n": 1, "m": "x" * 3000}])

    with pytest.raises(ComponentError, match="the topic rejects a message"):
        write(broker, sink(broker, topic, delivery="exactly_once", compression="none"), batch)
    result, _ = write(broker, sink(broker, topic, compression="none"), batch)

    assert rejected(result) == [("refused", [1])]
    assert broker.values(topic) == []


def test_failed_messages_are_found_among_equal_ones() -> None:
    from connectors.kafka.batch_sender import BatchSender
    from connectors.kafka.message_encoding import EncodedMessages

    class Failed:
        def __init__(self, value: bytes | None, key: bytes | None) -> None:
            self._value, self._key = value, key

        def topic(self) -> str:
            return "t"

        def value(self) -> bytes | None:
            return self._value

        def key(self) -> bytes | None:
            return self._key

    sending = BatchSender(None)  # type: ignore[arg-type]
    messages = EncodedMessages(["t"] * 4, [b"a", b"b", b"a", None], ["k", None, "k", "k"], None, None)
    sending._failed = [("E1", Failed(b"a", b"k")), ("E2", Failed(None, b"k")), ("E3", Failed(b"a", b"k"))]  # type: ignore[list-item]

    assert sending._errors_by_row(messages) == {0: "E1", 3: "E2", 2: "E3"}
