"""The `http` source as Loki and as an OpenTelemetry collector, with requests as their clients make them."""

from __future__ import annotations

import json
import struct
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from receiving import create_source, messages, send
from source_events import read_all, receiving

from connectors.http.receiving.formats.loki import parse_labels
from connectors.shared.receiving.protobuf import read_fields, write_bytes, write_varint

JSON, PROTOBUF = "application/json", "application/x-protobuf"
AT, SECONDS = datetime(2026, 11, 27, 8, 0, 0, 250000, UTC), 1795766400
NANOS = SECONDS * 1_000_000_000 + 250_000_000


def text(number: int, value: str) -> bytes:
    return write_bytes(number, value.encode())


def fixed64(number: int, value: int) -> bytes:
    return bytes([number << 3 | 1]) + struct.pack("<Q", value)


# ── Loki ──


def loki_push(labels: str, *lines: str) -> bytes:
    at = write_bytes(1, write_varint(1, SECONDS) + write_varint(2, 250_000_000))
    pair = write_bytes(3, text(1, "trace") + text(2, "abc"))
    entries = [write_bytes(2, at + text(2, line) + pair) for line in lines]
    return write_bytes(1, text(1, labels) + b"".join(entries) + write_varint(3, 7))


def test_loki_push_of_promtail(tmp_path: Path) -> None:
    source = create_source(tmp_path, format="loki")
    body = loki_push('{job="app", path="a\\"b"}', "one", 'two "x" é') + loki_push("{}", "three")
    with receiving(source) as receiver:
        packed = pa.compress(body, "snappy", asbytes=True)
        answer = send(receiver, "/loki/api/v1/push", packed, Content_Type=PROTOBUF)
        assert send(receiver, "/loki/api/v1/push", packed, Content_Type=PROTOBUF, Content_Encoding="snappy").status == 204
        assert send(receiver, "/ready", None, "GET").body == b"ready\n"

    assert (answer.status, answer.body) == (204, b"")
    found = read_all(source)[:3]
    assert [row["message"] for row in found] == ["one", 'two "x" é', "three"]
    assert [json.loads(row["loki.labels"]) for row in found] == [{"job": "app", "path": 'a"b'}] * 2 + [{}]
    assert {row["timestamp"] for row in found} == {AT}
    assert {row["loki.metadata"] for row in found} == {'{"trace": "abc"}'}


def test_loki_push_as_json(tmp_path: Path) -> None:
    source = create_source(tmp_path, format="loki", max_event_bytes=100)
    streams = [
        {"stream": {"job": "a"}, "values": [[str(NANOS), "x" * 200], [str(NANOS), "short", {"k": "v"}]]},
        {"stream": {"job": "b"}, "values": [["0", "without a time"]]},
        {"stream": {"job": "empty"}, "values": []},
    ]
    with receiving(source) as receiver:
        assert send(receiver, "/loki/api/v1/push", json.dumps({"streams": streams}).encode(), Content_Type=JSON).status == 204
        assert send(receiver, "/loki/api/v1/push", b'{"streams":[]}', Content_Type=JSON).status == 204

    found = [(row["message"], row["loki.labels"], row["timestamp"], row["loki.metadata"]) for row in read_all(source)[:2]]
    assert found == [("short", '{"job": "a"}', AT, '{"k": "v"}'), ("without a time", '{"job": "b"}', None, None)]
    assert read_all(source)[2]["code"] == "message-too-long"


@pytest.mark.parametrize(
    ("type_", "body"),
    [
        (JSON, b"{"),
        (JSON, b"[]"),
        (JSON, b'{"streams":[{"stream":{},"values":[["now","x"]]}]}'),
        (JSON, b'{"streams":[{"stream":{},"values":[["1",2]]}]}'),
        (JSON, b'{"streams":[{"stream":"a=b","values":[]}]}'),
        (JSON, b'{"streams":[{"stream":{},"values":[[1e999,"x"]]}]}'),
        (JSON, b'{"streams":[{"stream":{},"values":[["1","x",{"k":NaN}]]}]}'),
        (JSON, b"[" * 100_000),
        (PROTOBUF, b"not snappy"),
        (PROTOBUF, pa.compress(b"\x0a\xff\xff\xff\xff\x0flie", "snappy", asbytes=True)),
        (PROTOBUF, pa.compress(loki_push("no labels", "x"), "snappy", asbytes=True)),
    ],
)
def test_a_damaged_push_is_refused(tmp_path: Path, type_: str, body: bytes) -> None:
    source = create_source(tmp_path, format="loki")
    with receiving(source) as receiver:
        assert send(receiver, "/loki/api/v1/push", body, Content_Type=type_).status == 400

    assert messages(source) == []


