"""The `http` source with what agents send: requests as Filebeat, Logstash, Fluent Bit, Vector and others make them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from receiving import create_source, messages, send
from source_events import read_all, receiving

# ── Elasticsearch ──


def test_bulk_of_filebeat(tmp_path: Path) -> None:
    source = create_source(tmp_path, format="elasticsearch")
    action = b'{"create":{"_index":"filebeat-8.17.0"}}\n'
    body = b"".join(action + b'{"@timestamp":"2026-11-27T08:00:00.000Z","message":"line %d"}\n' % n for n in range(3))
    with receiving(source) as receiver:
        root = send(receiver, "/", None, "GET")
        assert send(receiver, "/_license", None, "GET").json["license"]["status"] == "active"
        assert send(receiver, "/_index_template/filebeat-8.17.0", None, "HEAD").status == 404
        assert send(receiver, "/_index_template/filebeat-8.17.0", b"{}", "PUT").json == {"acknowledged": True}
        assert send(receiver, "/_cluster/health", None, "GET").json["status"] == "green"
        answer = send(receiver, "/_bulk?filter_path=errors%2Citems.*.error%2Citems.*.status", body)

    assert root.json["version"]["number"].startswith("8.")
    assert root.headers["x-elastic-product"] == answer.headers["x-elastic-product"] == "Elasticsearch"
    assert answer.json["errors"] is False
    assert [item["create"]["status"] for item in answer.json["items"]] == [201] * 3
    found = read_all(source)
    assert [json.loads(row["message"])["message"] for row in found] == ["line 0", "line 1", "line 2"]
    assert {(row["elasticsearch.index"], row["elasticsearch.id"]) for row in found} == {("filebeat-8.17.0", None)}


def test_bulk_with_index_in_the_path_and_identifiers(tmp_path: Path) -> None:
    source = create_source(tmp_path, format="elasticsearch")
    actions = [{"index": {"_id": 'a\\"1'}}, {"create": {"_index": "other", "_id": 7, "routing": None}}, {"index": {}}]
    body = "".join(json.dumps(action) + '\r\n{"n":1}\r\n' for action in actions).encode()
    with receiving(source) as receiver:
        answer = send(receiver, "/logs-app/_bulk", body, "PUT")

    (first, second, third) = answer.json["items"]
    assert (first["index"]["_index"], first["index"]["_id"], second["create"]["_id"]) == ("logs-app", 'a\\"1', 7)
    assert third["index"]["status"] == 201
    found = [(row["message"], row["elasticsearch.index"], row["elasticsearch.id"]) for row in read_all(source)]
    assert found == [('{"n":1}', "logs-app", 'a\\"1'), ('{"n":1}', "other", "7"), ('{"n":1}', "logs-app", None)]


def test_each_item_has_its_own_status(tmp_path: Path) -> None:
    source = create_source(tmp_path, format="elasticsearch", max_event_bytes=20)
    body = (
        b'{"create":{"_index":"i"}}\n{"n":1}\n'
        b'{"delete":{"_index":"i","_id":"x"}}\n'
        b'{"update":{"_index":"i","_id":"x"}}\n{"doc":{}}\n'
        b'{"create":{"_index":"i"}}\nno object\n'
        b'{"create":{"_index":"i"}}\n{"long":"xxxxxxxxxxxxxxxxxx"}\n'
        b'\n{"index":{"_index":"i"}}\n\n{"n":2}\n'
    )
    with receiving(source) as receiver:
        answer = send(receiver, "/_bulk", body)

    assert answer.json["errors"] is True
    items = [next(iter(item.items())) for item in answer.json["items"]]
    assert [(name, value["status"]) for name, value in items] == [
        ("create", 201),
        ("delete", 400),
        ("update", 400),
        ("create", 400),
        ("create", 413),
        ("index", 201),
    ]
    assert messages(source) == ['{"n":1}', '{"n":2}']


@pytest.mark.parametrize(
    "body",
    [b"", b"\n", b"{}\n{}\n", b'{"create":{}}\n', b"x\n{}\n", b'{"create":1}\n{}\n', b'{"create":{}}\n{}\n{"a"', b"[" * 9999],
)
def test_a_bulk_request_without_its_form_is_refused(tmp_path: Path, body: bytes) -> None:
    source = create_source(tmp_path, format="elasticsearch")
    with receiving(source) as receiver:
        answer = send(receiver, "/_bulk", body)

    assert (answer.status, answer.json["status"]) == (400, 400)
    assert answer.json["error"]["root_cause"][0]["reason"]
    assert messages(source) == []


def test_the_answer_to_a_bulk_request_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.http.receiving.formats.bulk_items.MAX_ITEMS", 2)
    source = create_source(tmp_path, format="elasticsearch")
    with receiving(source) as receiver:
        item = b'{"create":{}}\n{}\n'
        answers = [
            send(receiver, f"/{'i' * 256}/_bulk", item),
            send(receiver, "/_bulk", item * 3),
            send(receiver, f"/{'i' * 255}/_bulk", item * 2),
        ]

    assert [answer.status for answer in answers] == [400, 413, 200]
    assert messages(source) == ["{}", "{}"]


def test_errors_as_elasticsearch_names_them(tmp_path: Path) -> None:
    source = create_source(tmp_path, format="elasticsearch", tokens=["t"], max_body_bytes=100)
    with receiving(source) as receiver:
        answers = [
            send(receiver, "/_bulk", b"x"),
            send(receiver, "/_bulk", b"x", Authorization="ApiKey no"),
            send(receiver, "/_bulk", b"x" * 101, Authorization="ApiKey t"),
            send(receiver, "/logs/_search", None, "GET", Authorization="ApiKey t"),
            send(receiver, "/logs", None, "DELETE", Authorization="ApiKey t"),
        ]

    assert [(answer.status, answer.json["error"]["type"]) for answer in answers] == [
        (401, "security_exception"),
        (403, "security_exception"),
        (413, "content_too_long_exception"),
        (404, "resource_not_found_exception"),
        (405, "method_not_allowed"),
    ]


# ── Splunk HEC ──


def test_hec_events_with_metadata(tmp_path: Path) -> None:
    source = create_source(tmp_path, format="splunk_hec", tokens=["t"])
    body = (
        b'{"time":1426279439.123,"host":"web-1","source":"nginx","sourcetype":"access","index":"main",'
        b'"event":"say \\"hi\\" \\u20ac","fields":{"a":["b"]}}{"event":{"nested":{"event":"x"}},"time":"1426279440"}'
        b'\n\n{"event":7,"host":null}'
    )
    with receiving(source) as receiver:
        answer = send(receiver, "/services/collector/event?host=default&index=q", body, Authorization="Splunk t")
        assert answer.json == {"text": "Success", "code": 0}

    found = read_all(source)
    assert [row["message"] for row in found] == ['say "hi" €', '{"nested":{"event":"x"}}', "7"]
    assert [row["splunk.host"] for row in found] == ["web-1", "default", "default"]
    assert [row["splunk.index"] for row in found] == ["main", "q", "q"]
    assert [row["timestamp"] for row in found] == [
        datetime(2015, 3, 13, 20, 43, 59, 123000, UTC),
        datetime(2015, 3, 13, 20, 44, tzinfo=UTC),
        None,
    ]
    assert (found[0]["splunk.fields"], found[0]["splunk.source"], found[0]["splunk.sourcetype"]) == (
        '{"a":["b"]}',
        "nginx",
        "access",
    )


def test_hec_raw_lines_between_events(tmp_path: Path) -> None:
    source = create_source(tmp_path, format="splunk_hec")
    with receiving(source) as receiver:
        send(receiver, "/services/collector", b'{"event":"first","host":"h"}')
        send(receiver, "/services/collector/raw?sourcetype=app&time=1426279439", b'{"event":"not read"}\nplain\n')
        send(receiver, "/services/collector/event/1.0", b'[{"event":"last"}]')

    found = [(row["message"], row["splunk.host"], row["splunk.sourcetype"], row["timestamp"] is None) for row in read_all(source)]
    raw = [('{"event":"not read"}', None, "app", False), ("plain", None, "app", False)]
    assert found == [("first", "h", None, True), *raw, ("last", None, None, True)]


def test_hec_acknowledges_what_is_stored(tmp_path: Path) -> None:
    source = create_source(tmp_path, format="splunk_hec")
    with receiving(source) as receiver:
        numbers = [
            send(receiver, "/services/collector", b'{"event":1}', X_Splunk_Request_Channel="c").json["ackId"],
            send(receiver, "/services/collector/raw?channel=c", b"x").json["ackId"],
            send(receiver, "/services/collector", b'{"event":1}', X_Splunk_Request_Channel="d").json["ackId"],
        ]
        acks = send(receiver, "/services/collector/ack?channel=c", b'{"acks":[0,1]}')
        assert send(receiver, "/services/collector/ack", b'{"acks":1}').json["code"] == 6
        assert send(receiver, "/services/collector/ack", b'{"acks":[1e999]}').json["code"] == 6

    assert numbers == [0, 1, 0]
    assert acks.json == {"acks": {"0": True, "1": True}}


@pytest.mark.parametrize(
    ("body", "code", "number"),
    [
        (b"", 5, None),
        (b" ", 5, None),
        (b'{"event":"a"} x', 6, 1),
        (b'{"event":"a"', 6, 0),
        (b'{"event":"a"}{"host":"h"}', 12, 1),
        (b'{"event":null}', 12, 0),
        (b'{"event":"a"}{"event":""}', 13, 1),
    ],
)
def test_hec_errors(tmp_path: Path, body: bytes, code: int, number: int | None) -> None:
    source = create_source(tmp_path, format="splunk_hec")
    with receiving(source) as receiver:
        answer = send(receiver, "/services/collector", body)

    assert (answer.status, answer.json["code"], answer.json.get("invalid-event-number")) == (400, code, number)
    assert messages(source) == []


def test_hec_tokens_and_health(tmp_path: Path) -> None:
    source = create_source(tmp_path, format="splunk_hec", tokens=["t"], journal={"max_bytes": "1MiB"})
    with receiving(source) as receiver:
        assert send(receiver, "/services/collector/health", None, "GET").json["code"] == 17
        assert send(receiver, "/services/collector", b"x").json == {"text": "Token is required", "code": 2}
        assert send(receiver, "/services/collector", b"x", Authorization="Splunk no").json["code"] == 4
        send(receiver, "/services/collector/raw", b"x" * 2_000_000, Authorization="Splunk t")
        send(receiver, "/services/collector/raw", b"x", Authorization="Splunk t")
        busy = send(receiver, "/services/collector/raw", b"x", Authorization="Splunk t")
        assert (busy.status, busy.json["code"], busy.headers["retry-after"]) == (503, 9, "5")
        health = send(receiver, "/services/collector/health", None, "GET")
        assert (health.status, health.json["code"]) == (503, 18)
