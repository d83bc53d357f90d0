"""The http sink with a server that records every request and fails as a test sets."""

from __future__ import annotations

import json
import random
import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pyarrow as pa
import pytest
from fake_http import FakeServer, Reply

from connectors.http.sink import HttpSink
from connectors.http.writer import RequestWriter, parse_retry_after
from etl.api import IDENTITY, OFFSET, ComponentError, Rejects, Result, Task
from etl.config.build import secrets
from etl.delivery.sink_writer import SinkWriter

TASK = Task("p", "out", "split", "/nowhere", pa.schema([]))
SECRET = "hunter2-hook"


@pytest.fixture
def server() -> Iterator[FakeServer]:
    fake = FakeServer()
    with fake.running():
        yield fake


def batch(count: int = 3, **columns: Any) -> pa.RecordBatch:
    given = columns or {"n": list(range(count)), "source.ip": ['1.1.1.1"'] * count}
    rows = len(next(iter(given.values())))
    hidden = {OFFSET: list(range(rows)), IDENTITY: [f"id-{n}" for n in range(rows)]}
    return pa.RecordBatch.from_pydict({**given, **hidden})


def sink(*urls: str, **options: Any) -> HttpSink:
    return HttpSink.model_validate({"type": "http", "urls": urls, **options})


def writer(server: FakeServer, **options: Any) -> RequestWriter:
    return sink(f"{server.url}/hook?key=1", **options).open(TASK)


def write(server: FakeServer, events: pa.RecordBatch, **options: Any) -> Result:
    return writer(server, **options).write(events)


def again(result: Result) -> list[int]:
    return [] if result.retryable is None else result.retryable.to_pylist()


def numbers(request: Any) -> list[int]:
    return [event["n"] for event in json.loads(request.body)]


# ── What is sent ──


def test_an_array_of_events_is_posted(server: FakeServer) -> None:
    result = write(server, batch(2), headers={"X-Api-Key": SECRET}, token="abc")

    (request,) = server.requests
    assert (again(result), list(result.rejected)) == ([], [])
    assert (request.method, request.path) == ("POST", "/hook?key=1")
    assert json.loads(request.body) == [{"n": 0, "source": {"ip": '1.1.1.1"'}}, {"n": 1, "source": {"ip": '1.1.1.1"'}}]
    assert request.headers["content-type"] == "application/json"
    assert request.headers["x-api-key"] == SECRET
    assert request.headers["authorization"] == "Bearer abc"


def test_lines_are_sent_with_put(server: FakeServer) -> None:
    write(server, batch(2), format="ndjson", method="PUT", user="u", password="p", compression="gzip")

    (request,) = server.requests
    assert request.method == "PUT"
    assert [line["n"] for line in request.lines] == [0, 1]
    assert request.headers["content-type"] == "application/x-ndjson"
    assert request.headers["content-encoding"] == "gzip"
    assert request.headers["authorization"] == "Basic dTpw"


def test_one_event_is_an_object_and_its_identity_the_key(server: FakeServer) -> None:
    write(server, batch(1), format="object", batch={"max_events": 1}, key_header="X-Id")

    (request,) = server.requests
    assert json.loads(request.body) == {"n": 0, "source": {"ip": '1.1.1.1"'}}
    assert request.headers["x-id"] == "id-0"


def test_the_same_events_have_the_same_key(server: FakeServer) -> None:
    for events in (batch(3), batch(3), batch(2)):
        write(server, events)
    write(server, batch(3), key_header=None)

    first, second, third, fourth = (request.headers.get("idempotency-key") for request in server.requests)
    assert first == second != third
    assert fourth is None


