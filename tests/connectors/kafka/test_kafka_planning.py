"""What the Kafka source plans, and what both components say about their options, without a server."""

from __future__ import annotations

import itertools
import pickle

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.kafka.connection_options import ClusterOptions
from connectors.kafka.errors import to_exception
from connectors.kafka.offset_ranges import (
    MIN_SPLIT_EVENTS,
    OffsetRanges,
    TopicRange,
    lowest_ends,
    max_batch_events,
    plan_splits,
    share_fairly,
)
from connectors.kafka.sink import KafkaSink
from connectors.kafka.source import KafkaSource
from connectors.kafka.topics import Topic, TopicDiscovery, TopicSelection, TopicVanishedError
from etl.api import ComponentError, Limit

SERVERS = {"servers": ["localhost:9092"]}
FIELDS = pa.schema(
    [("message", pa.string()), ("n", pa.int64()), ("time", pa.timestamp("us", "UTC")), ("list", pa.list_(pa.int64()))]
)

offsets = st.integers(0, 10**7)
stands = st.lists(st.tuples(offsets, offsets), min_size=1, max_size=5).map(
    lambda pairs: TopicRange("id", tuple(a for a, _ in pairs), tuple(a + b for a, b in pairs))
)
positions = st.dictionaries(st.sampled_from(["a", "b", "c.d"]), stands, min_size=1).map(OffsetRanges)


def codes(component: KafkaSource | KafkaSink) -> list[str]:
    found = component.check(FIELDS) if isinstance(component, KafkaSink) else component.check()
    return [finding.code for finding in found]


def source(**options: object) -> KafkaSource:
    return KafkaSource.model_validate({"type": "kafka", **SERVERS, "topics": ["t"], **options})


def sink(**options: object) -> KafkaSink:
    return KafkaSink.model_validate({"type": "kafka", **SERVERS, "topic": "t", **options})


@pytest.mark.slow
@given(positions, st.integers(1, 16))
def test_splits_cover_every_offset_once_and_in_order(position: OffsetRanges, parallelism: int) -> None:
    parts = plan_splits(position, parallelism)

    covered: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for part in parts:
        assert part.start < part.end
        covered.setdefault(part.detail, []).append((part.start, part.end))
    for partition, begin, end in position.ranges():
        ranges = covered.pop(partition)
        assert ranges[0][0] == begin
        assert ranges[-1][1] == end
        assert all(a[1] == b[0] for a, b in itertools.pairwise(ranges))
    assert not covered


def test_one_large_partition_is_divided_for_all_cores() -> None:
    position = OffsetRanges({"t": TopicRange("", (0,), (1_000_000,))})

    sizes = [part.end - part.start for part in plan_splits(position, 4)]

    assert sizes == [250_000] * 4


def test_a_small_range_is_one_split() -> None:
    position = OffsetRanges({"t": TopicRange("", (5,), (5 + MIN_SPLIT_EVENTS,))})

    assert [(part.partition, part.start, part.end) for part in plan_splits(position, 8)] == [("t/0", 5, 5 + MIN_SPLIT_EVENTS)]


@pytest.mark.slow
@given(positions)
def test_an_offset_survives_json(position: OffsetRanges) -> None:
    assert OffsetRanges.from_offset(position.to_offset()) == position


@given(st.dictionaries(st.integers(0, 50), st.integers(1, 1000), min_size=1), st.integers(1, 5000))
def test_a_budget_is_shared_fairly(requested: dict[int, int], max_messages: int) -> None:
    given_ = share_fairly({("t", number): want for number, want in requested.items()}, max_messages)

    assert sum(given_.values()) == min(max_messages, sum(requested.values()))
    largest = max(given_.values())
    assert all(got == requested[number] or got >= largest - 1 for (_, number), got in given_.items())


def test_the_limit_depends_on_the_size_of_events() -> None:
    assert max_batch_events(Limit(1_000_000, event_bytes=100.0)) == 10_000
    assert max_batch_events(Limit(1_000_000, max_events=7, event_bytes=100.0)) == 7
    assert max_batch_events(Limit(1, event_bytes=1e9)) == 1


def test_the_smallest_offset_is_what_all_queries_have_read() -> None:
    one = OffsetRanges({"t": TopicRange("", (0, 0), (5, 9))})
    other = OffsetRanges({"t": TopicRange("", (0,), (7,))})

    assert lowest_ends([one, other]) == {("t", 0): 5}