def test_labels() -> None:
    assert parse_labels(' {a="1",b = "x, y=\\"z\\"}",} ') == {"a": "1", "b": 'x, y="z"}'}
    with pytest.raises(ValueError, match="labels are"):
        parse_labels('{a="1" b="2"}')


# ── OpenTelemetry ──


def otlp_string(value: str) -> bytes:
    return text(1, value)


def attribute(number: int, key: str, value: bytes) -> bytes:
    return write_bytes(number, text(1, key) + write_bytes(2, value))


def otlp_record(body: bytes, *more: bytes) -> bytes:
    known = [fixed64(1, NANOS), write_varint(2, 17), text(3, "ERROR"), write_bytes(5, body), write_bytes(9, bytes(range(16)))]
    return b"".join([*known, write_bytes(10, bytes(8)), fixed64(11, NANOS), *more])


def otlp_request(*records: bytes) -> bytes:
    resource = write_bytes(1, attribute(1, "service.name", otlp_string("shop")))
    scope = write_bytes(1, text(1, "library") + text(2, "1.2"))
    return write_bytes(1, resource + write_bytes(2, scope + b"".join(write_bytes(2, record) for record in records)))


VALUES: dict[str, tuple[bytes, Any, Any]] = {
    "s": (text(1, "é"), {"stringValue": "é"}, "é"),
    "b": (write_varint(2, 1), {"boolValue": True}, True),
    "i": (write_varint(3, (1 << 64) - 5), {"intValue": "-5"}, -5),
    "d": (bytes([4 << 3 | 1]) + struct.pack("<d", 1.5), {"doubleValue": 1.5}, 1.5),
    "a": (write_bytes(5, write_bytes(1, otlp_string("x"))), {"arrayValue": {"values": [{"stringValue": "x"}]}}, ["x"]),
    "k": (
        write_bytes(6, attribute(1, "n", write_varint(3, 1))),
        {"kvlistValue": {"values": [{"key": "n", "value": {"intValue": 1}}]}},
        {"n": 1},
    ),
    "y": (write_bytes(7, b"\xff"), {"bytesValue": "/w=="}, "/w=="),
    "e": (b"", {}, None),
}


def as_protobuf() -> bytes:
    attributes = [attribute(6, name, value) for name, (value, _, _) in VALUES.items()]
    return otlp_request(otlp_record(otlp_string("hello"), *attributes), otlp_record(VALUES["k"][0]))


def as_json() -> bytes:
    attributes = [{"key": name, "value": value} for name, (_, value, _) in VALUES.items()]
    common = {
        "timeUnixNano": str(NANOS),
        "observedTimeUnixNano": str(NANOS),
        "severityNumber": 17,
        "severityText": "ERROR",
        "traceId": bytes(range(16)).hex(),
        "spanId": bytes(8).hex(),
    }
    records = [{**common, "body": {"stringValue": "hello"}, "attributes": attributes}, {**common, "body": VALUES["k"][1]}]
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    scope_logs = [{"scope": {"name": "library", "version": "1.2"}, "logRecords": records}]
    return json.dumps({"resourceLogs": [{"resource": resource, "scopeLogs": scope_logs}]}).encode()


