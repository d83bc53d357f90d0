"""The HTTP API, without Spark."""

from __future__ import annotations

import gc
import json
import re
import socket
from contextlib import closing
from typing import Any
from urllib.parse import quote, quote_plus

import pyarrow as pa
import pytest
from jobs_and_client import Client, Jobs
from running import wait_for

from etl.segment.taps import Taps
from etl.server.api_routes import server_samples
from etl.server.documents import DeadLetterPageDocument, NodeDocument, masked
from etl.server.jobs_folder import JobFile, JobsFolder
from etl.server.names import PipelineName
from etl.server.secret_values import SecretValues
from etl.spark.reports.step_measures import TableInUse

A = "/api/pipelines/shop/a"


def test_a_pipeline_from_deploy_to_removal(jobs: Jobs, client: Client) -> None:
    put = client("PUT", A, jobs.text())
    assert (put.status, put.json["accepted_version"], put.json["name"]) == (200, 1, "shop/a")
    jobs.wait("shop/a", "running")
    jobs.run("shop/a").work(100, dead=3)

    shown = client("GET", A).json
    assert (shown["status"], shown["version"], shown["counters"]["read"], shown["counters"]["dead"]) == ("running", 1, 100, 3)
    assert [(step["id"], step["left"], step["line"]) for step in shown["steps"]] == [("steps[0] filter", 97, 3)]
    graph = client("GET", f"{A}/graph").json
    assert [(node["id"], node["events"]) for node in graph["nodes"]] == [
        ("source:main", 100),
        ("stream:steps", 97),
        ("sink:main", 97),
    ]
    assert [(edge["origin"], edge["target"]) for edge in graph["edges"]] == [
        ("source:main", "stream:steps"),
        ("stream:steps", "sink:main"),
    ]

    for verb in ("stop", "start", "pause", "start", "restart"):
        assert client("POST", f"{A}/{verb}").status == 200
        jobs.wait("shop/a", {"stop": "stopped", "pause": "paused"}.get(verb, "running"))
    wait_for(lambda: len(jobs.engine.runs) == 3, what="a run for the start, and one for the restart, none for the pause")

    assert client("PUT", A, jobs.text("a", "run: {trigger: 2s}\n")).json["accepted_version"] == 2
    assert client("POST", f"{A}/rollback").json["accepted_version"] == 3
    assert [one["number"] for one in client("GET", f"{A}/versions").json] == [1, 2, 3]
    assert "trigger: 2s" in client("GET", f"{A}/file?version=2").json["text"]
    assert [one["event"] for one in client("GET", f"{A}/logs?limit=2").json] == ["deployed", "deployed"]

    assert client("DELETE", A).status == 204
    assert client("GET", A).status == 404
    assert client("GET", "/api/pipelines").json == {"pipelines": [], "refused_files": {}}


def test_a_refused_file_changes_nothing(jobs: Jobs, client: Client) -> None:
    refused = client("PUT", A, jobs.text().replace("filter", "fitler"))

    assert refused.status == 422
    assert [problem["code"] for problem in refused.json["error"]["problems"]] == ["unknown-type"]
    assert client("GET", A).status == 404
    assert not (jobs.folder / "shop").exists()
    checked = client("POST", "/api/validate", jobs.text().replace("filter", "fitler"))
    assert (checked.status, [problem["line"] for problem in checked.json["problems"]]) == (200, [3])
    assert client("POST", "/api/validate", jobs.text()).json == {"problems": []}
    jobs.put("shop/b", "nothing")
    jobs.wait("shop/b", "refused")
    shown = client("GET", "/api/pipelines/shop/b/file")
    assert (shown.status, shown.json["error"]["message"]) == (422, "no version of shop/b was accepted yet")


