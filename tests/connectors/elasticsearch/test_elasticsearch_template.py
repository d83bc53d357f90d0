"""The option `template` of the elasticsearch sink: mappings from fields, and when the sink sends them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fake_http import FakeServer, Reply, Request

from connectors.elasticsearch.mappings import make_mappings
from connectors.elasticsearch.sink import ElasticsearchSink
from etl.api import ComponentError

FIELDS = pa.schema(
    [
        ("@timestamp", pa.timestamp("us", "UTC")),
        ("source.ip", pa.string()),
        ("source.port", pa.int32()),
        ("source.geo.location", pa.struct([("lat", pa.float64()), ("lon", pa.float64())])),
        ("message", pa.string()),
        ("event.original", pa.string()),
        ("related.ip", pa.list_(pa.string())),
        ("took", pa.float64()),
        ("ok", pa.bool_()),
        ("labels", pa.map_(pa.string(), pa.string())),
        ("rules", pa.list_(pa.struct([("id", pa.string()), ("score", pa.int64())]))),
        ("_offset", pa.int64()),
    ]
)
KEYWORD = {"type": "keyword", "ignore_above": 1024}


@pytest.fixture
def server() -> Iterator[Templates]:
    with Templates().running() as fake:
        assert isinstance(fake, Templates)
        yield fake


class Templates(FakeServer):
    """Stores index templates, and returns existing ``indices``."""

    def __init__(self) -> None:
        super().__init__(self.asked)
        self.known: dict[str, Any] = {}
        self.indices: list[str] = []

    def asked(self, request: Request) -> Reply:
        if not request.path.startswith("/_index_template/"):
            return Reply(body=json.dumps({name: {} for name in self.indices}).encode())
        if request.method == "PUT":
            self.known[request.path] = json.loads(request.body)
            return Reply(body=b'{"acknowledged":true}')
        found = self.known.get(request.path)
        return Reply(404, b"{}") if found is None else Reply(body=json.dumps(_answer(found)).encode())

    @property
    def puts(self) -> int:
        return sum(request.method == "PUT" for request in self.requests)


def _answer(template: Any) -> Any:
    return {"index_templates": [{"name": "x", "index_template": template}]}


def sink(server: FakeServer, **options: Any) -> ElasticsearchSink:
    given = {"type": "elasticsearch", "urls": [server.url], "index": "logs-web-{yyyy.MM.dd}", "time_field": "@timestamp"}
    return ElasticsearchSink.model_validate({**given, "template": "ecs", **options})


def test_fields_are_mapped_by_their_names_and_types() -> None:
    found = make_mappings(FIELDS)["properties"]

    assert found["@timestamp"] == {"type": "date"}
    assert found["source"]["properties"] == {
        "geo": {"properties": {"location": {"type": "geo_point"}}},
        "ip": {"type": "ip"},
        "port": {"type": "long"},
    }
    assert found["message"] == {"type": "text", "norms": False}
    assert found["event"]["properties"]["original"] == {"type": "keyword", "index": False, "doc_values": False}
    assert found["related"]["properties"]["ip"] == {"type": "ip"}
    assert (found["took"], found["ok"]) == ({"type": "double"}, {"type": "boolean"})
    assert found["rules"]["properties"] == {"id": KEYWORD, "score": {"type": "long"}}
    assert "labels" not in found


def test_a_field_with_members_has_no_mapping_of_its_own() -> None:
    in_both = pa.schema([("error", pa.string()), ("error.message", pa.string()), ("error.code.name", pa.string())])

    found = make_mappings(in_both)["properties"]

    assert found["error"]["properties"]["message"]["type"] == "text"
    assert found["error"]["properties"]["code"] == {"properties": {"name": KEYWORD}}


def test_a_template_is_put_once_for_the_prefix_of_the_index(server: Templates) -> None:
    for _ in range(2):
        sink(server).prepare(FIELDS)

    (path,) = server.known
    body = server.known[path]
    assert server.puts == 1
    assert path == "/_index_template/sluice-logs-web"
    assert (body["index_patterns"], body["priority"]) == (["logs-web-*"], 200 + len("logs-web-"))
    assert body["template"]["mappings"]["properties"]["source"]["properties"]["ip"] == {"type": "ip"}
    assert "_offset" not in body["template"]["mappings"]["properties"]


def test_other_fields_are_another_template(server: Templates) -> None:
    sink(server).prepare(FIELDS)
    sink(server).prepare(FIELDS.append(pa.field("more", pa.string())))

    assert server.puts == 2


def test_a_warning_says_that_existing_indices_keep_their_mapping(server: Templates, caplog: pytest.LogCaptureFixture) -> None:
    server.indices = ["logs-web-2026.11.22"]

    sink(server).prepare(FIELDS)

    assert "logs-web-2026.11.22" in caplog.text
    assert "applies to new ones" in caplog.text


def test_without_the_option_no_request_is_sent(server: Templates) -> None:
    sink(server, template=None).prepare(FIELDS)

    assert server.requests == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"mappings": {"properties": {}}}, {"template": {"mappings": {"properties": {}}}, "index_patterns": ["logs-web-*"]}),
        ({"index_patterns": ["l*"], "priority": 7, "template": {}}, {"index_patterns": ["l*"], "priority": 7, "template": {}}),
    ],
)
def test_a_file_has_a_template_or_only_its_mappings(server: Templates, tmp_path: Path, given: Any, expected: Any) -> None:
    file = tmp_path / "t.json"
    file.write_text(json.dumps(given))

    sink(server, template=str(file)).prepare(FIELDS)

    (body,) = server.known.values()
    assert expected.items() <= body.items()


def test_a_data_stream_has_a_data_stream_template(server: Templates) -> None:
    sink(server, data_stream=True, index="logs-web", time_field=None).prepare(FIELDS)

    (body,) = server.known.values()
    assert (body["data_stream"], body["index_patterns"]) == ({}, ["logs-web"])


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}', None])
def test_lint_finds_a_file_that_is_not_a_template(server: Templates, tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "t.json"
    if text is not None:
        file.write_text(text)
    wrong = sink(server, template=str(file))

    (finding,) = [one for one in wrong.check(FIELDS) if one.code == "bad-index-template"]

    assert finding.path == ("template",)
    assert str(file) in finding.message
    with pytest.raises(ComponentError):
        wrong.prepare(FIELDS)


@pytest.mark.parametrize(
    ("reply", "error"),
    [(Reply(400, b"bad mapping"), ComponentError), (Reply(403), ComponentError), (Reply(503), ConnectionError)],
)
def test_a_refused_template_is_an_error(server: Templates, reply: Reply, error: type[Exception]) -> None:
    server.answer = lambda request: Reply(404, b"{}") if request.method == "GET" else reply

    with pytest.raises(error, match=str(reply.status) if reply.status != 400 else "bad mapping"):
        sink(server).prepare(FIELDS)
