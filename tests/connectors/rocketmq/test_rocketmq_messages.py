"""Events as messages: bytes of a batch, Java's hash codes, events that no broker accepts, and division into requests."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.rocketmq.batch_sender import BatchPart, SendResult
from connectors.rocketmq.message_encoding import MessageEncoding
from connectors.rocketmq.protocol.connection import ConnectionSettings
from connectors.rocketmq.protocol.routes import Queue, Route
from connectors.rocketmq.sink import RocketmqSink
from connectors.rocketmq.source import RocketmqSource
from connectors.rocketmq.writer import MAX_REQUEST_BYTES, REQUEST_BYTES, TopicWriter, _choose_queues
from etl.api import Result

QUEUES = tuple(Queue("broker-a", "web", number) for number in range(4))


def events(**columns: object) -> pa.RecordBatch:
    count = len(next(iter(columns.values())))  # type: ignore[arg-type]
    identities = [f"run-{number}" for number in range(count)]
    return pa.record_batch({**columns, "_offset": np.arange(count), "_identity": identities})


def decoded(data: bytes) -> list[tuple[bytes, str]]:
    """Decode the bodies and properties of a batch like a broker."""
    found, at = [], 0
    while at < len(data):
        total, magic, checksum, flag, length = struct.unpack_from(">5i", data, at)
        body = data[at + 20 : at + 20 + length]
        (width,) = struct.unpack_from(">h", data, at + 20 + length)
        assert (magic, checksum, flag, total) == (0, 0, 0, 22 + length + width)
        found.append((body, data[at + 22 + length : at + total].decode()))
        at += total
    return found


def encoded(batch: pa.RecordBatch, form: MessageEncoding) -> list[tuple[bytes, str]]:
    messages = form.encode(batch)
    data = bytes(messages.concatenate(np.arange(len(batch))))
    assert len(data) == messages.sizes.sum()
    return decoded(data)


def test_a_message_byte_by_byte() -> None:
    messages = MessageEncoding("message", "tag").encode(events(message=["hello"], tag=["login"]))

    assert bytes(messages.concatenate(np.arange(1))) == (
        b"\x00\x00\x00\x31" + bytes(12) + b"\x00\x00\x00\x05hello" + b"\x00\x16KEYS\x01run-0\x02TAGS\x01login\x02"
    )


def test_the_event_is_the_body_as_json() -> None:
    batch = events(message=["a\nb", "ü"], **{"source.ip": ["10.0.0.1", None]})

    assert encoded(batch, MessageEncoding(identity=False)) == [
        (b'{"message":"a\\nb","source":{"ip":"10.0.0.1"}}', ""),
        ('{"message":"ü","source":{"ip":null}}'.encode(), ""),
    ]


def test_bytes_are_an_unchanged_body() -> None:
    batch = events(body=pa.array([b"\x00\xff\n", b"", b"x" * 5000], pa.binary()))

    assert [body for body, _ in encoded(batch, MessageEncoding("body"))] == [b"\x00\xff\n", b"", b"x" * 5000]
    assert [body for body, _ in encoded(batch.slice(1, 1), MessageEncoding("body"))] == [b""]


def test_keys_tags_and_properties_of_any_type_and_of_none() -> None:
    batch = events(message=["a", "b"], tag=["t", None], user=["root", None], port=[22, None], trace=["", "x y"])

    found = encoded(batch, MessageEncoding("message", "tag", ("user", "port"), True, {"trace": "traceId"}))

    assert [properties for _, properties in found] == [
        "KEYS\x01run-0 root 22\x02TAGS\x01t\x02",
        "KEYS\x01run-1\x02traceId\x01x y\x02",
    ]


def test_events_without_keys_keep_the_properties_of_others_apart() -> None:
    batch = events(message=["a", "b", "c"], user=["root", None, "eve"], host=["h", None, None])

    found = encoded(batch, MessageEncoding("message", keys=("user", "host"), identity=False))

    assert found == [(b"a", "KEYS\x01root h\x02"), (b"b", ""), (b"c", "KEYS\x01eve\x02")]


def test_no_value_adds_a_property() -> None:
    batch = events(message=["a"], tag=["t\x02DELAY\x0118\x02"])

    assert encoded(batch, MessageEncoding("message", "tag", identity=False)) == [(b"a", "TAGS\x01t\ufffdDELAY\ufffd18\ufffd\x02")]


@given(st.lists(st.text(max_size=20), min_size=1, max_size=20))
@settings(deadline=None)
def test_hash_codes_are_those_of_java(texts: list[str]) -> None:
    def java(text: str) -> int:
        code = 0
        raw = text.encode("utf-16-be")
        for unit in struct.unpack(f">{len(raw) // 2}H", raw):
            code = (31 * code + unit) & 0xFFFFFFFF
        return code - (1 << 32) if code >> 31 else code

    found = _choose_queues(pa.array(texts), 1 << 31, 0)

    assert found.tolist() == [abs(int(np.fmod(java(text), 1 << 31))) for text in texts]


def test_known_hash_codes() -> None:
    assert _choose_queues(pa.array(["Aa", "BB", "", None]), 1 << 31, 77).tolist() == [2112, 2112, 0, 77]


class Recorder:
    """Replaces a cluster and its connections: records requests, and refuses given bodies."""

    def __init__(self, is_permanent: bytes = b"?", busy: int = -1) -> None:
        self.is_permanent, self.busy = is_permanent, busy
        self.requests: list[tuple[Queue, bytes]] = []

    def find_route(self, topic: str) -> Route:
        return Route({"broker-a": ("h:1",)}, frozenset(["broker-a"]), QUEUES, QUEUES)

    def send(self, parts: list[BatchPart], messages: object) -> list[SendResult]:
        found = []
        for part in parts:
            data = bytes(messages.concatenate(part.rows))  # type: ignore[attr-defined]
            self.requests.append((part.queue, data))
            is_permanent = any(body == self.is_permanent for body, _ in decoded(data))
            busy = part.queue.number == self.busy
            found.append(SendResult(part, "no" if is_permanent or busy else "", is_permanent))
        return found

    def close(self) -> None:
        pass


def written(
    batch: pa.RecordBatch, recorder: Recorder, queue_field: str | None = None, form: MessageEncoding | None = None
) -> Result:
    writer = TopicWriter(recorder, "web", form or MessageEncoding("message"), queue_field, "sluice", "split")  # type: ignore[arg-type]
    writer._sender = recorder  # type: ignore[assignment]
    return writer.write(batch)


def sent(recorder: Recorder) -> list[bytes]:
    return [body for _, data in recorder.requests for body, _ in decoded(data)]


def test_requests_are_bounded_and_have_all_events_once() -> None:
    recorder, bodies = Recorder(), [b"%d" % n * 400 for n in range(5000)]

    result = written(events(message=[body.decode() for body in bodies]), recorder)

    assert not result.cause
    assert sent(recorder) == bodies
    assert max(len(data) for _, data in recorder.requests) <= REQUEST_BYTES
    assert min(len(data) for _, data in recorder.requests[:-1]) > REQUEST_BYTES * 0.9
    assert len({queue for queue, _ in recorder.requests}) == 4, "all queues in turn"


def test_events_of_a_key_are_in_one_queue_in_order() -> None:
    recorder = Recorder()

    written(events(message=[str(n) for n in range(1000)], key=[f"k{n % 7}" for n in range(1000)]), recorder, "key")

    seen: dict[int, set[Queue]] = {}
    for queue, data in recorder.requests:
        numbers = [int(body) for body, _ in decoded(data)]
        assert numbers == sorted(numbers)
        for number in numbers:
            seen.setdefault(number % 7, set()).add(queue)
    assert all(len(queues) == 1 for queues in seen.values())


def test_events_that_no_broker_accepts_are_rejected_and_the_others_sent() -> None:
    recorder = Recorder()
    batch = events(message=["a", None, "x" * MAX_REQUEST_BYTES, "b", "c"], tag=["t", "t", "t", "t" * 40_000, "t"])

    result = written(batch, recorder, form=MessageEncoding("message", "tag"))

    assert sorted((r.code, r.events.column("_offset").to_pylist()) for r in result.rejected) == [
        ("event-too-large", [2]),
        ("null-body", [1]),
        ("properties-too-long", [3]),
    ]
    assert sent(recorder) == [b"a", b"c"]


def test_a_refused_request_is_halved_until_the_bad_event_is_found() -> None:
    recorder = Recorder(is_permanent=b"bad")

    result = written(events(message=["a", "b", "bad", "c", "d"]), recorder)

    assert [(r.code, r.events.column("_offset").to_pylist(), r.reasons) for r in result.rejected] == [
        ("rocketmq-rejected", [2], "no")
    ]
    accepted = [body for _, data in recorder.requests for body, _ in decoded(data) if b"bad" not in [b for b, _ in decoded(data)]]
    assert accepted == [b"a", b"b", b"c", b"d"]
    assert result.retryable is None


def test_only_messages_that_were_not_stored_are_retried() -> None:
    batch = events(message=[str(n) for n in range(100)], key=[f"k{n}" for n in range(100)])

    result = written(batch, Recorder(busy=2), "key")

    expected = np.flatnonzero(_choose_queues(batch.column("key"), 4, 0) == 2)
    assert result.retryable is not None
    assert result.retryable.to_pylist() == expected.tolist()
    assert result.cause == "no"


def test_sizes_are_those_of_encoded_messages() -> None:
    writer = TopicWriter(Recorder(), "web", MessageEncoding("message"), None, "sluice", "split")  # type: ignore[arg-type]

    sizes = writer.sizes(events(message=["a", "bcd"]))

    assert sizes is not None
    assert sizes.to_pylist() == [22 + 1 + 11, 22 + 3 + 11]


def codes(findings: object) -> list[tuple[str, tuple[str | int, ...]]]:
    return [(finding.code, finding.path) for finding in findings]  # type: ignore[attr-defined]


def test_options_of_the_sink_that_exclude_each_other() -> None:
    sink = RocketmqSink.model_validate(
        {
            "servers": ["localhost:9876", "localhost"],
            "topic": "web",
            "password": "secret",
            "tag_field": "tga",
            "key_fields": ["labels"],
            "property_fields": {"tag": "DELAY"},
            "batch": {"max_bytes": "5MiB"},
        }
    )
    schema = pa.schema([("tag", pa.string()), ("labels", pa.list_(pa.string()))])

    assert codes(sink.check(schema)) == [
        ("bad-port", ("servers", 1)),
        ("missing-user", ("password",)),
        ("unknown-field", ("tag_field",)),
        ("wrong-type", ("key_fields", 0)),
        ("reserved-property", ("property_fields", "tag")),
        ("batch-too-large", ("batch", "max_bytes")),
    ]
    assert "secret" not in repr(sink)


def test_options_of_the_source_that_exclude_each_other() -> None:
    source = RocketmqSource.model_validate(
        {
            "servers": ["localhost:9876"],
            "topics": ["web"],
            "user": "etl",
            "tags": "a | b",
            "start": "timestamp",
            "start_offsets": {"broker-a/wob/0": 1, "web": 2},
            "tag_field": "message",
        }
    )

    assert codes(source.check()) == [
        ("missing-password", ("user",)),
        ("missing-option", ("start",)),
        ("unused-option", ("start_offsets",)),
        ("bad-queue", ("start_offsets",)),
        ("bad-queue", ("start_offsets",)),
        ("bad-tags", ("tags",)),
        ("duplicate-field", ()),
    ]


def test_tags_and_a_condition_exclude_each_other() -> None:
    given = {"servers": ["localhost:9876"], "topics": ["web"], "tags": "a", "filter": "TAGS = 'a' AND region = 'eu'"}

    assert codes(RocketmqSource.model_validate(given).check()) == [("filter-conflict", ("filter",))]


@pytest.mark.parametrize("start", ["group", "offsets", "timestamp"])
def test_each_start_needs_its_option(start: str) -> None:
    source = RocketmqSource.model_validate({"servers": ["localhost:9876"], "topics": ["web"], "start": start})

    assert codes(source.check()) == [("missing-option", ("start",))]


def test_only_the_signature_uses_the_password() -> None:
    source = RocketmqSource.model_validate({"servers": ["h:1"], "topics": ["web"], "user": "etl", "password": "secret"})

    access = source.settings()

    assert isinstance(access, ConnectionSettings)
    assert access.login is not None
    assert access.login.password == "secret"
    assert "secret" not in f"{source!r} {access!r} {source.model_dump_json()}"
