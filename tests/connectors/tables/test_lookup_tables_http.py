"""A table from a web server: reading, conditional requests, and responses that are not tables."""

from __future__ import annotations

import time
from typing import Any

import pytest
from fake_http import FakeServer, Reply, Request

from connectors.lookup_tables.http import HttpTable
from etl.api import ComponentError

CSV = b"ip,category,score\n192.0.2.7,scan,90\n198.51.100.1,,x\n"


def table(server: FakeServer, **options: Any) -> HttpTable:
    return HttpTable.model_validate({"url": f"{server.url}/list", "key": "ip", "columns": {"score": "int"}, **options})


def rows(of: HttpTable, *columns: str) -> list[dict[str, Any]]:
    return [row for batch in of.read(columns) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("body", "options"),
    [
        (CSV, {}),
        (CSV.replace(b",", b";"), {"delimiter": ";"}),
        (CSV.partition(b"\n")[2], {"header": ["ip", "category", "score"]}),
        (b'{"ip":"192.0.2.7","score":90}\n{"score":"x","ip":"198.51.100.1"}\n', {"format": "json"}),
    ],
)
def test_rows_are_read(body: bytes, options: dict[str, Any]) -> None:
    with FakeServer(lambda request: Reply(body=body)).running() as server:
        assert rows(table(server, **options), "ip", "score") == [
            {"ip": "192.0.2.7", "score": 90},
            {"ip": "198.51.100.1", "score": None},
        ]


def test_a_text_is_one_row() -> None:
    with FakeServer(lambda request: Reply(body="\ufeffname: ä\n".encode())).running() as server:
        of = HttpTable.model_validate({"url": server.url, "format": "text", "key": "text"})
        assert rows(of, "text") == [{"text": "name: ä\n"}]
        assert of.names() == ["text"]
        with pytest.raises(ComponentError, match="no 'rule'"):
            rows(of, "rule")


@pytest.mark.parametrize(("body", "reason"), [(b"\xff\xfe", "not UTF-8"), (b"x" * 100, "more than max_bytes")])
def test_a_text_that_is_not_a_table_is_an_error(body: bytes, reason: str) -> None:
    with FakeServer(lambda request: Reply(body=body)).running() as server:
        of = HttpTable.model_validate({"url": server.url, "format": "text", "key": "text", "max_bytes": 50})
        with pytest.raises(ComponentError, match=reason):
            rows(of, "text")


def test_credentials_are_sent_and_not_shown() -> None:
    with FakeServer(lambda request: Reply(body=CSV)).running() as server:
        of = table(server, token="hush", headers={"X-Key": "quiet"})
        rows(of, "ip")

        assert server.requests[0].headers["authorization"] == "Bearer hush"
        assert server.requests[0].headers["x-key"] == "quiet"
        assert "hush" not in repr(of)
        assert "quiet" not in of.model_dump_json()


@pytest.mark.parametrize(
    ("headers", "asked"),
    [
        ({"ETag": '"7"', "Last-Modified": "Sun, 22 Nov 2026 06:00:00 GMT"}, {"if-none-match": '"7"'}),
        ({"ETag": 'W/"7"'}, {"if-none-match": 'W/"7"'}),
        ({"Last-Modified": "Sun, 22 Nov 2026 06:00:00 GMT"}, {"if-modified-since": "Sun, 22 Nov 2026 06:00:00 GMT"}),
        ({}, {}),
    ],
)
@pytest.mark.parametrize("heeds", [True, False])
def test_requests_are_conditional_on_changes(headers: dict[str, str], asked: dict[str, str], heeds: bool) -> None:
    def answer(request: Request) -> Reply:
        conditions = {name: value for name, value in request.headers.items() if name.startswith("if-")}
        seen.append(conditions)
        return Reply(304, headers=headers) if heeds and conditions else Reply(body=CSV, headers=headers)

    seen: list[dict[str, str]] = []
    with FakeServer(answer).running() as server:
        of = table(server)
        first = of.newer(["ip"], None)
        assert first is not None
        assert [batch.to_pydict() for batch in first.read()] == [{"ip": ["192.0.2.7", "198.51.100.1"]}]
        assert of.newer(["ip"], first.version) is None
        assert [request.method for request in server.requests] == ["GET", "GET"]
    assert seen == [{}, asked]