@pytest.mark.parametrize("format_", ["json", "ndjson"])
def test_no_request_exceeds_the_limits(server: FakeServer, format_: str) -> None:
    dice, rejected = random.Random(6), list[Rejects]()
    one = sink(server.url, format=format_, batch={"max_events": 40, "max_bytes": 3000})
    sink_writer = SinkWriter("out", one, one.open(TASK), rejected.append)

    for first in range(0, 400, 100):
        texts = ['x"\\\n' * dice.choice([0, 1, 5, 50, 700]) for _ in range(100)]
        sink_writer.write(pa.RecordBatch.from_pydict({"n": range(first, first + 100), "t": texts, OFFSET: range(100)}))
    sink_writer.close()

    bodies = [request.body for request in server.requests]
    sent = [json.loads(body) if format_ == "json" else [json.loads(line) for line in body.splitlines()] for body in bodies]
    refused = [n for one in rejected for n in one.events.column("n").to_pylist()]
    assert max(map(len, sent)) <= 40
    assert max(map(len, bodies)) <= 3000
    assert {one.code for one in rejected} == {"event-too-large"}
    assert sorted([event["n"] for events in sent for event in events] + refused) == list(range(400))


# ── What became of it ──


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503, 599])
def test_temporary_statuses_are_retried(server: FakeServer, status: int) -> None:
    server.replies = [Reply(status, b"come back\nlater")]

    result = write(server, batch(2))

    assert again(result) == [0, 1]
    assert result.cause == f"{server.url} answers {status}: come back later"


def test_retry_after_is_passed_to_the_backoff(server: FakeServer) -> None:
    server.replies = [Reply(429, headers={"Retry-After": wait}) for wait in ("7", "86400", "soon")]
    hook = writer(server)

    assert [hook.write(batch(1)).after for _ in range(3)] == [7, 86400, 0]


def test_retry_after_may_be_a_date() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)

    assert 90 < parse_retry_after(soon) <= 100
    assert parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT") < 0
    assert [parse_retry_after(text) for text in (None, "-1", "x", "9" * 400, " 0.65 ")] == [0, 0, 0, 999999999, 0.65]


def test_events_become_dead_letters_at_any_other_status(server: FakeServer) -> None:
    server.replies = [Reply(422, b"no \x1b[31m such\n thing" + b"x" * 1000)]

    (rejects,) = write(server, batch(2)).rejected

    assert (rejects.code, rejects.events.num_rows) == ("http-rejected", 2)
    assert str(rejects.reasons).startswith("422: no \N{REPLACEMENT CHARACTER}[31m such thingxxx")
    assert len(str(rejects.reasons)) < 320


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(401, b"who?"), "who?; "),
        (Reply(404), "Not Found; "),
        (
            Reply(301, headers={"Location": "http://evil.example/"}),
            "it redirects to 'http://evil.example/', and redirects are not",
        ),
    ],
    ids=["body", "no body", "redirect"],
)
def test_a_status_that_all_events_would_get_ends_the_run(server: FakeServer, reply: Reply, reason: str) -> None:
    server.replies = [reply]

    with pytest.raises(ComponentError, match=rf"answers {reply.status}: {re.escape(reason)}.*without loss") as caught:
        write(server, batch(2), token=SECRET)

    assert SECRET not in str(caught.value)
    assert len(server.requests) == 1


def test_the_handling_of_statuses_is_an_option(server: FakeServer) -> None:
    server.replies = [Reply(404), Reply(500), Reply(418), Reply(501)]
    options: dict[str, Any] = {"retry_on": [404, "5xx"], "stop_on": [418, 501]}

    assert again(write(server, batch(1), **options)) == [0]
    assert again(write(server, batch(1), **options)) == [0]
    for _ in range(2):
        with pytest.raises(ComponentError):
            write(server, batch(1), **options)


def test_a_request_that_is_too_large_is_halved(server: FakeServer) -> None:
    server.answer = lambda request: Reply(413) if len(request.body) > 60 else Reply()

    result = write(server, batch(n=[*range(7), 7], text=[""] * 7 + ["x" * 100]))

    (rejects,) = result.rejected
    assert (rejects.code, rejects.events.column("n").to_pylist()) == ("event-too-large", [7])
    assert [n for request in server.requests if len(request.body) <= 60 for n in numbers(request)] == list(range(7))


