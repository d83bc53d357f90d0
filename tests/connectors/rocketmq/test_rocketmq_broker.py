"""Source and sink of RocketMQ with a shared real broker, which these tests do not stop."""

from __future__ import annotations

import time
import zlib
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pyarrow as pa
import pytest
from rocketmq_broker import (
    EVERYTHING,
    connection_options,
    delete_topic,
    events,
    numbered,
    read,
    read_all,
    rows_of,
    send_at_once,
    send_events,
    send_one,
    sink_of,
    source_of,
    texts,
    topic_of,
    wait_for_messages,
)
from servers.brokers.rocketmq_server import RocketMq

from connectors.rocketmq.source import RocketmqSource
from etl.api import ComponentError, Rejects, Split

with_and_without_access_control = pytest.mark.parametrize("kind", ["rocketmq", "rocketmq_acl"])


@pytest.fixture
def server(request: pytest.FixtureRequest, kind: str) -> RocketMq:
    return request.getfixturevalue(kind)


@with_and_without_access_control
def test_events_are_read_back_with_tags_keys_and_properties(server: RocketMq) -> None:
    topic = topic_of(server)
    batch = events(3, **{"tag": ["a", "b", None], "user": ["root", "x y", None], "trace.id": ["t0", None, "ü"]})
    options = {"tag_field": "tag", "key_fields": ["user"], "property_fields": {"trace.id": "traceId"}}

    began = datetime.now(UTC)
    send_events(server, topic, batch, body_field="message", **options)
    source = source_of(server, topic, tag_field="tag", keys_field="keys", property_fields={"trace.id": "traceId"}, metadata=True)
    rows = sorted(read_all(source, 3), key=lambda row: row["message"])

    assert [(row["message"], row["tag"], row["keys"], row["trace.id"]) for row in rows] == [
        ("event 0", "a", "case-0 root", "t0"),
        ("event 1", "b", "case-1 x y", None),
        ("event 2", None, "case-2", "ü"),
    ]
    assert {(row["rocketmq.topic"], row["rocketmq.broker"]) for row in rows} == {(topic, "broker-a")}
    assert all(row["rocketmq.offset"] == row["_offset"] for row in rows)
    late = timedelta(seconds=60)
    assert all(abs(row[f"rocketmq.{when}"] - began) < late for row in rows for when in ("born", "stored"))


@with_and_without_access_control
def test_many_events_are_read_in_splits_and_in_order(server: RocketMq) -> None:
    topic = topic_of(server)
    send_events(server, topic, events(50_000, key=[f"k{n % 13}" for n in range(50_000)]), body_field="message", queue_field="key")
    source = source_of(server, topic)
    start = source.start()

    rows = read(source, start, wait_for_messages(source, start, 50_000), parallelism=8)

    assert texts(rows) == numbered(50_000)
    for key in range(13):
        numbers = [n for row in rows if (n := int(row["message"][6:])) % 13 == key]
        assert numbers == sorted(numbers), "a key's events are in their order"


def test_the_same_split_is_the_same_events(rocketmq: RocketMq) -> None:
    topic = topic_of(rocketmq, 1)
    send_events(rocketmq, topic, events(3000), body_field="message")
    source = source_of(rocketmq, topic)
    start = source.start()
    end = wait_for_messages(source, start, 3000)
    send_events(rocketmq, topic, events(10), body_field="message")

    (split,) = source.splits(start, end, 1)

    first, again = (read(source, start, end) for _ in range(2))
    assert (split.start, split.end) == (0, 3000)
    assert [row["message"] for row in first] == [f"event {n}" for n in range(3000)]
    assert first == again


def test_binary_payloads(rocketmq: RocketMq) -> None:
    topic = topic_of(rocketmq)
    bodies = [bytes(range(256)), b"\x00", b"", b"a\xffb"]
    send_events(rocketmq, topic, pa.record_batch({"body": pa.array(bodies, pa.binary()), "_offset": range(4)}), body_field="body")

    raw = read_all(source_of(rocketmq, topic, format="binary", body_field="raw"), 4)
    text = read_all(source_of(rocketmq, topic), 4)

    assert texts(raw, "raw") == sorted(bodies)
    assert texts(text) == sorted(body.decode("utf-8", "replace") for body in bodies)