def test_secrets_are_masked_everywhere(jobs: Jobs, client: Client) -> None:
    jobs.engine.env = {"KEY": 'pass"word-7'}
    text = (
        f'source: {{type: file, path: "{jobs.folder}/x.log"}}\nsink: {{type: http, urls: "http://localhost:1/",\n'
        '  token: "${KEY}", headers: {X-Key: "in-the-file"}}\n'
    )
    assert client("PUT", A, text).status == 200
    jobs.wait("shop/a", "running")
    run = jobs.run("shop/a")
    run.totals.tables["t"] = TableInUse("v1", 0, error="no answer for in-the-file")
    run.fail('401 for pass"word-7 and in-the-file')

    answers = "".join(client("GET", path).text for path in (A, f"{A}/logs", "/api/pipelines", f"{A}/file", "/metrics"))

    assert "401 for *** and ***" in answers
    assert 'error="no answer for ***"' in answers
    assert "word-7" not in answers
    assert "in-the-file" not in answers
    masked = client("GET", f"{A}/file").json["text"]
    assert client("PUT", A, masked).json["error"]["code"] == "masked-secret"


@pytest.mark.parametrize("secret", ["a+b/c d", "ключ-é", 'it\'s "q"', "back\\slash", "line\nbreak"])
def test_secrets_are_masked_as_json_python_and_urls_write_them(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etl.server.secret_values.secrets_of", lambda pipeline: [secret])
    secrets, pipeline = SecretValues(), object()
    secrets.add(pipeline)  # type: ignore[arg-type]

    forms = [
        secret,
        json.dumps(secret),
        repr(secret),
        f"{secret!r:>3}",
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
    ]
    forms += [quote(secret, safe="").replace("%2F", "%2f"), f"x={quote_plus(secret)}&y"]

    for form in forms:
        assert re.sub(r"^(x=|['\"])|(&y|['\"])$", "", secrets.mask(form)) == "***"
    assert secrets.mask("a b") == "a b"


def test_counters_of_a_new_run_begin_with_it(jobs: Jobs, client: Client) -> None:
    jobs.put("shop/a")
    jobs.wait("shop/a", "running")
    before = {one.name: one.since for one in server_samples(jobs.server)}
    client("POST", f"{A}/restart")
    wait_for(lambda: len(jobs.engine.runs) == 2)
    jobs.wait("shop/a", "running")

    after = {one.name: one.since for one in server_samples(jobs.server)}

    assert after["sluice_bytes_total"] > before["sluice_bytes_total"] > 0
    assert after["sluice_restarts_total"] == before["sluice_restarts_total"] > 0


def test_secrets_mask_texts_and_no_names_numbers_and_choices(jobs: Jobs, client: Client) -> None:
    text = 'source: {type: file, path: a.log}\nsink: {type: http, urls: "http://localhost:1/", token: SECRET}\n'
    for secret in ("running", "shop/a", "version", "1234", "main"):
        client("PUT", A, text.replace("SECRET", f'"{secret}"'))
    wait_for(lambda: client("GET", A).json["version"] == 5)
    jobs.wait("shop/a", "running")
    jobs.run("shop/a").work(1234)
    jobs.run("shop/a").error = "1234 was refused by main"

    shown = client("GET", A).json

    assert (shown["name"], shown["status"], shown["version"], shown["counters"]["read"]) == ("shop/a", "running", 5, 1234)
    assert [one["name"] for one in shown["sinks"]] == ["main"]
    assert shown["error"] == "*** was refused by ***"


def test_cursors_and_types_are_not_masked() -> None:
    page = DeadLetterPageDocument(letters=[], next="7-1234", is_last=False)
    node = NodeDocument(id="sink:a", kind="sink", name="a", type="kafka", steps=["grok"], line=1, events=0, dead=0, filtered=0)

    shown = masked([page, node], lambda text: "***")

    assert (shown[0]["next"], shown[1]["type"], shown[1]["steps"]) == ("7-1234", "kafka", ["grok"])


def test_errors_of_the_system_do_not_name_the_folders_of_the_server(
    jobs: Jobs, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = OSError(28, "No space left on device", str(jobs.folder / "shop" / "a.yaml"))
    monkeypatch.setattr(JobsFolder, "write", lambda *_: (_ for _ in ()).throw(failure))

    error = client("PUT", A, jobs.text()).json["error"]

    assert error == {"code": "refused", "message": "a.yaml on the server: No space left on device"}


def test_secrets_of_a_version_of_an_earlier_server_are_masked(jobs: Jobs, client: Client) -> None:
    target, name = jobs.folder / "shop" / "a.yaml", PipelineName("shop", "a")
    sink = 'sink: {type: http, urls: "http://localhost:1/", token: old-secret}'
    old = f'source: {{type: file, path: "{jobs.folder}/x.log"}}\n{sink}\n'
    jobs.server.versions.add(name, JobFile(target, old.encode()))
    jobs.server.versions.add(name, JobFile(target, b"source: {type: none}\n# other-secret\n"))
    assert client("PUT", A, jobs.text()).status == 200

    assert "token: ***" in client("GET", f"{A}/file?version=1").json["text"]
    refused = client("GET", f"{A}/file?version=2").text
    assert "its secrets are not known" in refused
    assert "other-secret" not in refused


def test_wrong_requests_are_explained(jobs: Jobs, client: Client) -> None:
    for path, status, code in (
        ("/api/pipelines/..%2f..%2fetc/passwd", 404, "not-found"),
        ("/api/pipelines/%2e%2e/passwd", 400, "bad-name"),
        ("/api/pipelines/shop/a.yaml", 400, "bad-name"),
        ("/api/pipelines/shop/none", 404, "unknown-pipeline"),
        ("/api/pipelines/shop/none/logs?limit=-1", 400, "bad-parameter"),
        ("/api/pipelines/shop/none/logs?limt=1", 400, "unknown-parameter"),
        ("/api/other", 404, "not-found"),
    ):
        answer = client("GET", path)
        assert (answer.status, answer.json["error"]["code"]) == (status, code), path
    assert client("POST", "/api/pipelines").status == 405


def test_events_tell_what_has_changed(jobs: Jobs, client: Client) -> None:
    import http.client

    connection = http.client.HTTPConnection(client.address.host, client.address.port, timeout=120)
    connection.request("GET", "/api/events")
    stream = connection.getresponse()
    client("PUT", A, jobs.text())

    seen, kind = [], b""
    while not seen or seen[-1]["status"] != "running":
        line = stream.readline()
        if line.startswith(b"data: ") and kind == b"event: pipeline\n":
            seen.append(json.loads(line[6:]))
        kind = line
    assert {one["name"] for one in seen} == {"shop/a"}

    jobs.put("outside")
    while not (line := stream.readline()).startswith(b'data: {"outside.yaml": "it is in no namespace'):
        assert line

    client("DELETE", A)
    while not (line := stream.readline()).startswith(b"event: removed"):
        assert line
    assert json.loads(stream.readline()[6:]) == {"name": "shop/a"}
    connection.close()


def stream_of(client: Client, head: str, until_end: bool = False) -> bytes:
    """What the server sends for a request for its events, until the status of the pipeline or the end."""
    last = b"\r\n0\r\n\r\n" if until_end else b'"running"'
    with closing(socket.create_connection(client.address, timeout=60)) as connection:
        connection.sendall(f"{head}\r\nHost: localhost\r\n\r\n".encode())
        found = b""
        while last not in found and (data := connection.recv(1 << 16)):
            found += data
        return found


def test_events_are_framed_as_the_version_of_http_asks(jobs: Jobs, client: Client) -> None:
    client("PUT", A, jobs.text())
    jobs.wait("shop/a", "running")

    for version in ("1.0", "1.1", "1.2"):
        head, _, body = stream_of(client, f"GET /api/events HTTP/{version}").partition(b"\r\n\r\n")
        assert b"content-type: text/event-stream" in head
        framing, _, events = body.partition(b"retry: 2000\n\n")
        assert bool(framing) == (version != "1.0")
        if framing:  # its first chunk is whole
            assert events.decode()[int(framing, 16) - len("retry: 2000\n\n") :].startswith("\r\n")
        assert (b"transfer-encoding: chunked" in head.lower()) == (version != "1.0")
    assert client("HEAD", "/api/events").status == 200


def test_a_viewer_who_reads_no_events_is_disconnected(jobs: Jobs, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etl.server.events.MAX_UNREAD_BYTES", -1)
    client("PUT", A, jobs.text())

    assert b"event" not in stream_of(client, "GET /api/events HTTP/1.1").replace(b"text/event-stream", b"")


def test_events_end_when_the_pipelines_cannot_be_read(
    jobs: Jobs, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("a mistake in the code")

    client("PUT", A, jobs.text())
    monkeypatch.setattr("etl.server.app.status_of", fail)

    assert stream_of(client, "GET /api/events HTTP/1.1", until_end=True).endswith(b"retry: 2000\n\n\r\n0\r\n\r\n")
    assert "a mistake in the code" in caplog.text


@pytest.mark.slow
def test_a_body_of_a_viewer_that_does_not_come_ends_its_stream_and_is_not_logged(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("etl.server.access.BODY_SECONDS", 0.1)

    assert b"0\r\n\r\n" in stream_of(client, "GET /api/events HTTP/1.1\r\nContent-Length: 5", until_end=True)
    gc.collect()
    assert caplog.text == ""


def test_monitoring_sees_all_pipelines(jobs: Jobs, client: Client) -> None:
    client("PUT", A, jobs.text())
    jobs.wait("shop/a", "running")
    assert [client("GET", path).status for path in ("/health", "/ready")] == [200, 200]

    jobs.run("shop/a").work(5)
    assert 'sluice_source_events_total{pipeline="shop/a",source="main"} 5' in client("GET", "/metrics").text

    jobs.run("shop/a").fail("the disk is full")
    answer = client("GET", "/health")
    assert (answer.status, answer.json) == (503, {"pipelines": 1, "not_running": 1})


def test_samples_come_to_whoever_looks(jobs: Jobs, client: Client) -> None:
    client("PUT", A, jobs.text())
    jobs.wait("shop/a", "running")
    state = jobs.engine.state("shop/a")
    path = f"{A}/samples?stream=steps&where=message%20like%20%27e1%25%27"
    assert client("GET", path).json == {"fields": {}, "events": []}

    taps = Taps.open(state.taps)
    assert taps is not None
    taps.take("steps[0] filter", pa.record_batch({"message": [f"e{number}" for number in range(100)], "_offset": range(100)}))
    taps.take("sink main", pa.record_batch({"message": ["other"]}))
    taps.write()

    found = client("GET", f"{path}&limit=5").json
    assert found["fields"] == {"message": "string"}
    assert [one["event"]["message"] for one in found["events"]] == ["e15", "e16", "e17", "e18", "e19"]
    assert client("GET", f"{path}&after={found['events'][-1]['id']}").json["events"] == []
    jobs.server.samples.tidy(everything=True)
    assert not state.taps.exists()
    client("POST", f"{A}/stop")
    jobs.wait("shop/a", "stopped")
    assert "is stopped: no events pass" in client("GET", path).json["error"]["message"]
    client("POST", f"{A}/start")
    jobs.wait("shop/a", "running")
    for query, error in (
        ("stream=stps", "did you mean 'steps'?"),
        ("", "'' is not a source, stream or sink; there are main, steps"),
        ("stream=main&where=mesage=1", "did you mean 'message'?"),
    ):
        assert error in client("GET", f"{A}/samples?{query}").json["error"]["message"]
    assert not state.taps.exists()
