"""The opentelemetry sink: its messages are read by the classes of opentelemetry-proto, and by our own receiver."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fake_http import FakeServer, Reply
from google.protobuf.json_format import MessageToDict, Parse
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsPartialSuccess,
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from receiving import create_source
from source_events import read_all, receiving

from connectors.opentelemetry.sink import OpenTelemetrySink
from connectors.opentelemetry.wire_columns import ProtobufForm
from etl.api import OFFSET, TIMESTAMP, ComponentError, Result, Task

AT = datetime(2026, 11, 28, 8, 0, 0, 250001, UTC)
NANOS = 1_795_852_800_250_001_000
SECRET = "hunter2-otlp"
PROTOBUF = {"Content-Type": "application/x-protobuf"}
TRACE, SPAN = "0AF7651916CD43DD8448EB211C80319C", "b7ad6b7169203331"

FORMATS = pytest.mark.parametrize("format", ["protobuf", "json"])


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with (server := FakeServer()).running():
        yield server


def batch(count: int, **columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": list(range(count)), **columns, OFFSET: list(range(count))})


def create_sink(url: str, **options: Any) -> OpenTelemetrySink:
    return OpenTelemetrySink.model_validate({"type": "opentelemetry", "urls": [url], **options})


def write(server: FakeServer, events: pa.RecordBatch, **options: Any) -> Result:
    task = Task("p", "out", "split", "/nowhere", events.drop_columns([OFFSET]).schema)
    return create_sink(server.url, **options).open(task).write(events)


def exported(server: FakeServer, at: int = -1) -> ExportLogsServiceRequest:
    """Return a request, read strictly: an unknown member or a wrong length is an error."""
    request = server.requests[at]
    if request.headers["content-type"] == "application/json":
        document = json.loads(request.body)
        for resource in document["resourceLogs"]:
            for record in resource["scopeLogs"][0]["logRecords"]:
                for name in ("traceId", "spanId"):  # hexadecimal in OTLP, and Base64 in the JSON of Protocol Buffers
                    if name in record:
                        record[name] = base64.b64encode(bytes.fromhex(record[name])).decode()
        return Parse(json.dumps(document), ExportLogsServiceRequest())
    message = ExportLogsServiceRequest.FromString(request.body)
    assert message.SerializeToString(deterministic=True)
    return message


def plain(value: Any) -> Any:
    """Return an AnyValue as a value of Python."""
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [plain(one) for one in value.array_value.values]
    if kind == "kvlist_value":
        return {one.key: plain(one.value) for one in value.kvlist_value.values}
    return getattr(value, kind)


def attributes(record: Any) -> dict[str, Any]:
    return {one.key: plain(one.value) for one in record.attributes}


@FORMATS
def test_the_parts_of_a_record(server: FakeServer, format: str) -> None:
    events = batch(
        3,
        message=['a"b', None, "é\n\x00"],
        timestamp=pa.array([AT, None, datetime(1969, 12, 31, tzinfo=UTC)], TIMESTAMP),
        seen=pa.array([AT, None, AT], TIMESTAMP),
        **{"log.level": ["WARN", "odd", None], "trace.id": [TRACE, "x", None], "span.id": [SPAN, "0" * 16, SPAN]},
    )

    write(server, events, format=format, observed_field="seen", compression="gzip", token=SECRET, scope="s", scope_version="1.2")

    (request,) = server.requests
    assert (request.path, request.headers["authorization"]) == ("/v1/logs", f"Bearer {SECRET}")
    assert request.headers["content-encoding"] == "gzip"
    (resource,) = exported(server).resource_logs
    assert attributes(resource.resource) == {"service.name": "sluice"}
    (scope,) = resource.scope_logs
    assert (scope.scope.name, scope.scope.version) == ("s", "1.2")
    first, second, third = scope.log_records
    assert (first.body.string_value, first.time_unix_nano, first.observed_time_unix_nano) == ('a"b', NANOS, NANOS)
    assert (first.severity_text, first.severity_number) == ("WARN", 13)
    assert (first.trace_id.hex(), first.span_id.hex()) == (TRACE.lower(), SPAN)
    assert attributes(first) == {"n": 0}
    assert (second.HasField("body"), second.time_unix_nano) == (False, 0)
    assert second.observed_time_unix_nano > NANOS
    assert (second.severity_text, second.severity_number, second.trace_id) == ("odd", 0, b"")
    assert attributes(second) == {"n": 1, "trace.id": "x", "span.id": "0" * 16}
    assert (third.body.string_value, third.severity_number, third.time_unix_nano) == ("é\n\x00", 0, 0)
    assert attributes(third) == {"n": 2, "timestamp": "1969-12-31T00:00:00.000000Z"}


@FORMATS
def test_values_keep_their_types(server: FakeServer, format: str) -> None:
    columns = {
        "small": ([0, -1, 127, 128, 2**63 - 1, -(2**63)], None),
        "text": (["", "x" * 127, "x" * 128, "x" * 20_000, None, "é"], None),
        "yes": ([True, False, None, True, False, True], None),
        "ratio": ([0.5, -0.0, None, 1e300, float("inf"), -1.25], None),
        "raw": ([b"", b"\xff\x00", None, b"a", b"b", b"c"], None),
        "list": ([[1, None], [], None, [2], [3, 4], [5]], None),
        "deep": ([[["a"], []], [], None, [["b", "c"]], [], [[]]], None),
        "pair": ([{"a": 1, "b": None}, {"a": None, "b": None}, None, {"a": 2, "b": "x"}] + [{"a": 3, "b": ""}] * 2, None),
        "map": ([[("k", 1.5)], [], None, [("a", 1.0), ("b", None)], [], []], pa.map_(pa.string(), pa.float64())),
        "price": ([Decimal("1.20")] * 6, None),
        "day": ([AT.date()] * 6, None),
        "none": ([None] * 6, pa.null()),
    }

    write(server, batch(6, **{name: pa.array(*column) for name, column in columns.items()}), format=format)

    found = [attributes(record) for record in exported(server).resource_logs[0].scope_logs[0].log_records]
    for at, one in enumerate(found):
        expected = {"n": at} | {name: values[at] for name, (values, _) in columns.items() if values[at] is not None}
        expected |= {"price": "1.20", "day": "2026-11-28"}
        for name in ("pair", "map"):
            if name in expected:
                expected[name] = dict(expected[name])
        if "pair" in expected:
            expected["pair"] = {key: value for key, value in expected["pair"].items() if value is not None}
        assert one == expected


@FORMATS
def test_times_that_a_record_cannot_have_stay_attributes(server: FakeServer, format: str) -> None:
    late = pa.array([AT, datetime(2300, 1, 1, tzinfo=UTC), None], TIMESTAMP)

    write(server, batch(3, timestamp=late, seen=late), format=format, observed_field="seen")

    first, second, third = exported(server).resource_logs[0].scope_logs[0].log_records
    assert (attributes(first), attributes(third)) == ({"n": 0}, {"n": 2})
    assert attributes(second) == {"n": 1} | dict.fromkeys(("timestamp", "seen"), "2300-01-01T00:00:00.000000Z")
    assert second.time_unix_nano == 0
    assert second.observed_time_unix_nano > NANOS


def test_fields_that_are_null_in_all_events_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[str] = []
    pair = ProtobufForm.pair
    monkeypatch.setattr(ProtobufForm, "pair", lambda self, key, values: encoded.append(key) or pair(self, key, values))
    events = batch(2, **{f"f{number}": pa.nulls(2, pa.string()) for number in range(1000)})

    with (fake := FakeServer()).running():
        write(fake, events, resource={})

    assert encoded == ["n"]


@FORMATS
def test_records_are_grouped_by_their_resource(server: FakeServer, format: str) -> None:
    hosts = ["a", "b", None, "a", "", "b", "a"]

    write(server, batch(7, host=hosts), format=format, resource={"host.name": "{host}", "service.name": "web"}, attributes=["n"])

    found = [
        (attributes(one.resource), [attributes(record)["n"] for record in one.scope_logs[0].log_records])
        for one in exported(server).resource_logs
    ]
    web = {"service.name": "web"}
    assert found == [({"host.name": "a", **web}, [0, 3, 6]), ({"host.name": "b", **web}, [1, 5]), (web, [2, 4])]


@FORMATS
def test_sizes_are_those_of_the_body_at_most(server: FakeServer, format: str) -> None:
    events = batch(50, text=["x" * n for n in range(50)], host=[f"h{n % 3}" for n in range(50)])
    sink = create_sink(server.url, format=format, resource={"h": "{host}"})
    writer = sink.open(Task("p", "out", "split", "/nowhere", events.drop_columns([OFFSET]).schema))

    sizes = writer.sizes(events)
    writer.write(events)

    assert sizes is not None
    assert server.requests[0].sent <= sum(sizes.to_pylist())


def partial(rejected: int, message: str) -> ExportLogsServiceResponse:
    return ExportLogsServiceResponse(
        partial_success=ExportLogsPartialSuccess(rejected_log_records=rejected, error_message=message)
    )


@FORMATS
@pytest.mark.parametrize(("rejected", "codes"), [(0, []), (2, ["otlp-partly-rejected"]), (5, ["otlp-rejected"])])
def test_a_partial_success(server: FakeServer, format: str, rejected: int, codes: list[str]) -> None:
    response = partial(rejected, "too old")
    json_body = json.dumps(MessageToDict(response)).encode()
    reply = Reply(200, response.SerializeToString(), PROTOBUF) if format == "protobuf" else Reply(200, json_body)
    server.replies = [reply]

    result = write(server, batch(5), format=format)

    assert [one.code for one in result.rejected] == codes
    assert (result.retryable, len(server.requests)) == (None, 1)
    if rejected == 2:
        assert result.rejected[0].reasons == "2 of the 5 records of its request are rejected, without saying which: too old"
        assert result.rejected[0].events.num_rows == 5


@pytest.mark.parametrize("body", [b"", b"\x0a", b"\xff\xff", b"\x0a\x02\x08"])
def test_a_response_that_is_damaged_is_success(server: FakeServer, body: bytes) -> None:
    server.replies = [Reply(200, body, PROTOBUF)]

    assert write(server, batch(2)) == Result(rejected=[])


def test_errors_show_the_message_of_their_status(server: FakeServer) -> None:
    status = b"\x08\x03\x12\x09bad thing"
    server.replies = [
        Reply(400, status, PROTOBUF),
        Reply(503, b"{}", {"Retry-After": "7"}),
        Reply(500),
        Reply(401, status, PROTOBUF),
    ]

    results = [write(server, batch(2)) for _ in range(3)]

    assert [(one.code, one.reasons) for one in results[0].rejected] == [("otlp-rejected", "400: bad thing")]
    assert (results[1].retryable, results[1].after) == (pa.array([0, 1]), 7)
    assert [one.code for one in results[2].rejected] == ["otlp-rejected"]
    with pytest.raises(ComponentError, match=r"401: bad thing.*without loss") as raised:
        write(server, batch(1), token=SECRET)
    assert SECRET not in str(raised.value)


@FORMATS
def test_what_is_sent_is_received(tmp_path: Path, format: str) -> None:
    source = create_source(tmp_path, format="opentelemetry")
    texts = ["plain", 'q"\\\n\t\u2028', ""]
    times = pa.array([AT] * 3, TIMESTAMP)
    events = batch(3, message=texts, timestamp=times, **{"log.level": ["info"] * 3, "trace.id": [TRACE.lower()] * 3})
    with receiving(source) as receiver:
        url = f"http://127.0.0.1:{receiver.ports[0]}"
        task = Task("p", "out", "split", "/nowhere", events.schema)
        result = create_sink(url, format=format, compression="gzip").open(task).write(events)
        assert [finding.code for finding in create_sink(url).probe(pa.schema([]))] == []

    found = read_all(source)
    assert result == Result(rejected=[])
    assert [row["message"] for row in found] == texts
    assert {(row["timestamp"], row["log.level"], row["trace.id"], row["otel.severity_number"]) for row in found} == {
        (AT, "info", TRACE.lower(), 9)
    }
    assert [json.loads(row["otel.attributes"]) for row in found] == [{"n": n} for n in range(3)]


def test_findings() -> None:
    def codes(**options: Any) -> list[str]:
        sink = create_sink("http://h:4318", **options)
        return [finding.code for finding in sink.check(pa.schema([("n", pa.int64()), ("t", pa.string())]))]

    assert codes() == []
    assert codes(urls=["http://h:4318/v1/logs"]) == ["invalid-value"]
    assert codes(resource={"a": "{nn}"}) == ["unknown-field"]
    assert codes(value_field="x", attributes=["n", "y"], severity_field="level") == ["unknown-field"] * 3
    assert codes(time_field="t") == ["wrong-type"]
    assert codes(observed_field="n") == ["wrong-type"]
    assert codes(token="a\nb") == ["bad-header", "bad-header"] or codes(token="a\nb") == ["bad-header"]
