"""The splunk_hec sink with a server that speaks HEC, and with our own receiver."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fake_http import FakeServer, Reply, Request
from receiving import create_source
from source_events import read_all, receiving

from connectors.splunk.sink import SplunkHecSink
from etl.api import OFFSET, TIMESTAMP, ComponentError, Result, Task

TASK = Task("p", "out", "split", "/nowhere", pa.schema([]))
AT = datetime(2026, 11, 27, 8, 0, 0, 250001, UTC)
SECRET = "hunter2-hec"


class Collector(FakeServer):
    """A collector that takes requests whole or not at all, as ours does; events whose ``n`` is in ``invalid`` are invalid."""

    def __init__(self, code: int = 6) -> None:
        super().__init__(self.collect)
        self.invalid: set[int] = set()
        self.stored: list[dict[str, Any]] = []
        self.code = code

    def collect(self, request: Request) -> Reply:
        for number, envelope in enumerate(request.lines):
            if envelope["event"]["n"] in self.invalid:
                return Reply(400, json.dumps({"text": "Invalid", "code": self.code, "invalid-event-number": number}).encode())
        self.stored += request.lines
        return Reply(body=b'{"text":"Success","code":0}')


@pytest.fixture
def server() -> Iterator[Collector]:
    with (collector := Collector()).running():
        yield collector


def batch(count: int, **columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": list(range(count)), **columns, OFFSET: list(range(count))})


def create_sink(url: str, **options: Any) -> SplunkHecSink:
    return SplunkHecSink.model_validate({"type": "splunk_hec", "urls": [url], "token": SECRET, **options})


def write(server: FakeServer, events: pa.RecordBatch, **options: Any) -> Result:
    return create_sink(server.url, **options).open(TASK).write(events)


def dead(result: Result) -> list[int]:
    return sorted(n for one in result.rejected for n in one.events.column("n").to_pylist())


def test_members_are_texts_of_fields_and_left_out_where_null(server: Collector) -> None:
    times = pa.array([AT, None, AT - timedelta(days=30000)], TIMESTAMP)
    events = batch(3, timestamp=times, **{"host.name": ['a"b', None, ""]}, level=["warn", None, "é\n"])

    write(server, events, host="{host.name}", index="i-{n}", source="", fields=["level", "n"], compression="gzip")

    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/services/collector/event")
    assert request.headers["authorization"] == f"Splunk {SECRET}"
    assert request.headers["content-encoding"] == "gzip"
    first, second, third = request.lines
    assert first["event"] == {"n": 0, "timestamp": "2026-11-27T08:00:00.250001Z", "host": {"name": 'a"b'}, "level": "warn"}
    assert (first["host"], first["index"], first["fields"]) == ('a"b', "i-0", {"level": "warn", "n": "0"})
    assert '"time":1795766400.250001,' in request.body.decode()
    assert {*second} == {"index", "fields", "event"}
    assert second["fields"] == {"n": "1"}
    assert (third["time"], third["fields"]) == (pytest.approx(AT.timestamp() - 30000 * 86400), {"level": "é\n", "n": "2"})


def test_indexed_fields_are_plain_texts(server: Collector) -> None:
    price, code = pa.array(["1.20"]).cast(pa.decimal128(9, 2)), pa.array([b"ab"])

    write(server, batch(1, price=price, code=code, tags=[["a"]]), host="{price}", fields=["price", "code", "tags"])

    (envelope,) = server.stored
    assert (envelope["host"], envelope["fields"]) == ("1.20", {"price": "1.20", "code": "YWI=", "tags": '["a"]'})


@pytest.mark.parametrize("invalid", [{0}, {4, 5, 99}, set(range(100)), {99}])
def test_the_events_that_the_server_names_are_dead_letters(server: Collector, invalid: set[int]) -> None:
    server.invalid = invalid

    result = write(server, batch(100))

    assert dead(result) == sorted(invalid)
    assert [one["event"]["n"] for one in server.stored] == sorted({*range(100)} - invalid)
    assert {one.code for one in result.rejected} == {"splunk-rejected"}
    assert sum(len(request.lines) for request in server.requests) <= 1000


@pytest.mark.parametrize(
    "body", [b'{"code":6,"invalid-event-number":7}', b'{"code":6,"invalid-event-number":-1}', b"[", b"[[]]", b""]
)
def test_a_response_that_names_no_event_of_the_request(server: Collector, body: bytes) -> None:
    server.answer = lambda request: Reply(400, body)

    assert dead(write(server, batch(3))) == [0, 1, 2]


def test_a_busy_server_is_retried_from_the_part_that_failed(server: Collector) -> None:
    server.invalid = {3}
    server.replies = [server.collect, server.collect, Reply(503, b'{"text":"Server is busy","code":9}', {"Retry-After": "7"})]

    result = write(server, batch(6))

    assert result.retryable is not None
    assert (result.retryable.to_pylist(), result.after) == ([3, 4, 5], 7)
    assert [one["event"]["n"] for one in server.stored] == [0, 1, 2]
    assert result.cause.endswith('answers 503: {"text":"Server is busy","code":9}')


def test_errors_of_the_token_end_the_run(server: Collector) -> None:
    for reply, options in (
        (Reply(403, b'{"text":"Invalid token","code":4}'), {}),
        (Reply(400, b'{"text":"Data channel is missing","code":10}'), {}),
        (Reply(400, b'{"text":"Incorrect index","code":7,"invalid-event-number":0}'), {"index": "wrong"}),
    ):
        server.replies = [reply]
        with pytest.raises(ComponentError, match="without loss"):
            write(server, batch(2), **options)

    server.code, server.invalid = 7, {1}
    assert dead(write(server, batch(3), index="i-{n}")) == [1]


def test_what_is_sent_is_received(tmp_path: Path) -> None:
    source = create_source(tmp_path, format="splunk_hec", tokens=[SECRET], max_event_bytes=2000)
    texts = ["plain", 'q"\\\n\t\x00é\u2028', "", None, "x"]
    with receiving(source) as receiver:
        url = f"http://127.0.0.1:{receiver.ports[0]}"
        times = pa.array([AT] * 5, TIMESTAMP)
        result = write_to(url, batch(5, message=texts, timestamp=times), value_field="message", source="s", sourcetype="{n}")
        write_to(url, batch(1), time_field=None)
        assert [finding.code for finding in create_sink(url).probe(pa.schema([]))] == []

    found = read_all(source)
    assert [(row["message"], row["splunk.sourcetype"]) for row in found[:3]] == [(texts[0], "0"), (texts[1], "1"), ("x", "4")]
    assert {(row["timestamp"], row["splunk.source"]) for row in found[:3]} == {(AT, "s")}
    assert json.loads(found[3]["message"]) == {"n": 0}
    assert dead(result) == [2, 3]


def write_to(url: str, events: pa.RecordBatch, **options: Any) -> Result:
    return create_sink(url, **options).open(TASK).write(events)


def test_lint_finds_fields_urls_and_logins() -> None:
    options = {"host": "{hots}", "fields": ["nn"], "time_field": "n", "value_field": "m", "headers": {"authorization": "x"}}

    url = f"http://ann:{SECRET}@x:1/services/collector"
    found = list(create_sink(url, **options).check(pa.schema([("n", pa.int64())])))

    assert [(one.code, one.path) for one in found] == [
        ("url-with-password", ("urls", 0)),
        ("several-logins", ("headers", "authorization")),
        ("invalid-value", ("urls", 0)),
        ("unknown-field", ("host",)),
        ("unknown-field", ("value_field",)),
        ("unknown-field", ("fields", 0)),
        ("wrong-type", ("time_field",)),
    ]
    assert SECRET not in repr(found)
    assert SECRET not in repr(create_sink("http://x:1"))
