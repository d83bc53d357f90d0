"""The elasticsearch sink and source against real servers: OpenSearch 2.19 and Elasticsearch 8.19; with
``SLUICE_ALL_VERSIONS=1`` Elasticsearch 7.17 and 9.5, too."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from running import Engine
from servers.fleet import asked
from servers.search.search_node import SearchNode

from connectors.elasticsearch.sink import ElasticsearchSink
from connectors.elasticsearch.source import ElasticsearchSource
from etl.api import IDENTITY, OFFSET, ComponentError, Limit, Offset, Result, Split, Task

TASK = Task("p", "out", "split", "/nowhere", pa.schema([]))
ALL = Limit(1 << 62, None, bounded=True)
KINDS = ("opensearch", "elasticsearch", *(("elasticsearch7", "elasticsearch9") if os.environ.get("SLUICE_ALL_VERSIONS") else ()))


@pytest.fixture(params=KINDS)
def node(request: pytest.FixtureRequest) -> SearchNode:
    return request.getfixturevalue(request.param)


@pytest.fixture
def index(request: pytest.FixtureRequest) -> Iterator[str]:
    """A unique name; indices that begin with it are deleted at the end."""
    name = f"etl-{uuid4().hex[:12]}"
    servers = [request.getfixturevalue(kind) for kind in KINDS if kind in asked(request.node)]
    yield name
    for server in servers:
        _, found = server.ask("GET", f"/{name}*/_alias")
        for one in json.loads(found):
            server.ask("DELETE", f"/{one.replace('%', '%25')}")


def request(node: SearchNode, method: str, path: str, body: Any = None) -> Any:
    status, answer = node.ask(method, path, json.dumps(body).encode() if body is not None else None)
    assert status < 300, answer
    return json.loads(answer)


def documents(node: SearchNode, index: str) -> list[Any]:
    request(node, "POST", f"/{index}/_refresh")
    return request(node, "POST", f"/{index}/_search", {"size": 10_000, "sort": ["n"]})["hits"]["hits"]


def fill(node: SearchNode, index: str, events: list[dict[str, Any]], shards: int = 3) -> None:
    request(node, "PUT", f"/{index}", {"settings": {"number_of_shards": shards, "number_of_replicas": 0}})
    body = "".join(f'{{"index":{{"_id":"d{n}"}}}}\n{json.dumps(event)}\n' for n, event in enumerate(events))
    status, answer = node.ask("POST", f"/{index}/_bulk?refresh=true", body.encode(), "application/x-ndjson")
    assert (status, json.loads(answer)["errors"]) == (200, False)


def batch(**columns: Any) -> pa.RecordBatch:
    rows = len(next(iter(columns.values())))
    hidden = {OFFSET: list(range(rows)), IDENTITY: [f"id-{n}" for n in range(rows)]}
    return pa.RecordBatch.from_pydict({**columns, **hidden})


def sink(node: SearchNode, index: str, **options: Any) -> ElasticsearchSink:
    return ElasticsearchSink.model_validate({"type": "elasticsearch", "urls": [node.address], "index": index, **options})


def write(node: SearchNode, index: str, events: pa.RecordBatch, **options: Any) -> Result:
    return sink(node, index, **options).open(TASK).write(events)


def source(node: SearchNode, index: str, **options: Any) -> ElasticsearchSource:
    return ElasticsearchSource.model_validate({"type": "elasticsearch", "urls": [node.address], "index": index, **options})


def read(one: ElasticsearchSource, splits: list[Split]) -> list[dict[str, Any]]:
    batches = [found for split in splits for found in one.read(split)]
    assert all(isinstance(found, pa.RecordBatch) for found in batches)
    return [event for found in batches for event in found.to_pylist()]  # type: ignore[union-attr]


def portions(one: ElasticsearchSource, limit: Limit) -> Iterator[tuple[Offset, list[dict[str, Any]]]]:
    """Read micro-batches until there is no new document."""
    offset = one.start()
    until = one.latest(offset, ALL) if limit.bounded else None
    while (end := one.latest(offset, Limit(limit.max_bytes, limit.max_events, limit.bounded, until))) != offset:
        yield end, read(one, one.splits(offset, end, 2))
        offset = end


# ── Sink ──


def test_events_become_documents_once(node: SearchNode, index: str) -> None:
    times = pa.array([1_767_225_600_000_120, None], pa.timestamp("us", "UTC"))
    events = batch(n=[1, 2], at=times, text=['"quoted"\n\u2028', None], **{"source.ip": ["::1", "10.0.0.1"]})

    results = [write(node, index, events) for _ in range(2)]

    found = documents(node, index)
    assert [(r.retryable, list(r.rejected)) for r in results] == [(None, []), (None, [])]
    assert [(one["_id"], one["_source"]) for one in found] == [
        ("id-0", {"n": 1, "at": "2026-01-01T00:00:00.000120Z", "text": '"quoted"\n\u2028', "source": {"ip": "::1"}}),
        ("id-1", {"n": 2, "at": None, "text": None, "source": {"ip": "10.0.0.1"}}),
    ]


def test_only_a_document_that_does_not_fit_is_rejected(node: SearchNode, index: str) -> None:
    request(node, "PUT", f"/{index}", {"mappings": {"properties": {"n": {"type": "long"}, "v": {"type": "integer"}}}})

    (rejects,) = write(node, index, batch(n=[1, 2, 3], v=["1", "many", "3"])).rejected

    assert (rejects.code, rejects.events.column("n").to_pylist()) == ("elasticsearch-rejected", [2])
    assert "failed to parse field [v] of type [integer]" in pa.array(rejects.reasons).to_pylist()[0]
    assert [one["_source"]["n"] for one in documents(node, index)] == [1, 3]


@pytest.mark.parametrize("text", ["A b", "..", '\\/*?"<>|,#:', "é" * 300, "-", "\x00"])
def test_hostile_values_have_an_index_of_their_own(opensearch: SearchNode, index: str, text: str) -> None:
    result = write(opensearch, f"{index}-{{text}}", batch(n=[1], text=[text]))

    assert (result.retryable, list(result.rejected)) == (None, [])
    assert [one["_source"]["text"] for one in documents(opensearch, f"{index}-*")] == [text]


def test_a_template_gives_new_indices_their_mapping(node: SearchNode, index: str) -> None:
    events = batch(**{"source.ip": ["10.0.0.1", "none"], "message": ["a b", "c"], "user.name": ["x", "y"], "n": [1, 2]})
    made = sink(node, index, template="ecs")

    made.prepare(events.schema)
    made.prepare(events.schema)
    result = made.open(TASK).write(events)

    status, body = node.ask("GET", f"/{index}/_mapping")
    found = json.loads(body)[index]["mappings"]["properties"]
    node.ask("DELETE", f"/_index_template/sluice-{index}")
    assert (status, result.retryable, list(result.rejected)) == (200, None, [])
    assert found["source"]["properties"]["ip"] == {"type": "ip"}
    assert found["user"]["properties"]["name"] == {"type": "keyword", "ignore_above": 1024}
    assert found["n"] == {"type": "long"}
    assert len(documents(node, index)) == 2


def test_updates_merge_and_indexing_replaces(node: SearchNode, index: str) -> None:
    write(node, index, batch(n=[1], a=["x"]), action="update", id=["n"])
    write(node, index, batch(n=[1], b=["y"]), action="update", id=["n"], routing="n")
    write(node, f"{index}-2", batch(n=[1], a=["x"]), action="index", id=["n"])
    write(node, f"{index}-2", batch(n=[1], b=["y"]), action="index", id=["n"])

    assert [one["_source"] for one in documents(node, index)] == [{"n": 1, "a": "x", "b": "y"}]
    assert [one["_source"] for one in documents(node, f"{index}-2")] == [{"n": 1, "b": "y"}]


def test_a_blocked_index_is_a_temporary_error(node: SearchNode, index: str) -> None:
    block = "index.blocks.read_only_allow_delete"
    request(node, "PUT", f"/{index}", {"settings": {block: True}})
    blocked = write(node, index, batch(n=[1, 2]))
    request(node, "PUT", f"/{index}/_settings", {block: None})
    after = write(node, index, batch(n=[1, 2]))

    assert blocked.retryable is not None
    assert blocked.retryable.to_pylist() == [0, 1]
    assert "cluster_block_exception" in blocked.cause
    assert after.retryable is None


def test_a_missing_ingest_pipeline_ends_the_run_and_is_found_by_the_probe(opensearch: SearchNode, index: str) -> None:
    with pytest.raises(ComponentError, match="pipeline with id"):
        write(opensearch, index, batch(n=[1]), pipeline="no-such")

    findings = list(sink(opensearch, index, pipeline="no-such").probe(pa.schema([("n", pa.int64())])))
    assert [finding.code for finding in findings] == ["unknown-pipeline", "unknown-index"]


def test_documents_pass_an_ingest_pipeline(opensearch: SearchNode, index: str) -> None:
    request(opensearch, "PUT", f"/_ingest/pipeline/{index}", {"processors": [{"set": {"field": "by", "value": "pipeline"}}]})

    write(opensearch, index, batch(n=[1]), pipeline=index)

    assert documents(opensearch, index)[0]["_source"] == {"n": 1, "by": "pipeline"}


def test_a_data_stream_accepts_creates(opensearch: SearchNode, index: str) -> None:
    template = {"index_patterns": [index], "data_stream": {}, "template": {"settings": {"number_of_replicas": 0}}}
    request(opensearch, "PUT", f"/_index_template/{index}", template)
    request(opensearch, "PUT", f"/_data_stream/{index}")
    events = batch(n=[1, 2], **{"@timestamp": pa.array([0, 1], pa.timestamp("us", "UTC"))})
    try:
        for _ in range(2):
            assert write(opensearch, index, events, data_stream=True).retryable is None
        with pytest.raises(ComponentError, match="op_type of create"):
            write(opensearch, index, events, action="index")

        assert len(documents(opensearch, index)) == 2
        codes = [finding.code for finding in sink(opensearch, index, action="index").probe(events.schema)]
        assert codes == ["data-stream", "data-stream-action"]
        assert list(sink(opensearch, index, data_stream=True).probe(events.schema)) == []
    finally:
        request(opensearch, "DELETE", f"/_data_stream/{index}")
        request(opensearch, "DELETE", f"/_index_template/{index}")


def test_a_probe_reads_the_mapping(node: SearchNode, index: str) -> None:
    fields = pa.schema([("n", pa.string()), ("source.ip", pa.int64()), ("text", pa.string())])
    assert [finding.code for finding in sink(node, index).probe(fields)] == ["unknown-index"]
    request(node, "PUT", f"/{index}", {"mappings": {"properties": {"n": {"type": "long"}, "source.ip": {"type": "ip"}}}})

    findings = list(sink(node, index).probe(fields))

    assert [finding.code for finding in findings] == ["index-mismatch", "index-mismatch"]
    assert list(sink(node, f"{index}-{{text}}").probe(fields)) == []


# ── Source ──

EVENTS = [{"n": n, "t": f"2026-01-01T00:00:{n // 40:02d}.{n % 7:03d}Z", "source": {"ip": f"10.0.0.{n % 9}"}} for n in range(700)]


def test_all_documents_are_read_once(node: SearchNode, index: str) -> None:
    fill(node, index, EVENTS)
    one = source(node, f"{index}*", page=50, id_field="id", index_field="index")

    ((end, events),) = portions(one, ALL)

    assert sorted(event["id"] for event in events) == sorted(f"d{n}" for n in range(700))
    assert len({event[OFFSET] for event in events}) == 700
    assert {event["index"] for event in events} == {index}
    assert [json.loads(event["message"]) for event in events if event["id"] == "d9"] == [EVENTS[9]]
    assert one.ended(end)
    one.commit([end])
    with pytest.raises(ComponentError, match="point in time"):
        read(one, one.splits(one.start(), end, 2))


def test_documents_added_during_the_read_are_not_read(node: SearchNode, index: str) -> None:
    fill(node, index, EVENTS[:100])
    one = source(node, index, page=50)
    end = one.latest(one.start(), ALL)
    write(node, index, batch(n=[1000]))
    request(node, "POST", f"/{index}/_refresh")

    assert len(read(one, one.splits(one.start(), end, 3))) == 100


def test_max_events_limits_a_micro_batch(node: SearchNode, index: str) -> None:
    fill(node, index, EVENTS)
    one = source(node, index, page=64, fields={"n": "int"})

    batches = [events for _, events in portions(one, Limit(1 << 62, 300, bounded=True))]

    assert [len(events) for events in batches] == [300, 300, 100]
    assert sorted(event["n"] for events in batches for event in events) == list(range(700))


def test_documents_are_followed_by_time(node: SearchNode, index: str) -> None:
    fill(node, index, EVENTS)
    one = source(node, index, page=64, time_field="t", fields={"n": "int", "t": "timestamp", "source.ip": "string"})

    batches = [events for _, events in portions(one, Limit(100_000, None, bounded=True))]

    assert 4 <= len(batches) <= 8
    assert all(events == sorted(events, key=lambda event: event["t"]) for events in batches)
    assert sorted(event["n"] for events in batches for event in events) == list(range(700))
    assert {event["source.ip"] for event in batches[0]} == {f"10.0.0.{n}" for n in range(9)}


def test_a_split_read_again_has_the_same_events(node: SearchNode, index: str) -> None:
    fill(node, index, EVENTS)
    one = source(node, index, page=33, time_field="t", tie_breaker="n")
    start, end = one.start(), one.latest(one.start(), ALL)

    splits = one.splits(start, end, 4)

    assert splits == one.splits(start, end, 4)
    assert read(one, splits) == read(one, splits)
    assert len(read(one, splits)) == 700


def test_only_documents_that_match_the_query_are_read(node: SearchNode, index: str) -> None:
    fill(node, index, EVENTS)
    query = {"range": {"n": {"lt": 10}}}

    for options in ({}, {"time_field": "t"}):
        ((_, events),) = portions(source(node, index, query=query, **options), ALL)
        assert len(events) == 10


def test_documents_younger_than_the_lag_wait(node: SearchNode, index: str) -> None:
    fill(node, index, EVENTS)
    following = Limit(1 << 62)

    young = source(node, index, time_field="t", lag="99999d")
    old = source(node, index, time_field="t", lag="1s")
    new = source(node, index, time_field="t", start="latest")

    assert [len(events) for _, events in portions(young, following)] == []
    assert len(read(old, old.splits(old.start(), old.latest(old.start(), following), 2))) == 700
    assert new.latest(start := new.start(), ALL) == start


def test_a_member_that_does_not_fit_is_rejected(node: SearchNode, index: str) -> None:
    fill(node, index, [{"n": 1, "v": 5}, {"n": 2, "v": [1, 2]}, {"n": 3}])
    one = source(node, index, fields={"n": "int", "v": "int"})

    found = [part for split in one.splits(one.start(), one.latest(one.start(), ALL), 1) for part in one.read(split)]

    events = [event for part in found if isinstance(part, pa.RecordBatch) for event in part.to_pylist()]
    refused = [part for part in found if not isinstance(part, pa.RecordBatch)]
    assert sorted((event["n"], event["v"]) for event in events if event["v"]) == [(1, 5)]
    assert [(part.code, part.events.num_rows) for part in refused] == [("json-failed", 1)]


def test_a_pattern_without_an_index_is_empty_and_a_name_is_an_error(node: SearchNode, index: str) -> None:
    for options in ({}, {"time_field": "t"}):
        assert [events for _, events in portions(source(node, f"{index}*", **options), ALL) if events] == []
        with pytest.raises(ComponentError, match="index_not_found"):
            list(portions(source(node, index, **options), ALL))


def test_a_probe_of_a_source(node: SearchNode, index: str) -> None:
    assert [finding.code for finding in source(node, index).probe()] == ["unknown-index"]
    assert [finding.code for finding in source(node, f"{index}*").probe()] == ["unknown-index"]
    fill(node, index, EVENTS[:1])

    assert list(source(node, f"{index}*", time_field="t").probe()) == []
    assert [finding.code for finding in source(node, index, time_field="n").probe()] == ["wrong-type"]


# ── Whole runs ──


@pytest.mark.spark
def test_a_run_copies_an_index_into_another(engine: Engine, node: SearchNode, index: str) -> None:
    fill(node, index, EVENTS)
    text = f"""
        name: copy
        source: {{type: elasticsearch, urls: ["{node.address}"], index: {index}, fields: {{n: int, t: timestamp}}}}
        steps:
          - {{type: filter, where: "n % 2 = 0"}}
        sink: {{type: elasticsearch, urls: ["{node.address}"], index: "{index}-copy-{{yyyy.MM.dd}}", time_field: t}}
    """

    totals = engine(text)

    found = documents(node, f"{index}-copy-*")
    assert [one["_source"]["n"] for one in found] == list(range(0, 700, 2))
    assert {one["_index"] for one in found} == {f"{index}-copy-2026.01.01"}
    assert totals.read["main"].incoming == 700
