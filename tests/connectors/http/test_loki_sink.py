"""The loki sink with a server that rejects lines as Loki does, and with our own receiver."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fake_http import FakeServer, Reply, Request
from receiving import create_source
from source_events import read_all, receiving

from connectors.loki.sink import LokiSink
from etl.api import OFFSET, TIMESTAMP, ComponentError, Rejects, Result, Task
from etl.delivery.sink_writer import SinkWriter

TASK = Task("p", "out", "split", "/nowhere", pa.schema([]))
AT = datetime(2026, 11, 27, 8, 0, 0, 250001, UTC)
SECRET = "hunter2-loki"
OUT_OF_ORDER = "entry with timestamp 2026-11-27 08:00:00 +0000 UTC ignored, reason: 'entry out of order',"


class FakeLoki(FakeServer):
    """Stores each line once, and rejects those in ``invalid``; in ``totals`` it also says how many."""

    def __init__(self, totals: bool = False) -> None:
        super().__init__(self.push)
        self.invalid: set[str] = set()
        self.stored: dict[tuple[str, str], str] = {}
        self.totals = totals

    def push(self, request: Request) -> Reply:
        failures = []
        for stream in json.loads(request.body)["streams"]:
            labels = json.dumps(stream["stream"])
            bad = [line for _, line, *_ in stream["values"] if line in self.invalid]
            self.stored |= {(labels, line): at for at, line, *_ in stream["values"] if line not in self.invalid}
            if bad:
                total = f"user 'fake', total ignored: {len(bad)} out of {len(stream['values'])} for stream: {labels}"
                failures.append(f"{OUT_OF_ORDER}\n{total if self.totals else ''}")
        return Reply(400, failures[-1].encode()) if failures else Reply(204)


@pytest.fixture
def server() -> Iterator[FakeLoki]:
    with (loki := FakeLoki()).running():
        yield loki


def batch(count: int, **columns: Any) -> pa.RecordBatch:
    given = {"line": [str(n) for n in range(count)], "host": [f"h{n % 3}" for n in range(count)], **columns}
    return pa.RecordBatch.from_pydict({**given, OFFSET: list(range(count))})


def create_sink(url: str, **options: Any) -> LokiSink:
    values = {"type": "loki", "urls": [url], "labels": {"job": "j", "host": "{host}"}, "value_field": "line", **options}
    return LokiSink.model_validate(values)


def write(server: FakeServer, events: pa.RecordBatch, **options: Any) -> Result:
    return create_sink(server.url, **options).open(TASK).write(events)


def dead(result: Result) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in result.rejected:
        found.setdefault(one.code, []).extend(one.events.column("line").to_pylist())
    return found


def test_a_request_has_each_stream_once_and_its_lines_in_order(server: FakeLoki) -> None:
    events = batch(7, timestamp=pa.array([AT] * 7, TIMESTAMP))

    write(server, events, tenant="t1", token=SECRET, metadata=["host"], compression="gzip")

    (request,) = server.requests
    nanos = "1795766400250001000"
    assert (request.method, request.path) == ("POST", "/loki/api/v1/push")
    assert request.headers["x-scope-orgid"] == "t1"
    assert request.headers["authorization"] == f"Bearer {SECRET}"
    assert json.loads(request.body)["streams"] == [
        {"stream": {"job": "j", "host": f"h{h}"}, "values": [[nanos, str(n), {"host": f"h{h}"}] for n in range(h, 7, 3)]}
        for h in range(3)
    ]


@pytest.mark.parametrize("invalid", [{"0"}, {"4", "5", "11"}, {str(n) for n in range(12)}])
def test_lines_that_loki_rejects_are_dead_letters(server: FakeLoki, invalid: set[str]) -> None:
    server.invalid = invalid

    result = write(server, batch(12))

    assert sorted(dead(result)["loki-rejected"]) == sorted(invalid)
    assert sorted(line for _, line in server.stored) == sorted({str(n) for n in range(12)} - invalid)
    assert "entry out of order" in str(result.rejected[0].reasons)


def test_a_stream_of_which_loki_ignored_all_lines_takes_one_request(server: FakeLoki) -> None:
    server.totals, server.invalid = True, {str(n) for n in range(0, 300, 3)}

    result = write(server, batch(300))

    assert sorted(dead(result)["loki-rejected"]) == sorted(server.invalid)
    assert len(server.requests) < 25
    assert len(server.stored) == 200


def test_streams_beyond_the_limit_and_events_without_labels_are_dead_letters(server: FakeLoki) -> None:
    writer = create_sink(server.url, labels={"host": "{host}"}, max_streams=2).open(TASK)

    results = [writer.write(batch(6, host=["a", None, "b", "c", "a", ""])), writer.write(batch(2, host=["c", "b"]))]

    assert dead(results[0]) == {"no-labels": ["1", "5"], "too-many-streams": ["3"]}
    assert dead(results[1]) == {"too-many-streams": ["0"]}
    assert sorted(server.stored) == [
        ('{"host": "a"}', "0"),
        ('{"host": "a"}', "4"),
        ('{"host": "b"}', "1"),
        ('{"host": "b"}', "2"),
    ]


def test_rows_to_retry_are_those_of_the_batch(server: FakeLoki) -> None:
    server.invalid = {"0"}
    server.replies = [server.push, server.push, server.push, server.push, Reply(429, b"rate limit", {"Retry-After": "3"})]

    result = write(server, batch(6, host=["b", None, "a", "b", "a", "b"]), labels={"host": "{host}"})

    assert dead(result) == {"no-labels": ["1"], "loki-rejected": ["0"]}
    assert result.retryable is not None
    assert set(result.retryable.to_pylist()) <= {2, 3, 4, 5}
    assert {line for _, line in server.stored} | {str(n) for n in result.retryable.to_pylist()} == {"2", "3", "4", "5"}
    assert result.after == 3
    server.replies = [Reply(401)]
    with pytest.raises(ComponentError, match="without loss"):
        write(server, batch(2))


def test_no_request_exceeds_the_limit(server: FakeLoki) -> None:
    one = create_sink(server.url, batch={"max_bytes": 900})
    rejected = list[Rejects]()
    writer = SinkWriter("out", one, one.open(TASK), rejected.append)

    writer.write(batch(60, line=[f'{n}"é\n' * (n * 5 % 97) for n in range(60)]))
    writer.close()

    assert max(len(request.body) for request in server.requests) <= 900
    assert len(server.stored) == 60 - sum(one.events.num_rows for one in rejected) > 10


def test_what_is_sent_is_received(tmp_path: Path) -> None:
    source = create_source(tmp_path, format="loki", tokens=[SECRET])
    texts = ["plain", 'q"\\\n\t\x00é\u2028', None, "x,]}"]
    with receiving(source) as receiver:
        sink = create_sink(f"http://127.0.0.1:{receiver.ports[0]}", token=SECRET, metadata=["host"])
        result = sink.open(TASK).write(batch(4, line=texts, timestamp=pa.array([AT] * 4, TIMESTAMP)))
        whole = create_sink(f"http://127.0.0.1:{receiver.ports[0]}", token=SECRET, value_field=None)
        whole.open(TASK).write(batch(1, timestamp=pa.array([None], TIMESTAMP)))
        assert [finding.code for finding in sink.probe(pa.schema([]))] == []

    *found, last = read_all(source)
    assert not result.rejected
    assert [row["message"] for row in found] == ["plain", "x,]}", texts[1], ""]
    assert [json.loads(row["loki.labels"])["host"] for row in found] == ["h0", "h0", "h1", "h2"]
    assert {row["timestamp"] for row in found} == {AT}
    assert json.loads(last["message"]) == {"line": "0", "host": "h0", "timestamp": None}
    assert abs((last["timestamp"] - datetime.now(UTC)).total_seconds()) < 600


def test_lint_finds_fields_and_urls() -> None:
    options = {
        "labels": {"a": "{hots}"},
        "metadata": ["nn"],
        "value_field": "m",
        "headers": {"x-scope-orgid": "x"},
        "tenant": "t",
    }

    found = create_sink("http://x:1/loki/api/v1/push", **options).check(pa.schema([("host", pa.string())]))

    assert [(one.code, one.path) for one in found] == [
        ("several-logins", ("headers", "x-scope-orgid")),
        ("invalid-value", ("urls", 0)),
        ("unknown-field", ("labels", "a")),
        ("unknown-field", ("value_field",)),
        ("unknown-field", ("metadata", 0)),
    ]