def test_bodies_that_producers_compressed(rocketmq: RocketMq) -> None:
    topic = topic_of(rocketmq)
    kinds = {"zlib": 0x001, "said zlib": 0x301, "lz4": 0x101, "zstd": 0x201}
    for name, flags in kinds.items():
        long = name.encode() * 1000
        send_one(rocketmq, topic, zlib.compress(long) if "zlib" in name else pa.compress(long, codec=name, asbytes=True), flags)
    send_one(rocketmq, topic, b"no zlib", 0x001)

    rows = read_all(source_of(rocketmq, topic), 5)

    assert texts([row for row in rows if not isinstance(row, Rejects)]) == sorted(name * 1000 for name in kinds)
    assert [(row.code, row.events.num_rows) for row in rows if isinstance(row, Rejects)] == [("corrupt-body", 1)]


def test_tags_are_filtered_by_the_broker_and_exactly(rocketmq: RocketMq) -> None:
    """Aa and BB have the same hash code in Java, which is all that a broker compares."""
    topic = topic_of(rocketmq, 1)
    tags = [["Aa", "BB", "login", None, "login-x"][n % 5] for n in range(5000)]
    send_events(rocketmq, topic, events(5000, tag=tags), body_field="message", tag_field="tag")
    source = source_of(rocketmq, topic, tags="Aa || login", tag_field="tag")
    start = source.start()

    rows = read(source, start, wait_for_messages(source, start, 5000))

    assert [row["_offset"] for row in rows] == [n for n in range(5000) if tags[n] in ("Aa", "login")]


BATCHES = "+queue.type=BatchCQ"


def test_messages_that_the_broker_stores_together_are_separate_events(rocketmq: RocketMq) -> None:
    topic = topic_of(rocketmq, 1, BATCHES)
    source = source_of(rocketmq, topic, tag_field="tag", metadata=True)
    start = source.start()
    batch = events(2000, tag=["odd" if n % 2 else None for n in range(2000)])
    for first, last in ((0, 1), (1, 700), (700, 1950)):
        send_at_once(rocketmq, topic, batch.slice(first, last - first), tag="tag", identity=False)
    send_events(rocketmq, topic, batch.slice(1950), body_field="message", tag_field="tag")

    end = wait_for_messages(source, start, 2000)
    rows = read(source, start, end)
    detail = source.splits(start, end, 1)[0].detail
    cuts = pairwise([0, 1, 5, 699, 700, 1200, 1949, 1950, 2000])
    parts = [row for a, b in cuts for found in source.read(Split(topic, a, b, detail)) for row in rows_of(found)]

    assert [(row["message"], row["tag"], row["_offset"]) for row in rows] == [
        (f"event {n}", "odd" if n % 2 else None, n) for n in range(2000)
    ]
    assert parts == rows, "wherever splits begin"


def test_tags_of_messages_that_the_broker_stores_together(rocketmq: RocketMq) -> None:
    topic = topic_of(rocketmq, 1, BATCHES)
    batch = events(90, tag=["abc"[n % 3] for n in range(90)])
    source = source_of(rocketmq, topic, tags="a || c")
    start = source.start()
    send_at_once(rocketmq, topic, batch, tag="tag", identity=False)
    end = wait_for_messages(source, start, 90)

    rows = read(source, start, end)

    assert [row["_offset"] for row in rows] == [n for n in range(90) if n % 3 != 1]
    with pytest.raises(ComponentError, match=rf"topic '{topic}' is of the type BatchCQ.*remove filter, and use a step filter"):
        read(source_of(rocketmq, topic, filter="a > 1"), start, end)


def test_a_condition_over_properties_is_evaluated_by_the_broker(rocketmq: RocketMq) -> None:
    topic = topic_of(rocketmq, 1)
    regions, amounts = [["eu", "us", None][n % 3] for n in range(900)], [str(n % 10) for n in range(900)]
    send_events(
        rocketmq, topic, events(900, region=regions, amount=amounts), property_fields={"region": "region", "amount": "amount"}
    )
    condition = "amount >= 5 AND region = 'eu'"
    source = source_of(rocketmq, topic, filter=condition)
    start = source.start()

    rows = read(source, start, wait_for_messages(source, start, 900))

    assert [row["_offset"] for row in rows] == [n for n in range(900) if regions[n] == "eu" and int(amounts[n]) >= 5]


def test_an_invalid_condition_ends_the_run(rocketmq: RocketMq) -> None:
    topic = topic_of(rocketmq, 1)
    send_events(rocketmq, topic, events(5))
    source = source_of(rocketmq, topic, filter="amount >= AND")
    start = source.start()

    with pytest.raises(
        ComponentError,
        match=rf"rocketmq {rocketmq.broker} answers 23: .*ParseException.*AND.*line 1, column 11.*; correct the filter",
    ):
        read(source, start, wait_for_messages(source, start, 5))


