"""The elasticsearch sink with a server that records every request and fails as a test sets."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from fake_http import FakeCluster, FakeServer, Reply, Request

from connectors.elasticsearch.index_naming import MAX_NAME_BYTES, safe_value
from connectors.elasticsearch.sink import ElasticsearchSink
from connectors.elasticsearch.writer import BulkWriter
from etl.api import CHANGE, DELETE, IDENTITY, INSERT, OFFSET, UPDATE_AFTER, UPDATE_BEFORE, ComponentError, Rejects, Result, Task
from etl.delivery.sink_writer import SinkWriter

TASK = Task("p", "out", "split", "/nowhere", pa.schema([]))
SECRET = "hunter2-cluster"


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    fake = FakeCluster()
    with fake.running():
        yield fake


def batch(count: int = 3, **columns: Any) -> pa.RecordBatch:
    given = columns or {"n": list(range(count)), "source.ip": [f"10.0.0.{n}" for n in range(count)]}
    rows = len(next(iter(given.values())))
    hidden = {OFFSET: list(range(rows)), IDENTITY: [f"id-{n}" for n in range(rows)]}
    return pa.RecordBatch.from_pydict({**given, **hidden})


def sink(server: FakeServer | str, **options: Any) -> ElasticsearchSink:
    url = server if isinstance(server, str) else server.url
    return ElasticsearchSink.model_validate({"type": "elasticsearch", "urls": [url], "index": "logs", **options})


def write(server: FakeServer | str, events: pa.RecordBatch, **options: Any) -> Result:
    return writer(server, **options).write(events)


def writer(server: FakeServer | str, **options: Any) -> BulkWriter:
    return sink(server, **options).open(TASK)


def again(result: Result) -> list[int]:
    return [] if result.retryable is None else result.retryable.to_pylist()


def dead(result: Result) -> list[tuple[str, list[Any], list[str]]]:
    return [(one.code, one.events.column("n").to_pylist(), pa.array(one.reasons).to_pylist()) for one in result.rejected]


# ── What is sent ──


def test_a_document_is_created_under_the_identity_of_its_event(cluster: FakeCluster) -> None:
    result = write(cluster, batch(2), pipeline="a b", user="etl", password=SECRET)

    (request,) = cluster.requests
    assert (again(result), dead(result)) == ([], [])
    assert request.method == "POST"
    assert request.path.startswith("/logs/_bulk?filter_path=errors,items.*.status,items.*.error")
    assert request.path.endswith("&pipeline=a%20b")
    assert request.headers["content-type"] == "application/x-ndjson"
    assert request.headers["authorization"] == "Basic ZXRsOmh1bnRlcjItY2x1c3Rlcg=="
    assert request.lines == [
        {"create": {"_id": "id-0"}},
        {"n": 0, "source": {"ip": "10.0.0.0"}},
        {"create": {"_id": "id-1"}},
        {"n": 1, "source": {"ip": "10.0.0.1"}},
    ]


def test_an_update_is_merged_into_the_document_with_its_id(cluster: FakeCluster) -> None:
    events = batch(n=[1, 2], user=["a|b", "a"], part=["c", "b|c"])

    write(cluster, events, action="update", id=["user", "part"], routing="user")

    assert cluster.requests[0].lines == [
        {"update": {"_id": "a\\|b|c", "routing": "a|b", "retry_on_conflict": 3}},
        {"doc": {"n": 1, "user": "a|b", "part": "c"}, "doc_as_upsert": True},
        {"update": {"_id": "a|b\\|c", "routing": "a", "retry_on_conflict": 3}},
        {"doc": {"n": 2, "user": "a", "part": "b|c"}, "doc_as_upsert": True},
    ]


def test_an_index_replaces_and_numbers_are_ids(cluster: FakeCluster) -> None:
    for n in (1, 2):
        write(cluster, batch(key=[7], n=[n]), action="index", id=["key"])

    assert cluster.documents == {("logs", "7"): {"key": 7, "n": 2}}


def test_changes_replace_and_delete_documents_by_their_id(cluster: FakeCluster) -> None:
    kinds = pa.array([INSERT, INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE, DELETE], pa.int8())
    events = batch(key=[1, 2, 1, 1, 2, 3], n=[10, 20, 10, 11, 20, 30]).append_column(CHANGE, kinds)

    result = write(cluster, events, action="index", id=["key"], index="logs-{key}")

    assert cluster.requests[0].lines == [
        {"index": {"_index": "logs-1", "_id": "1"}},
        {"key": 1, "n": 11},
        {"delete": {"_index": "logs-2", "_id": "2"}},
        {"delete": {"_index": "logs-3", "_id": "3"}},
    ]
    assert (again(result), dead(result)) == ([], [])


def test_a_document_to_delete_that_is_not_there_is_no_failure(cluster: FakeCluster) -> None:
    cluster.fate = lambda id_, _: (429, "busy", "later") if id_ == "2" else None
    kinds = pa.array([DELETE, UPDATE_BEFORE, UPDATE_AFTER], pa.int8())

    result = write(cluster, batch(key=[1, 2, 2], n=[1, 2, 3]).append_column(CHANGE, kinds), action="index", id=["key"])

    assert (again(result), dead(result)) == ([2], [])


def test_fields_and_dates_name_the_index(cluster: FakeCluster) -> None:
    times = pa.array([0, 86_400_000_000, None], pa.timestamp("us", "UTC"))
    events = batch(n=[1, 2, 3], at=times, host=["Web/1", "..", None])

    write(cluster, events, index="logs-{host}-{yyyy.MM.dd}", time_field="at")

    names = [line["create"]["_index"] for line in cluster.requests[0].lines[::2]]
    assert cluster.requests[0].path.startswith("/_bulk?")
    assert names == ["logs-web%2f1-1970.01.01", "logs-..-1970.01.02", "logs-__null__-__null__"]


def test_events_of_indices_beyond_the_limit_are_dead_letters_and_the_others_are_indexed(cluster: FakeCluster) -> None:
    bulk = writer(cluster, index="logs-{host}", max_indices=2)
    cluster.fate = lambda id_, document: (429, "busy", "later") if document["n"] == 5 else None

    first = bulk.write(batch(n=[1, 2, 3], host=["a", "b", "c"]))
    second = bulk.write(batch(n=[4, 5, 6], host=["d", "b", "a"]))

    assert dead(first) == [("too-many-indices", [3], ["logs-c would exceed max_indices, 2"])]
    assert dead(second) == [("too-many-indices", [4], ["logs-d would exceed max_indices, 2"])]
    assert again(second) == [1]
    assert sorted(index for index, _ in cluster.documents) == ["logs-a", "logs-a", "logs-b"]


def test_a_bad_id_and_an_index_beyond_the_limit_have_different_codes(cluster: FakeCluster) -> None:
    events = batch(n=[1, 2, 3, 4], key=["", "x", "y", "z"], host=["new", "a", "b", "a"])

    result = write(cluster, events, index="logs-{host}", id=["key"], max_indices=1)

    assert [(code, numbers) for code, numbers, _ in dead(result)] == [("bad-id", [1]), ("too-many-indices", [3])]
    assert sorted(cluster.documents) == [("logs-a", "x"), ("logs-a", "z")]


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        ({"index": "logs-{host}"}, ["unbounded-indices"]),
        ({"index": "logs-{host}", "max_indices": 20}, []),
        ({"index": "logs-{flag}"}, []),
        ({"index": "logs-{hots}"}, ["unknown-field"]),
        ({"index": "logs", "max_indices": 20}, ["unused-option"]),
    ],
)
def test_a_field_in_the_index_needs_a_limit(options: dict[str, Any], codes: list[str]) -> None:
    schema = pa.schema([("host", pa.string()), ("flag", pa.bool_()), (OFFSET, pa.int64()), (IDENTITY, pa.string())])

    assert [finding.code for finding in sink("http://localhost:9200", **options).check(schema)] == codes


@pytest.mark.parametrize(
    "hostile", ["A", "a" * 500, "é" * 300, '\\/*?"<>| ,#:', "\x00\n\x7f", "..", "_all", "*", "-x", "\ud7ff\U0010ffff"]
)
def test_hostile_values_become_names_that_the_server_accepts(hostile: str) -> None:
    name = f"logs-{safe_value(hostile)}"

    assert name == name.lower()
    assert len(name.encode()) <= MAX_NAME_BYTES
    assert not set(name) & set('\\/*?"<>| ,#:\x00\n\x7f')


def test_different_values_make_different_names() -> None:
    long = "x" * 300
    values = ["a", "a ", "a%20", "a/", "", "__null", long + "1", long + "2"]

    assert len({safe_value(value) for value in values}) == len(values)


def test_bodies_are_gzip_if_set(cluster: FakeCluster) -> None:
    write(cluster, batch(500), compression="gzip")

    (request,) = cluster.requests
    assert request.headers["content-encoding"] == "gzip"
    assert len(cluster.documents) == 500
    assert request.sent < len(request.body) / 3


@pytest.mark.parametrize(
    ("options", "header"), [({"api_key": SECRET}, f"ApiKey {SECRET}"), ({"token": SECRET}, f"Bearer {SECRET}")]
)
def test_keys_and_tokens_are_sent(cluster: FakeCluster, options: dict[str, str], header: str) -> None:
    write(cluster, batch(), **options)

    assert cluster.requests[0].headers["authorization"] == header


def test_requests_share_a_connection(cluster: FakeCluster) -> None:
    bulk = writer(cluster)
    for _ in range(3):
        bulk.write(batch())

    assert len({id(request.connection) for request in cluster.requests}) == 1


def test_no_request_exceeds_the_limits(cluster: FakeCluster) -> None:
    dice, rejected = random.Random(6), list[Rejects]()
    limits = {"max_events": 40, "max_bytes": 4000}
    one = sink(cluster, index="logs-{text}", batch=limits)
    sink_writer = SinkWriter("out", one, one.open(TASK), rejected.append)

    for first in range(0, 600, 100):
        numbers = list(range(first, first + 100))
        texts = ['x"\\\n' * dice.choice([0, 1, 5, 50, 700]) for _ in numbers]
        sink_writer.write(pa.RecordBatch.from_pydict({"n": numbers, "text": texts, OFFSET: numbers}))
    sink_writer.close()

    assert max(len(request.lines) // 2 for request in cluster.requests) <= 40
    assert max(len(request.body) for request in cluster.requests) <= 4000
    refused = {n for one in rejected for n in one.events.column("n").to_pylist()}
    assert {one.code for one in rejected} == {"event-too-large"}
    assert {document["n"] for document in cluster.documents.values()} | refused == set(range(600))


# ── What became of it ──


def test_only_failed_documents_are_retried(cluster: FakeCluster) -> None:
    busy = {"id-1": (429, "es_rejected_execution_exception", "queue full"), "id-2": (503, "unavailable_shards_exception", "no")}
    cluster.fate = lambda id_, document: busy.get(id_)

    result = write(cluster, batch(4))

    assert again(result) == [1, 2]
    assert result.cause == f"{cluster.url} answers 503: unavailable_shards_exception: no"
    assert set(cluster.documents) == {("logs", "id-0"), ("logs", "id-3")}


def test_appending_waits_while_the_disk_is_full(cluster: FakeCluster) -> None:
    cluster.fate = lambda id_, document: (403, "cluster_block_exception", "index [logs] blocked by: [FORBIDDEN/12/…]")

    assert again(write(cluster, batch(2))) == [0, 1]


def test_a_document_that_does_not_fit_is_a_dead_letter_and_the_others_are_indexed(cluster: FakeCluster) -> None:
    cluster.fate = lambda id_, document: (400, "mapper_parsing_exception", "no long") if document["n"] == 1 else None

    result = write(cluster, batch(3))

    assert dead(result) == [("elasticsearch-rejected", [1], ["400: mapper_parsing_exception: no long"])]
    assert len(cluster.documents) == 2


def test_a_document_that_exists_counts_as_written(cluster: FakeCluster) -> None:
    write(cluster, batch(2))
    result = write(cluster, batch(4))

    assert (again(result), dead(result)) == ([], [])
    assert len(cluster.documents) == 4


def test_a_conflict_of_an_update_is_retried(cluster: FakeCluster) -> None:
    cluster.fate = lambda id_, document: (409, "version_conflict_engine_exception", "changed")

    assert again(write(cluster, batch(1), action="update", id=["n"])) == [0]


@pytest.mark.parametrize("bad", [None, "", "x" * 513, "é" * 257])
def test_an_id_that_the_server_would_refuse_is_a_dead_letter(cluster: FakeCluster, bad: str | None) -> None:
    cluster.fate = lambda id_, document: (429, "busy", "busy") if id_ == "c" else None

    result = write(cluster, batch(n=[1, 2, 3], key=["a", bad, "c"]), id=["key"])

    ((code, numbers, _),) = dead(result)
    assert (code, numbers, again(result)) == ("bad-id", [2], [2])


def test_a_request_that_is_too_large_is_halved_and_so_are_later_ones(cluster: FakeCluster) -> None:
    max_bytes = 600
    cluster.answer = lambda request: Reply(413) if len(request.body) > max_bytes else cluster.bulk(request)
    bulk = writer(cluster)

    first, seen = bulk.write(batch(50)), len(cluster.requests)
    second = bulk.write(batch(50))

    assert [again(first), dead(first), again(second), dead(second)] == [[], [], [], []]
    assert len(cluster.documents) == 50
    assert all(len(request.body) <= max_bytes for request in cluster.requests[seen:])


def test_a_document_that_is_too_large_for_the_server_is_a_dead_letter(cluster: FakeCluster) -> None:
    cluster.answer = lambda request: Reply(413) if b"large" in request.body else cluster.bulk(request)

    result = write(cluster, batch(n=[0, 1, 2], text=["a", "large", "c"]))

    assert [(code, numbers) for code, numbers, _ in dead(result)] == [("event-too-large", [1])]
    assert len(cluster.documents) == 2


def test_a_document_that_fails_its_whole_request_is_found(cluster: FakeCluster) -> None:
    cluster.answer = lambda request: (
        Reply(400, b'{"error":{"type":"bad","reason":"bad"}}') if b"evil" in request.body else cluster.bulk(request)
    )

    result = write(cluster, batch(n=list(range(9)), text=["evil" if n == 5 else "good" for n in range(9)]))

    assert dead(result) == [("elasticsearch-rejected", [5], ["400: bad: bad"])]
    assert len(cluster.documents) == 8


def test_a_server_that_refuses_every_request_ends_the_run(cluster: FakeCluster) -> None:
    cluster.answer = lambda request: Reply(400, b"what is this?")

    with pytest.raises(ComponentError, match="400: what is this"):
        write(cluster, batch(100))


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_request_to_a_busy_server_is_retried(cluster: FakeCluster, status: int) -> None:
    cluster.replies = [Reply(status, b"later")]

    result = write(cluster, batch(2))

    assert again(result) == [0, 1]
    assert result.cause == f"{cluster.url} answers {status}: later"


@pytest.mark.parametrize(
    ("reply", "expected_text"),
    [
        (Reply(401, b'{"error":{"type":"security_exception","reason":"who?"}}'), "401: security_exception: who\\?; check user"),
        (Reply(403, b"no"), "403: no; this login lacks the right"),
        (Reply(404, b"nothing"), "404: nothing; check the path of the URL"),
        (
            Reply(302, headers={"Location": "http://evil.example/"}),
            "302: it redirects to 'http://evil.example/', and redirects are not followed",
        ),
    ],
)
def test_permanent_errors_end_the_run(cluster: FakeCluster, reply: Reply, expected_text: str) -> None:
    cluster.replies = [reply]

    with pytest.raises(ComponentError, match=expected_text) as caught:
        write(cluster, batch(2), user="etl", password=SECRET)

    assert SECRET not in str(caught.value)
    assert len(cluster.requests) == 1


@pytest.mark.parametrize(
    ("status", "type_", "reason"),
    [
        (403, "security_exception", "action [indices:data/write] is unauthorized"),
        (404, "index_not_found_exception", "no such index [logs]"),
        (400, "illegal_argument_exception", "only write ops with an op_type of create are allowed in data streams"),
        (400, "illegal_argument_exception", "pipeline with id [x] does not exist"),
    ],
)
def test_errors_that_concern_no_event_end_the_run(cluster: FakeCluster, status: int, type_: str, reason: str) -> None:
    cluster.fate = lambda id_, document: (status, type_, reason)

    with pytest.raises(ComponentError, match="nothing is lost"):
        write(cluster, batch(2))


@pytest.mark.parametrize(
    "reply",
    [
        Reply(200, b"<html>a proxy</html>"),
        Reply(200, b'{"errors":false'),
        Reply(200, b'{"errors":true,"items":[]}'),
        Reply(200, b'{"errors":true,"items":[{"create":{}},{"create":{"status":"x"}}]}'),
        Reply(200, b'{"errors":true,"items":[{},{}]}'),
        Reply(200, b'{"errors":true,"items":7}'),
        Reply(200, b"[" * 100_000),
        Reply(200, b'{"errors":false,"items":[]}', cut=12),
        Reply(cut=0),
    ],
    ids=str,
)
def test_a_request_with_an_invalid_response_is_retried(cluster: FakeCluster, reply: Reply) -> None:
    cluster.replies = [reply]
    bulk = writer(cluster)

    first = bulk.write(batch(2))
    second = bulk.write(batch(2))

    assert again(first) == [0, 1]
    assert f"127.0.0.1:{cluster.port}" in first.cause
    assert again(second) == []
    assert len(cluster.documents) == 2


def test_a_request_is_retried_after_the_timeout(cluster: FakeCluster) -> None:
    never = threading.Event()
    cluster.replies = [Reply(wait=never)]

    result = write(cluster, batch(2), timeout="200ms")
    never.set()

    assert again(result) == [0, 1]
    assert result.cause == f"{cluster.url}: no complete response within 0.2 s"


def test_a_connection_that_the_server_closed_is_opened_again(cluster: FakeCluster) -> None:
    bulk = writer(cluster)
    closing = cluster.bulk

    def and_close(request: Request) -> Reply:
        reply = closing(request)
        return Reply(reply.status, reply.body, {"Connection": "close"}, cut=len(reply.body))

    cluster.answer = and_close
    results = [bulk.write(batch(2)) for _ in range(3)]

    assert [again(result) for result in results] == [[], [], []]


def test_another_node_is_used_if_one_is_down(cluster: FakeCluster) -> None:
    with FakeServer().running() as gone:
        url = gone.url
    bulk = writer("http://unused", urls=[url, cluster.url, url])

    results = [bulk.write(batch(2)) for _ in range(4)]

    assert [again(result) for result in results] == [[], [], [], []]


def test_another_node_is_used_if_one_is_unavailable(cluster: FakeCluster) -> None:
    with FakeServer(lambda request: Reply(503)).running() as sick:
        bulk = writer("http://unused", urls=[sick.url, cluster.url])
        results = [bulk.write(batch(2)) for _ in range(3)]

    assert len(sick.requests) <= 1
    assert again(results[-1]) == again(results[-2]) == []


def test_an_error_names_a_cluster_that_is_down() -> None:
    with FakeServer().running() as gone:
        url = gone.url

    result = write(url, batch(2))

    assert result.cause == f"{url}: Connection refused"
    assert again(result) == [0, 1]


# ── What is wrong with options ──

FIELDS = pa.schema(
    [
        ("n", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("host", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("raw", pa.binary()),
    ]
)


@pytest.mark.parametrize(
    ("options", "code", "path"),
    [
        ({"index": "Logs"}, "bad-index", ("index",)),
        ({"index": "a b"}, "bad-index", ("index",)),
        ({"index": "_logs"}, "bad-index", ("index",)),
        ({"index": ".."}, "bad-index", ("index",)),
        ({"index": "x" * 256}, "bad-index", ("index",)),
        ({"index": "logs-{host"}, "bad-index", ("index",)),
        ({"index": "{host}"}, "no-literal-prefix", ("index",)),
        ({"index": "a-{hots}"}, "unknown-field", ("index",)),
        ({"index": "a-{tags}"}, "wrong-type", ("index",)),
        ({"index": "a-{yyyy.MM.dd}"}, "unknown-field", ("index",)),
        ({"index": "a-{yyyy.MM.dd}", "time_field": "host"}, "wrong-type", ("time_field",)),
        ({"index": "a-{yyyy/MM}", "time_field": "at"}, "bad-index", ("index",)),
        ({"time_field": "at"}, "unused-option", ("time_field",)),
        ({"id": ["hots"]}, "unknown-field", ("id", 0)),
        ({"id": ["raw"]}, "wrong-type", ("id", 0)),
        ({"routing": "tags"}, "wrong-type", ("routing",)),
        ({"action": "update"}, "missing-id", ("action",)),
        ({"data_stream": True}, "unknown-field", ("data_stream",)),
        ({"data_stream": True, "action": "index"}, "data-stream-action", ("action",)),
        ({"urls": ["http://u:p@h:1"]}, "url-with-password", ("urls", 0)),
        ({"urls": ["http://h:99999"]}, "bad-port", ("urls", 0)),
        ({"password": SECRET}, "missing-user", ("password",)),
        ({"user": "u", "token": SECRET}, "several-logins", ("token",)),
        ({"api_key": SECRET + "\n"}, "bad-header", ("api_key",)),
        ({"tls": {"verify": "none"}}, "tls-unused", ("tls",)),
    ],
)
def test_wrong_options_are_findings(options: dict[str, Any], code: str, path: tuple[object, ...]) -> None:
    findings = list(sink("http://localhost:9200", **options).check(FIELDS))

    assert (code, path) in [(finding.code, finding.path) for finding in findings]
    assert SECRET not in str(findings)


def test_good_options_have_no_findings() -> None:
    good = sink(
        "http://localhost:9200",
        index="logs-{host}-{yyyy.MM.dd}",
        max_indices=50,
        time_field="at",
        id=["n", "at"],
        routing="host",
        user="u",
    )

    assert list(good.check(FIELDS)) == []
    assert good.guaranteed() == "exactly once"
    assert sink("http://localhost:9200", data_stream=True).guaranteed() == "at least once"


# ── Looking before ──


def test_a_probe_writes_nothing(cluster: FakeCluster) -> None:
    mapping = {
        "logs": {"mappings": {"properties": {"n": {"type": "date"}, "host": {"type": "long"}, "tags": {"type": "keyword"}}}}
    }
    cluster.answer = lambda request: Reply(404) if "pipeline" in request.path else Reply(body=json.dumps(mapping).encode())

    findings = list(sink(cluster, pipeline="x").probe(FIELDS))

    assert [(f.code, f.severity) for f in findings] == [("unknown-pipeline", "error"), ("index-mismatch", "warning")]
    assert "'host' is string, but long in the index" in findings[1].message
    assert {request.method for request in cluster.requests} == {"GET"}


def test_a_probe_reports_a_missing_index_and_a_data_stream(cluster: FakeCluster) -> None:
    cluster.answer = lambda request: Reply(404, b"{}")
    assert [f.code for f in sink(cluster).probe(FIELDS)] == ["unknown-index"]

    cluster.answer = lambda request: Reply(body=b'{".ds-logs-000001":{"mappings":{}}}')
    assert [f.code for f in sink(cluster, action="index").probe(FIELDS)] == ["data-stream", "data-stream-action"]


def test_a_login_that_may_only_write_passes_a_probe(cluster: FakeCluster) -> None:
    cluster.answer = lambda request: Reply(403, b"no")

    assert list(sink(cluster, pipeline="x").probe(FIELDS)) == []
    assert list(sink(cluster, index="logs-{host}").probe(FIELDS)) == []


def test_a_probe_reports_a_refused_login_and_a_missing_server(cluster: FakeCluster) -> None:
    cluster.answer = lambda request: Reply(401, b"who?")
    with pytest.raises(ComponentError, match="401"):
        list(sink(cluster, user="u", password=SECRET, index="logs-{host}").probe(FIELDS))

    with FakeServer().running() as gone:
        url = gone.url
    with pytest.raises(ConnectionError, match="Connection refused"):
        list(sink(url).probe(FIELDS))