def test_a_topic_that_is_missing_for_a_moment_is_a_temporary_error() -> None:
    now = [0.0]
    settings = ClusterOptions(servers=("h:1",)).settings()
    begin = OffsetRanges({"t": TopicRange("id", (0,), (1,))})
    looks: list[dict[str, Topic]] = [{"t": Topic("id", 1)}, {}, {}, {}]

    class Scripted(TopicSelection):
        def find(self, settings: object) -> dict[str, Topic]:
            return looks.pop(0)

    discovery = TopicDiscovery(settings, Scripted(("t",)), clock=lambda: now[0])

    assert discovery.topics(begin, 5) == {"t": Topic("id", 1)}
    now[0] = 4
    assert discovery.topics(begin, 5) == {"t": Topic("id", 1)}
    now[0] = 6
    with pytest.raises(TopicVanishedError, match="no topic 't' any more"):
        discovery.topics(begin, 5)
    now[0] = 10
    with pytest.raises(TopicVanishedError):
        discovery.topics(begin, 5)
    now[0] = 17
    assert discovery.topics(begin, 5) == {}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, []),
        ({"topics": []}, ["no-topics"]),
        ({"pattern": "a.*"}, ["no-topics"]),
        ({"topics": [], "pattern": "a("}, ["bad-regex"]),
        ({"topics": [".."]}, ["bad-topic"]),
        ({"topics": ["a", "a"]}, ["duplicate-topic"]),
        ({"start": "timestamp"}, ["missing-option"]),
        ({"start": "offsets", "start_offsets": {"tt": {"0": 1}}}, ["bad-partition"]),
        ({"start": "group"}, ["missing-option"]),
        ({"start": "group", "commit_group": "g"}, []),
        ({"commit_group": "g"}, []),
        ({"start_time": "2026-01-01T00:00:00Z"}, ["unused-option"]),
        ({"key_field": "message"}, ["duplicate-field"]),
        ({"metadata": True, "headers": {"kafka.topic": "x"}}, ["duplicate-field"]),
        ({"password": "x"}, ["missing-user"]),
        ({"servers": ["localhost:99999"]}, ["bad-port"]),
        ({"properties": {"sasl.password": "x"}}, ["reserved-property"]),
        ({"properties": {"group.id": "x"}}, ["reserved-property"]),
        ({"create": {}}, []),
        ({"topics": [], "pattern": "a.*", "create": {}}, ["unused-option"]),
    ],
)
def test_findings_about_a_source(options: dict[str, object], expected: list[str]) -> None:
    assert codes(source(**options)) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"key": ["n", "message"], "headers": {"n": "x"}, "time_field": "time"}, []),
        ({"topic": "logs-{n}"}, []),
        ({"topic": "logs-{m}"}, ["unknown-field"]),
        ({"topic": "a b"}, ["bad-topic"]),
        ({"topic": "a/{n}"}, ["bad-topic"]),
        ({"key": ["m"]}, ["unknown-field"]),
        ({"value_field": "mesage"}, ["unknown-field"]),
        ({"time_field": "n"}, ["wrong-type"]),
        ({"value_field": "list"}, ["wrong-type"]),
        ({"properties": {"transactional.id": "x"}}, ["reserved-property"]),
        ({"create": {"partitions": 8, "replication": 1}}, []),
        ({"topic": "logs-{n}", "create": {}}, ["unused-option"]),
        ({"key": ["n", "message"], "key_format": "json", "key_prefix": "mess", "key_in_value": False}, []),
        ({"key": ["n"], "key_prefix": "n_"}, ["unused-option"]),
        ({"key": ["n"], "key_format": "json", "key_prefix": "m"}, ["unused-option"]),
        ({"key": ["n"], "key_format": "json", "key_prefix": "n"}, ["invalid-value"]),
        ({"key": ["n", "message"], "key_format": "json", "key_prefix": "message"}, ["invalid-value"]),
        ({"key": ["n", "n"], "key_format": "json"}, ["invalid-value"]),
        ({"key_format": "json", "key_in_value": False}, ["unused-option", "unused-option"]),
        ({"value_field": "message", "changes": "debezium"}, ["unused-option"]),
    ],
)
def test_findings_about_a_sink(options: dict[str, object], expected: list[str]) -> None:
    assert codes(sink(**options)) == expected


def test_the_guarantee_is_that_of_the_delivery() -> None:
    assert sink().guaranteed() == "at least once"
    assert sink(delivery="exactly_once").guaranteed() == "exactly once"


def test_credentials_become_properties_and_are_not_shown() -> None:
    options = {"user": "anna", "password": "hunter2", "tls": {"authority": "/ca.pem", "verify": "authority"}}
    settings = source(**options, properties={"client.rack": "a", "socket.keepalive.enable": False}).settings()

    conf = settings.properties_with(linger_ms=5)
    assert conf["sasl.password"] == "hunter2"
    assert conf["security.protocol"] == "sasl_ssl"
    assert conf["ssl.endpoint.identification.algorithm"] == "none"
    assert conf["ssl.ca.location"] == "/ca.pem"
    assert conf["client.rack"] == "a"
    assert conf["socket.keepalive.enable"] == "false"
    assert conf["linger.ms"] == 5
    assert "hunter2" not in f"{settings!r} {source(**options)!r}"
    assert hash(settings) == hash(pickle.loads(pickle.dumps(settings)))


@pytest.mark.parametrize(
    ("name", "text", "kind", "reason"),
    [
        ("_TRANSPORT", "h:1/bootstrap: Connect to ipv4#1.2.3.4:1 failed: Connection refused (after 0ms in state CONNECT)",
         ConnectionError, "kafka h:1: Connect to 1.2.3.4:1 failed: Connection refused"),
        ("_AUTHENTICATION", "sasl_plaintext://h:1/bootstrap: SASL authentication error: no", ComponentError, "user, password"),
        ("_SSL", "ssl://h:1/bootstrap: SSL handshake failed: certificate verify failed", ComponentError, "tls.authority"),
        ("_SSL", "ssl://h:1/bootstrap: SSL handshake failed: Disconnected", ConnectionError, "kafka h:1: SSL handshake"),
        ("_TIMED_OUT", "Timed out", TimeoutError, "kafka h:1: Timed out"),
        ("TOPIC_AUTHORIZATION_FAILED", "Topic authorization failed", ComponentError, "rights"),
    ],
)  # fmt: skip
def test_errors_are_temporary_or_permanent(name: str, text: str, kind: type[Exception], reason: str) -> None:
    class Error:
        def name(self) -> str:
            return name

        def str(self) -> str:
            return text

    raised = to_exception("h:1", Error())  # type: ignore[arg-type]

    assert type(raised) is kind
    assert reason in str(raised)