def test_where_a_new_pipeline_begins(rocketmq: RocketMq) -> None:
    topic = topic_of(rocketmq, 1)
    send_events(rocketmq, topic, events(10), body_field="message")
    wait_for_messages(source_of(rocketmq, topic), source_of(rocketmq, topic).start(), 10)
    time.sleep(0.05)  # so that the broker's clock has moved on
    between = datetime.now(UTC)
    time.sleep(0.05)
    send_events(rocketmq, topic, events(5), body_field="message")
    wait_for_messages(source_of(rocketmq, topic), source_of(rocketmq, topic).start(), 15)
    queue = f"broker-a/{topic}/0"

    def begins(start: str, **options: object) -> int:
        return source_of(rocketmq, topic, start=start, **options).start()["queues"][queue]

    assert begins("earliest") == 0
    assert begins("latest") == 15
    assert begins("timestamp", start_time=between) == 10
    assert begins("timestamp", start_time=between.replace(tzinfo=None)) == 10, "UTC is meant"
    assert begins("timestamp", start_time="2000-01-01T00:00:00Z") == 0
    assert begins("timestamp", start_time=datetime.now(UTC) + timedelta(days=1)) == 15
    assert begins("offsets", start_offsets={queue: 7}) == 7
    assert begins("group", start_group=f"never-{topic}") == 0
    with pytest.raises(ComponentError, match=r"there is no queue 'broker-a/.*/8'"):
        begins("offsets", start_offsets={f"broker-a/{topic}/8": 7})


@with_and_without_access_control
def test_delivered_offsets_are_committed_to_a_group(server: RocketMq) -> None:
    topic = topic_of(server, 2)
    send_events(server, topic, events(10), body_field="message")
    source = source_of(server, topic, start="group", commit_group=f"group-{topic}")
    start = source.start()
    end = wait_for_messages(source, start, 10)

    source.commit([end, {"queues": {name: max(0, at - 1) for name, at in end["queues"].items()}}])
    between = source.start()
    source.commit([end])

    assert between["queues"] == {name: max(0, at - 1) for name, at in end["queues"].items()}
    assert source.start() == end


def test_a_new_group_gets_all_offsets(rocketmq: RocketMq) -> None:
    """Brokers may lose some of several offsets that are committed at once."""
    topic = topic_of(rocketmq, 16)
    begin = source_of(rocketmq, topic).start()
    for queue in range(16):
        send_one(rocketmq, topic, b"one", queue=queue)
    wait_for_messages(source_of(rocketmq, topic), begin, 16)
    end = {"queues": dict.fromkeys(begin["queues"], 1)}

    for number in range(20):
        source = source_of(rocketmq, topic, start="group", commit_group=f"group-{topic}-{number}")
        source.commit([end])
        assert source.start() == end


def test_new_queues_are_found_and_read_from_their_first_message(rocketmq: RocketMq) -> None:
    topic = topic_of(rocketmq, 1)
    source = source_of(rocketmq, topic, start="latest", discovery="1ms")
    start = source.start()
    send_events(rocketmq, topic, events(5), body_field="message")
    first = wait_for_messages(source, start, 5)

    rocketmq.create_topic(topic, 3)
    send_one(rocketmq, topic, b"third", queue=2)
    second = wait_for_messages(source, first, 1)

    assert [row["message"] for row in read(source, first, second)] == ["third"]
    assert f"broker-a/{topic}/2" in second["queues"]


def test_an_error_names_a_missing_topic(rocketmq: RocketMq) -> None:
    topic = topic_of(rocketmq)
    for name, reason in ((topic[:-1] + "x", f"did you mean '{topic}'"), ("nothing-like-it", r"create: \{queues: 8\} creates it")):
        with pytest.raises(ComponentError, match=f"there is no topic '{name}'; .*{reason}"):
            source_of(rocketmq, name).start()
        with pytest.raises(ComponentError, match=f"there is no topic '{name}'"):
            send_events(rocketmq, name, events(1))

    (finding,) = source_of(rocketmq, "nothing-like-it").probe()
    assert (finding.code, finding.path) == ("unknown-topic", ("topics", 0))
    (finding,) = sink_of(rocketmq, "nothing-like-it").probe(pa.schema([]))
    assert (finding.code, finding.path) == ("unknown-topic", ("topic",))
    assert list(source_of(rocketmq, topic).probe()) == []
    assert list(sink_of(rocketmq, topic).probe(pa.schema([]))) == []


