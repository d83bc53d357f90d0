"""The elasticsearch source: parsing of responses, division of time into splits, and a server that fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from fake_http import FakeServer, Reply
from hypothesis import example, given, settings
from hypothesis import strategies as st

from connectors.elasticsearch.hits import parse_hits
from connectors.elasticsearch.source import ElasticsearchSource
from connectors.elasticsearch.time_ranges import MIN_FILL, divide_time, find_end_time
from connectors.http.connection import Response
from etl.api import OFFSET, ComponentError, Limit

ALL = Limit(1 << 62, None, bounded=True)
SECRET = "hunter2-source"

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3),
    max_leaves=6,
)
sources = st.dictionaries(st.text(st.characters(codec="utf-8")), values, max_size=4)


def answer(body: bytes) -> Response:
    return Response("http://h:1", 200, {}, body)


def body(hits: list[Any], **more: Any) -> bytes:
    return json.dumps({**more, "hits": {"hits": hits}}, separators=(",", ":"), ensure_ascii=False).encode()


def hit(n: int, source: Any, index: str = "logs") -> dict[str, Any]:
    return {"_index": index, "_id": f"d{n}", "_source": source, "sort": [n]}


def source(server: FakeServer | str, **options: Any) -> ElasticsearchSource:
    url = server if isinstance(server, str) else server.url
    return ElasticsearchSource.model_validate({"type": "elasticsearch", "urls": [url], "index": "logs", **options})


@pytest.fixture
def server() -> Iterator[FakeServer]:
    fake = FakeServer()
    with fake.running():
        yield fake


# ── Answers ──


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.lists(sources, max_size=5))
def test_documents_are_read_unchanged(documents: list[Any]) -> None:
    hits = [hit(n, document) for n, document in enumerate(documents)]
    expected_text = body(hits, pit_id='p"hits":[')

    found = parse_hits(answer(expected_text), 10)

    assert [json.loads(text) for text in found.source.to_pylist()] == documents
    assert found.id.to_pylist() == [one["_id"] for one in hits]
    assert found.after == ([len(hits) - 1] if hits else None)
    assert found.response == {"pit_id": 'p"hits":[', "hits": {"hits": []}}


def test_the_offset_of_a_document_does_not_depend_on_its_split() -> None:
    some = parse_hits(answer(body([hit(n, {}) for n in (1, 2, 3)])), 10).document_numbers().to_pylist()
    others = (
        parse_hits(answer(body([hit(3, {"a": 1}), hit(1, None), hit(1, {}, index="logs-2")])), 10).document_numbers().to_pylist()
    )

    assert others[:2] == [some[2], some[0]]
    assert len({*some, *others}) == 4
    assert min(some) >= 0


@pytest.mark.slow
def test_offsets_of_many_documents_differ() -> None:
    hits = [{"_index": "logs", "_id": str(n), "_source": {}} for n in range(50_000)]

    assert len(set(parse_hits(answer(body(hits)), 50_000).document_numbers().to_pylist())) == 50_000


@pytest.mark.parametrize(
    "expected_text",
    [
        b"",
        b"<html>",
        b'{"hits":{"hits":[',
        b'{"hits":{"hits":[{"_id":"a"',
        b'{"hits":{"hits":[{"_id":"a}]}}',
        b'{"hits":{"hits":[{"_id":]}]}}',
        b'{"hits":{"hits":[{}]}',
        body([hit(n, {}) for n in range(11)]),
    ],
)
def test_an_invalid_search_response_is_temporary(expected_text: bytes) -> None:
    with pytest.raises(ConnectionError, match="no response of a search"):
        parse_hits(answer(expected_text), 10)


# ── Times ──

times = st.lists(st.integers(0, 2000), min_size=1, max_size=300).map(sorted)


def counting(there: list[int]) -> Any:
    return lambda low, high: sum(low <= time < high for time in there)


@settings(deadline=None, max_examples=60)
@given(times, st.integers(1, 400))
def test_a_time_range_has_at_most_the_requested_documents_and_almost_as_many(there: list[int], max_documents: int) -> None:
    count = counting(there)

    at = find_end_time(count, 0, 2001, max_documents)

    assert 0 < at <= 2001
    assert count(0, at) <= max_documents or at == 1
    assert count(0, at) >= MIN_FILL * max_documents or count(0, at + 1) > max_documents or at >= 2000


@settings(deadline=None, max_examples=60)
@given(times, st.integers(1, 8))
@example([0, 0], 7)
def test_splits_cover_all_times_once(there: list[int], parts: int) -> None:
    found = divide_time(counting(there), 0, 2001, parts)

    assert (found[0], found[-1], found) == (0, 2001, sorted(found))


def test_splits_are_about_equal() -> None:
    there = [n * n // 500 for n in range(1000)]
    count = counting(there)

    found = divide_time(count, 0, 2001, 4)

    assert max(count(low, high) for low, high in pairwise(found)) <= 420


# ── A server that misbehaves ──


def searching(server: FakeServer, *pages: Reply) -> None:
    server.replies = [Reply(body=b'{"id":"pit"}'), *pages]


def test_pages_follow_each_other_with_the_newest_point_in_time(server: FakeServer) -> None:
    pages = [body([hit(n, {"n": n}) for n in part], pit_id=f"pit{part[0]}") for part in ([0, 1], [2, 3], [4])]
    searching(server, *(Reply(body=page) for page in pages))
    one = source(server, page=2, id_field="id", query={"term": {"a": 1}}, compression="gzip")

    end = one.latest(one.start(), ALL)
    events = [event for split in one.splits(one.start(), end, 1) for batch in one.read(split) for event in rows(batch)]

    asked = [json.loads(request.body) for request in server.requests[1:]]
    assert [event["id"] for event in events] == ["d0", "d1", "d2", "d3", "d4"]
    assert [request["pit"]["id"] for request in asked] == ["pit", "pit0", "pit2"]
    assert [request.get("search_after") for request in asked] == [None, [1], [3]]
    assert all(request["query"] == {"term": {"a": 1}} for request in asked)
    assert "allow_partial_search_results=false" in server.requests[1].path
    assert server.requests[1].headers["accept-encoding"] == "gzip"


def rows(batch: Any) -> list[dict[str, Any]]:
    assert isinstance(batch, pa.RecordBatch)
    assert OFFSET in batch.schema.names
    return batch.to_pylist()


@pytest.mark.parametrize(
    "reply",
    [Reply(429, b"busy"), Reply(503), Reply(500), Reply(200, b"<html>"), Reply(cut=0), Reply(200, body([], timed_out=True))],
    ids=str,
)
def test_a_busy_server_is_temporary(server: FakeServer, reply: Reply) -> None:
    searching(server, reply)
    one = source(server)
    (split,) = one.splits(one.start(), one.latest(one.start(), ALL), 1)

    with pytest.raises(ConnectionError, match=f"127.0.0.1:{server.port}"):
        list(one.read(split))


@pytest.mark.parametrize(
    ("reply", "expected_text"),
    [
        (Reply(401, b"who?"), "401.*check user"),
        (Reply(403, b"no"), "403.*lacks the right"),
        (
            Reply(404, b'{"error":{"type":"x","caused_by":{"type":"search_context_missing_exception"}}}'),
            "point in time.*keep_alive",
        ),
        (Reply(400, b'{"error":{"type":"parsing_exception","reason":"no query"}}'), "parsing_exception: no query"),
    ],
)
def test_permanent_errors_end_the_run(server: FakeServer, reply: Reply, expected_text: str) -> None:
    searching(server, reply)
    one = source(server, api_key=SECRET)
    (split,) = one.splits(one.start(), one.latest(one.start(), ALL), 1)

    with pytest.raises(ComponentError, match=expected_text) as caught:
        list(one.read(split))
    assert SECRET not in str(caught.value)


def test_an_error_at_closing_a_point_in_time_is_ignored(server: FakeServer) -> None:
    searching(server)
    one = source(server)
    end = one.latest(one.start(), ALL)
    server.replies = [Reply(cut=0)]

    one.commit([end])
    one.commit([one.start()])
    one.commit([end, {**end, "over": False}])

    assert [request.method for request in server.requests] == ["POST", "DELETE"]


# ── Options ──


@pytest.mark.parametrize(
    ("options", "code", "path"),
    [
        ({"lag": "5s"}, "unused-option", ("lag",)),
        ({"start": "latest"}, "unused-option", ("start",)),
        ({"fields": {"a": "map<int,int>"}}, "unreadable-type", ("fields", "a")),
        ({"fields": {"a": "int"}, "id_field": "a"}, "field-conflict", ("id_field",)),
        ({"fields": {"a": "int", "a.b": "int"}}, "field-conflict", ("fields",)),
        ({"urls": ["http://u:p@h/"]}, "url-with-password", ("urls", 0)),
    ],
)
def test_wrong_options_are_findings(options: dict[str, Any], code: str, path: tuple[object, ...]) -> None:
    findings = list(source("http://localhost:9200", **options).check())

    assert (code, path) in [(finding.code, finding.path) for finding in findings]


def test_fields_are_declared_or_the_document_is_text() -> None:
    declared = source("http://h", fields={"t": "timestamp", "source.ip": "string"}, id_field="id", index_field="index")

    assert source("http://h").fields().names == ["message"]
    assert declared.fields().names == ["id", "index", "t", "source.ip"]