@pytest.mark.parametrize(("type_", "body", "success"), [(PROTOBUF, as_protobuf(), b""), (JSON, as_json(), b"{}")])
def test_otlp_logs(tmp_path: Path, type_: str, body: bytes, success: bytes) -> None:
    source = create_source(tmp_path, format="opentelemetry")
    with receiving(source) as receiver:
        answer = send(receiver, "/v1/logs", body, Content_Type=type_)

    assert (answer.status, answer.body, answer.headers["content-type"]) == (200, success, type_)
    first, second = read_all(source)
    assert (first["message"], second["message"]) == ("hello", '{"n": 1}')
    assert first["timestamp"] == first["otel.observed_timestamp"] == AT
    assert (first["otel.severity_number"], first["log.level"], first["span.id"]) == (17, "ERROR", "00" * 8)
    assert first["trace.id"] == "000102030405060708090a0b0c0d0e0f"
    assert json.loads(first["otel.attributes"]) == {name: value for name, (_, _, value) in VALUES.items()}
    assert second["otel.attributes"] is None
    assert json.loads(first["otel.resource"]) == {"service.name": "shop"}
    assert json.loads(second["otel.scope"]) == {"name": "library", "version": "1.2", "attributes": {}}


def test_damaged_records_are_rejected_alone(tmp_path: Path) -> None:
    source = create_source(tmp_path, format="opentelemetry")
    deep = otlp_string("x")
    for _ in range(40):
        deep = write_bytes(5, write_bytes(1, deep))
    with receiving(source) as receiver:
        binary = otlp_request(otlp_record(otlp_string("good")), b"\x0b", otlp_record(deep))
        partial = send(receiver, "/v1/logs", binary, Content_Type=PROTOBUF)
        number = {"key": "n", "value": {"doubleValue": float("inf")}}
        good = {"body": {"stringValue": "good"}, "attributes": [number]}
        logs = [good, {"timeUnixNano": "soon"}, {"timeUnixNano": float("inf")}, 7]
        body = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": logs}]}]}).encode()
        as_text = send(receiver, "/v1/logs", body, Content_Type=JSON).json["partialSuccess"]

    (message,) = read_fields(partial.body)
    rejected, reason = read_fields(message.data)
    assert (rejected.value, reason.data) == (2, b"a record is damaged: wire type 3 does not exist")
    assert as_text["rejectedLogRecords"] == "3"
    found = [(row["message"], row["otel.attributes"]) for row in read_all(source)]
    assert found == [("good", None), ("good", '{"n": null}')]


def test_a_request_has_a_limited_number_of_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.http.receiving.requests.MAX_RECORDS", 3)
    loki, otlp = create_source(tmp_path / "loki", format="loki"), create_source(tmp_path / "otlp", format="opentelemetry")
    with receiving(loki) as receiver:
        bodies = [loki_push("{}", *"ab"), loki_push("{}", *"abc"), loki_push("{}") * 4]
        statuses = [send(receiver, "/loki/api/v1/push", pa.compress(one, "snappy", asbytes=True)).status for one in bodies]
        as_text = json.dumps({"streams": [{"stream": {}, "values": [["1", "x"]] * 3}]}).encode()
        statuses.append(send(receiver, "/loki/api/v1/push", as_text, Content_Type=JSON).status)
    with receiving(otlp) as receiver:
        requests = [otlp_request(*[otlp_record(otlp_string("x"))] * 4), write_bytes(1, b"\x12\x00" * 4)]
        statuses += [send(receiver, "/v1/logs", one, Content_Type=PROTOBUF).status for one in requests]

    assert statuses == [204, 413, 413, 413, 413, 413]
    assert (messages(loki), messages(otlp)) == (["a", "b"], [])


def test_otlp_errors_are_statuses(tmp_path: Path) -> None:
    source = create_source(tmp_path, format="opentelemetry", tokens=["t"])
    with receiving(source) as receiver:
        binary = send(receiver, "/v1/logs", b"\x0a\x05lie", Content_Type=PROTOBUF, Authorization="Bearer t")
        answers = [
            send(receiver, "/v1/logs", b"[]", Content_Type=JSON, Authorization="Bearer t"),
            send(receiver, "/v1/logs", b"", Content_Type=JSON),
            send(receiver, "/v1/traces", b"", Content_Type=JSON, Authorization="Bearer t"),
            send(receiver, "/v1/logs", b"", Content_Type="text/plain", Authorization="Bearer t"),
        ]

    code, message = read_fields(binary.body)
    assert (binary.status, code.value, message.data.startswith(b"the body is not an export request")) == (400, 3, True)
    assert [(answer.status, answer.json["code"]) for answer in answers] == [(400, 3), (401, 16), (404, 5), (415, 3)]