def test_a_missing_topic_is_created_if_set(rocketmq: RocketMq) -> None:
    topic = f"made-{time.time_ns()}"
    source = source_of(rocketmq, topic, create={"queues": 3})
    assert list(source.probe()) == []

    start = source.start()
    send_events(rocketmq, topic, events(5), body_field="message")

    assert len(start["queues"]) == 3
    assert len(read(source, start, wait_for_messages(source, start, 5))) == 5
    assert source_of(rocketmq, topic, create={"queues": 7}).start()["queues"].keys() == start["queues"].keys()


def test_a_sink_creates_its_topic_before_the_first_event(rocketmq_acl: RocketMq) -> None:
    topic = f"made-{time.time_ns()}"
    sink = sink_of(rocketmq_acl, topic, create={})

    for _ in range(2):
        sink.prepare(pa.schema([]))

    assert len(source_of(rocketmq_acl, topic).start()["queues"]) == 8


@pytest.mark.parametrize("login", [{}, {"user": "etl", "password": "wrong-word"}, {"user": "nobody", "password": "wrong-word"}])
def test_the_error_of_a_refused_login_has_no_password(rocketmq_acl: RocketMq, login: dict[str, str]) -> None:
    topic = topic_of(rocketmq_acl)
    options = {"servers": connection_options(rocketmq_acl)["servers"], "topics": [topic], **login}
    source = RocketmqSource.model_validate(options)

    for ask in (source.start, lambda: list(source.probe())):
        with pytest.raises(ComponentError, match=rf"rocketmq {rocketmq_acl.broker} .*check user and password") as shown_text:
            ask()
        assert "wrong-word" not in str(shown_text.value)
    with pytest.raises(ComponentError, match="check user and password"):
        send_events(rocketmq_acl, topic, events(1), **{"user": None, "password": None, **login})


def test_a_message_of_five_mebibytes_is_a_dead_letter_and_one_below_four_is_sent(rocketmq: RocketMq) -> None:
    topic = topic_of(rocketmq)
    batch = events(3, message=["x" * (5 << 20), "y" * ((4 << 20) - 100), "z"])

    rejected = send_events(rocketmq, topic, batch, body_field="message")

    assert [(r.code, r.events.column("_offset").to_pylist()) for r in rejected] == [("event-too-large", [0])]
    assert [len(text) for text in texts(read_all(source_of(rocketmq, topic), 2))] == [(4 << 20) - 100, 1]


def test_a_topic_that_is_deleted_while_it_is_read_ends_the_run(rocketmq: RocketMq) -> None:
    topic = topic_of(rocketmq, 1)
    send_events(rocketmq, topic, events(5), body_field="message")
    source = source_of(rocketmq, topic, discovery="1ms")
    end = wait_for_messages(source, source.start(), 5)

    delete_topic(rocketmq, topic)

    with pytest.raises(ComponentError, match=f"there is no topic '{topic}'.*it existed before and was deleted"):
        source.latest(end, EVERYTHING)


def test_a_topic_that_was_created_again_is_a_loss_or_begins_again(rocketmq: RocketMq) -> None:
    topic = topic_of(rocketmq, 1)
    send_events(rocketmq, topic, events(5), body_field="message")
    source = source_of(rocketmq, topic, discovery="1ms")
    start = source.start()
    end = wait_for_messages(source, start, 5)
    split = source.splits({"queues": {f"broker-a/{topic}/0": 1}}, end, 1)[0]

    delete_topic(rocketmq, topic)
    rocketmq.create_topic(topic, 1)
    send_one(rocketmq, topic, b"new")

    patient = source_of(rocketmq, topic, discovery="1ms", on_data_loss="earliest")
    with pytest.raises(ComponentError, match=r"its topic was created again.*on_data_loss: earliest"):
        wait_for_messages(source, end, 1)
    with pytest.raises(ComponentError, match="messages from offset 1 on are lost"):
        list(source.read(split))
    after = patient.latest(end, EVERYTHING)
    lost, new = read(patient, end, after)
    assert (lost.code, lost.events.num_rows) == ("data-lost", 1)
    assert new["message"] == "new"
    assert patient.splits(end, after, 1)[0].partition == f"broker-a/{topic}/0#1"