@pytest.mark.parametrize("name", ["ETag", "Last-Modified", None])
def test_changed_rows_are_another_version(name: str | None) -> None:
    replies = iter(
        [Reply(body=CSV, headers={name: "1"} if name else {}), Reply(body=CSV * 2, headers={name: "2"} if name else {})]
    )
    with FakeServer(lambda request: next(replies)).running() as server:
        first = table(server).newer(["ip"], None)
        assert first is not None
        second = table(server).newer(["ip"], first.version)

    assert second is not None
    assert second.version != first.version
    assert sum(batch.num_rows for batch in second.read()) == 5


def test_a_304_without_a_condition_is_an_error() -> None:
    with FakeServer(lambda request: Reply(304)).running() as server, pytest.raises(ComponentError, match="answers 304"):
        table(server).newer(["ip"], None)


@pytest.mark.parametrize(
    ("reply", "error", "reason"),
    [
        (Reply(404, b"gone"), ComponentError, "answers 404: gone"),
        (Reply(302, headers={"Location": "http://other/"}), ComponentError, "answers 302: it redirects to 'http://other/'"),
        (Reply(503, b"later"), ConnectionError, "answers 503: later"),
        (Reply(200, b"no,such\n1,2\n"), ComponentError, "/list has no column 'ip'; it has no, such"),
        (Reply(200, CSV * 100), ComponentError, "more than max_bytes, 1,000"),
    ],
)
def test_a_response_that_is_not_a_table_is_an_error(reply: Reply, error: type[Exception], reason: str) -> None:
    with FakeServer(lambda request: reply).running() as server, pytest.raises(error, match=reason):
        rows(table(server, max_bytes=1000), "ip")


def test_a_large_response_is_refused_by_its_declared_length() -> None:
    large = Reply(200, CSV * 100, cut=10)  # the connection ends after ten bytes: whoever waits for more gets another error

    with FakeServer(lambda request: large).running() as server, pytest.raises(ComponentError, match="5,200 bytes, more than max"):
        rows(table(server, max_bytes=1000), "ip")


def test_the_reason_of_an_error_is_read_whatever_the_limit() -> None:
    refusing = FakeServer(lambda request: Reply(403, b"no right to read this list"))

    with refusing.running() as server, pytest.raises(ComponentError, match="answers 403: no right to read this list"):
        rows(table(server, max_bytes=5), "ip")


def test_probing_finds_a_table_that_is_too_large() -> None:
    with FakeServer(lambda request: Reply(200, CSV)).running() as server:
        found = list(table(server, max_bytes=10).probe())

    assert [finding.code for finding in found] == ["not-ready"]
    assert f"{len(CSV)} bytes, more than max_bytes, 10" in found[0].message


@pytest.mark.parametrize(("status", "codes"), [(200, []), (405, []), (401, ["not-ready"])])
def test_a_probe_requests_headers_only(status: int, codes: list[str]) -> None:
    with FakeServer(lambda request: Reply(status)).running() as server:
        assert [finding.code for finding in table(server).probe()] == codes


def test_a_missing_server_is_a_finding() -> None:
    of = HttpTable.model_validate({"url": "http://127.0.0.1:9/list", "key": "ip", "timeout": "1s"})

    assert [finding.code for finding in of.probe()] == ["unreachable"]


def test_mistakes_are_found() -> None:
    given = {"url": "http://a@localhost/list", "key": "ip", "password": "x", "headers": {"X": "a\nb"}}

    assert [finding.code for finding in HttpTable.model_validate(given).check()] == [
        "url-with-password",
        "missing-user",
        "bad-header",
    ]


def test_the_timeout_ends_a_response_that_is_sent_byte_by_byte() -> None:
    dripping = Reply(200, CSV * 100, drip=0.02)
    with FakeServer(lambda request: dripping).running() as server:
        began = time.monotonic()
        with pytest.raises(ConnectionError, match=r"no complete response within 0\.3 s"):
            rows(table(server, timeout="300ms"), "ip")

        assert time.monotonic() - began < 10  # all of it takes half a minute


def test_a_probe_reports_the_target_of_a_redirect() -> None:
    with FakeServer(lambda request: Reply(301, headers={"Location": "/list/"})).running() as server:
        (finding,) = table(server).probe()

        assert (finding.severity, finding.path) == ("error", ("url",))
        assert (
            finding.message == f"{server.url} answers 301: it redirects to '{server.url}/list/', and redirects are not followed"
        )
        assert finding.hint == "use that URL if you trust it"


def test_a_slash_at_the_end_of_the_url_is_requested() -> None:
    with FakeServer(lambda request: Reply(200, CSV)).running() as server:
        rows(HttpTable.model_validate({"url": f"{server.url}/feed/?a=1", "key": "ip"}), "ip")

        assert [request.path for request in server.requests] == ["/feed/?a=1"]