def test_events_that_were_accepted_are_not_sent_again(server: FakeServer) -> None:
    def answer(request: Any) -> Reply:
        sent = numbers(request)
        return Reply(413) if len(sent) > 2 else Reply(503 if 4 in sent else 200)

    server.answer = answer

    assert again(write(server, batch(8))) == [4, 5, 6, 7]


@pytest.mark.parametrize(
    ("reply", "expected_text"),
    [
        (Reply(cut=0), "it closed the connection without a response; is it https?"),
        (Reply(200, b"long answer", cut=3), "it closed the connection within a response"),
    ],
    ids=str,
)
def test_a_lost_response_is_temporary(server: FakeServer, reply: Reply, expected_text: str) -> None:
    server.replies = [reply]

    result = write(server, batch(2))

    assert again(result) == [0, 1]
    assert result.cause == f"{server.url}: {expected_text}"


def test_a_slow_server_is_temporary(server: FakeServer) -> None:
    never = threading.Event()
    server.replies = [Reply(wait=never)]

    result = write(server, batch(2), timeout="200ms")
    never.set()

    assert again(result) == [0, 1]
    assert result.cause == f"{server.url}: no complete response within 0.2 s"


def test_another_server_is_used(server: FakeServer) -> None:
    with FakeServer().running() as gone:
        url = gone.url
    hook = sink(url, server.url).open(TASK)

    assert [again(hook.write(batch(1))) for _ in range(3)] == [[], [], []]
    assert len(server.requests) == 3


# ── What is wrong with options ──


@pytest.mark.parametrize(
    ("options", "code", "path"),
    [
        ({"urls": ["https://u:p@h/x"]}, "url-with-password", ("urls", 0)),
        ({"urls": ["https://h:0x1/"]}, "bad-port", ("urls", 0)),
        ({"password": SECRET}, "missing-user", ("password",)),
        ({"user": "u", "token": SECRET}, "several-logins", ("token",)),
        ({"token": SECRET, "headers": {"authorization": SECRET}}, "several-logins", ("headers", "authorization")),
        ({"headers": {"X-Key": f"{SECRET}\r\nX-Evil: 1"}}, "bad-header", ("headers", "X-Key")),
        ({"headers": {"Content-Length": "5"}}, "bad-header", ("headers", "Content-Length")),
        ({"retry_on": [404]}, "status-conflict", ("stop_on",)),
        ({"format": "object"}, "batch-conflict", ("format",)),
        ({"tls": {"key": "k.pem"}}, "no-certificate", ("tls", "key")),
    ],
)
def test_wrong_options_are_findings(options: dict[str, Any], code: str, path: tuple[object, ...]) -> None:
    findings = list(sink(*options.pop("urls", ["https://h/x"]), **options).check(pa.schema([])))

    assert (code, path) in [(finding.code, finding.path) for finding in findings]
    assert SECRET not in str(findings)


def test_headers_are_not_shown() -> None:
    one = sink("https://h/x", headers={"X-Key": SECRET}, token=SECRET)

    assert SECRET not in f"{one!r} {one} {one.connection_settings()!r} {one.model_dump()}"


def test_lint_does_not_show_headers() -> None:
    given = {"headers": {"X-Key": SECRET, "X-Other": 5}, "token": "abc", "password": None}

    assert dict(secrets(HttpSink, given)) == {("headers", "X-Key"): SECRET, ("token",): "abc"}


def test_a_probe_sends_no_event(server: FakeServer) -> None:
    assert list(sink(server.url).probe(pa.schema([]))) == []
    server.replies = [Reply(401, b"who?"), Reply(302, headers={"Location": "/x"}), Reply(404), Reply(405)]
    found = [[(f.code, f.severity) for f in sink(server.url).probe(pa.schema([]))] for _ in range(4)]

    assert found == [[("not-ready", "error")], [("not-ready", "error")], [("unknown-page", "warning")], []]
    assert {(request.method, request.body) for request in server.requests} == {("OPTIONS", b"")}
