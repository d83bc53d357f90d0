"""The `http` source with its receiver, over real sockets on loopback."""

from __future__ import annotations

import base64
import errno
import gzip
import json
import os
import socket
import threading
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from receiving import create_source, messages, send
from running import wait_for
from source_events import read_all, receiving

from connectors.http.receiving import app
from connectors.http.source import HttpSource
from connectors.shared.journal.reader import Journal
from etl.api import ComponentError


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


def raw(port: int, data: bytes, close: bool = True) -> bytes:
    """Send bytes, and return all that comes until the end of the connection."""
    with socket.create_connection(("127.0.0.1", port), 30) as sock:
        sock.sendall(data)
        if close:
            sock.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: sock.recv(65536), b""))


def is_refused(port: int) -> bool:
    """Whether a connection is closed without an answer."""
    try:
        return raw(port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", close=False) == b""
    except ConnectionError:
        return True


# ── Bodies without a protocol ──


def test_json_lines_in_order_with_their_sender_and_time(tmp_path: Path) -> None:
    source = create_source(tmp_path)
    with receiving(source) as receiver:
        first = send(receiver, "/", b'{"n":1}\r\n\n{"n":2}\n{"n":3}')
        second = send(receiver, "/", b'{"n":4}\n', "PUT")
        empty = send(receiver, "/", b"\n\n")

    assert [first.json, second.json, empty.json] == [{"events": 3}, {"events": 1}, {"events": 0}]
    found = read_all(source)
    assert [row["message"] for row in found] == ['{"n":1}', '{"n":2}', '{"n":3}', '{"n":4}']
    assert {row["log.source.address"] for row in found} == {"127.0.0.1"}
    assert all(row["log.source.port"] and row["event.created"].year >= 2024 for row in found)
    assert [row["_offset"] for row in found] == sorted({row["_offset"] for row in found})


@pytest.mark.parametrize(
    "body",
    [
        b'[{"a":"}]"},{"b":[1,{}]}]',
        b'{"a":"}]"}{"b":[1,{}]}',
        b' \n[ {"a":"}]"} , {"b":[1,{}]} ]\n',
        b'{"a":"}]"}\n{"b":[1,{}]}\n',
    ],
)
def test_objects_of_an_array_or_one_after_the_other(tmp_path: Path, body: bytes) -> None:
    source = create_source(tmp_path, format="json")
    with receiving(source) as receiver:
        assert send(receiver, "/", body).json == {"events": 2}

    assert messages(source) == ['{"a":"}]"}', '{"b":[1,{}]}']


@pytest.mark.parametrize("body", [b'[{"a":1}', b'[{"a":1', b"[1,2]", b'{"a":"', b"x", b'{"a":1} {"b', b'{"a":1}]x', b"\xff\x00"])
def test_a_damaged_body_is_refused_and_nothing_of_it_stored(tmp_path: Path, body: bytes) -> None:
    source = create_source(tmp_path, format="json")
    with receiving(source) as receiver:
        answer = send(receiver, "/", body)

    assert answer.status in (400, 200 if body == b'[{"a":1}' else 400)
    assert len(messages(source)) == (body == b'[{"a":1}')


def test_text_of_any_bytes(tmp_path: Path) -> None:
    source = create_source(tmp_path, format="text", path="/logs")
    with receiving(source) as receiver:
        assert send(receiver, "/logs", b"one\nt\xff\xfew\0o\n" + "drei €\n".encode()).status == 200
        assert send(receiver, "/", b"x").status == 404
        assert send(receiver, "/logs", b"x", "DELETE").status == 405
        assert send(receiver, "/logs", None, "GET").json == {"status": "ok"}

    assert messages(source) == ["one", "t��w\0o", "drei €"]


def test_a_long_event_is_a_dead_letter_with_its_beginning(tmp_path: Path) -> None:
    source = create_source(tmp_path, max_event_bytes=10)
    with receiving(source) as receiver:
        assert send(receiver, "/", b"short\n" + b"x" * 70_000 + b"\nlast\n").json == {"events": 3}

    found = read_all(source)
    assert [(len(row["message"]), row.get("code")) for row in found] == [(5, None), (4, None), (65536, "message-too-long")]


@pytest.mark.parametrize(
    ("encoding", "encode"),
    [
        ("gzip", gzip.compress),
        ("gzip", lambda data: gzip.compress(data[:10]) + gzip.compress(data[10:])),
        ("deflate", zlib.compress),
        ("deflate", lambda data: zlib.compress(data)[2:-4]),
        ("zstd", zstd),
        ("snappy", lambda data: pa.compress(data, "snappy", asbytes=True)),
        ("identity", bytes),
    ],
)
def test_compressed_bodies(tmp_path: Path, encoding: str, encode: Any) -> None:
    source = create_source(tmp_path, max_body_bytes=50_000)
    lines = [f"line {number}" for number in range(4000)]
    with receiving(source) as receiver:
        assert send(receiver, "/", encode("\n".join(lines).encode()), Content_Encoding=encoding).json == {"events": 4000}
        bomb = send(receiver, "/", encode(b"x" * 60_000), Content_Encoding=encoding)
        damaged = send(receiver, "/", b"\x05damaged", Content_Encoding=encoding) if encoding != "identity" else None

    assert bomb.status == 413
    assert damaged is None or damaged.status == 400
    assert messages(source) == lines


@pytest.mark.slow
def test_bombs_and_lies_cost_no_memory(tmp_path: Path) -> None:
    source = create_source(tmp_path)
    with receiving(source) as receiver:
        bomb = gzip.compress(bytes(200 << 20), 1)
        statuses = [
            send(receiver, "/", bomb, Content_Encoding="gzip").status,
            send(receiver, "/", gzip.compress(bomb), Content_Encoding="gzip, gzip").status,
            send(receiver, "/", zstd(bytes(200 << 20)), Content_Encoding="zstd").status,
            send(receiver, "/", b"\xff\xff\xff\xff\x0f" + b"x" * 100, Content_Encoding="snappy").status,
            send(receiver, "/", gzip.compress(b"cut")[:-6], Content_Encoding="gzip").status,
            send(receiver, "/", b"x", Content_Encoding="br").status,
            send(receiver, "/", gzip.compress(b"") * 70_000, Content_Encoding="gzip").status,
        ]

    assert statuses == [413, 413, 413, 413, 400, 415, 400]
    assert messages(source) == []


# ── Connections ──


def test_half_requests_and_lies_about_the_length(tmp_path: Path) -> None:
    source = create_source(tmp_path)
    with receiving(source) as receiver:
        (port,) = receiver.ports
        assert raw(port, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf") == b""
        assert b" 413 " in raw(port, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\nlie", close=False)
        assert raw(port, b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhalf") == b""
        assert b" 400 " in raw(port, b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nlie")
        assert b" 400 " in raw(port, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\nlie")
        assert b" 400 " in raw(port, b"\x16\x03\x01\x02\x00not http\r\n\r\n")
        assert b" 400 " in raw(port, b"GET / HTTP/1.1\r\n" + b"x: " + b"y" * 100_000, close=False)
        chunked = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert b"100 Continue" in raw(port, chunked + b"3\r\nwho\r\n3\r\nle\n\r\n0\r\n\r\n", close=False)

    assert messages(source) == ["whole"]


def test_a_slow_body_is_given_up(tmp_path: Path) -> None:
    source = create_source(tmp_path, timeout="100ms")
    with receiving(source) as receiver:
        assert b" 408 " in raw(receiver.ports[0], b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nslow", close=False)

    assert messages(source) == []


def test_a_slow_head_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.http.receiving.server.AdmittedProtocol.head_seconds", 0.1)
    with receiving(create_source(tmp_path)) as receiver:
        assert raw(receiver.ports[0], b"POST / HT", close=False) == b""


def answer(sock: socket.socket) -> bytes:
    found = b""
    while b"}" not in found:
        found += sock.recv(1000)
    return found


def ended(sock: socket.socket) -> bool:
    try:
        return sock.recv(1000) == b""
    except ConnectionResetError:
        return True


def test_limits_of_connections_and_networks(tmp_path: Path) -> None:
    with receiving(create_source(tmp_path, connections=2)) as receiver:
        (port,) = receiver.ports
        open_ones = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
        for sock in open_ones:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert answer(sock).endswith(b'{"status":"ok"}')
        assert send(receiver, "/", None, "GET").status == 200  # in the place of the one that has waited longest
        assert ended(open_ones[0])
        assert receiver.counters.sums["too-many"] == 1
        busy = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
        for sock in busy:
            sock.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n")
            assert sock.recv(100).startswith(b"HTTP/1.1 100")  # its request is in progress
        assert is_refused(port)
        for sock in [*open_ones, *busy]:
            sock.close()
    with receiving(create_source(tmp_path, allow=["192.0.2.0/24"])) as receiver:
        assert is_refused(receiver.ports[0])
    with receiving(create_source(tmp_path, listen=["http://[::]:0"], allow=["127.0.0.0/8"])) as receiver:
        assert send(receiver, "/", None, "GET").status == 200


def test_decompressed_bodies_and_replies_count_as_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.http.receiving.app.MAX_BUFFERED_BYTES", 10_000)
    source = create_source(tmp_path)
    body = gzip.compress(b"x" * 20_000)
    with receiving(source) as receiver, socket.create_connection(("127.0.0.1", receiver.ports[0])) as slow:
        assert send(receiver, "/", body, Content_Encoding="gzip").status == 200  # alone
        slow.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nslow")
        wait_for(lambda: send(receiver, "/", body, Content_Encoding="gzip").status == 503)
        assert receiver.counters.sums["unavailable"]
        slow.sendall(b" body")
        assert slow.recv(100).startswith(b"HTTP/1.1 200")
        assert send(receiver, "/", body, Content_Encoding="gzip").status == 200


def test_an_address_in_use_is_named(tmp_path: Path) -> None:
    with receiving(create_source(tmp_path)) as receiver:
        source = create_source(tmp_path / "other", listen=[f"http://127.0.0.1:{receiver.ports[0]}"])
        with pytest.raises(
            ComponentError, match=f"cannot listen at http://127.0.0.1:{receiver.ports[0]}: Address already in use"
        ):
            source.receiver().start()


# ── Who may send ──


def test_tokens_in_every_form_that_agents_use(tmp_path: Path) -> None:
    source = create_source(tmp_path, tokens=["s3cret", "öther"])

    def encoded(text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    with receiving(source) as receiver:
        good = [
            "Bearer s3cret",
            "Splunk s3cret",
            "ApiKey s3cret",
            f"ApiKey {encoded('id:s3cret')}",
            f"Basic {encoded('any:s3cret')}",
        ]
        assert {send(receiver, "/", b"x", Authorization=text).status for text in good} == {200}
        assert send(receiver, "/", b"x", X_Api_Key="s3cret").status == 200
        assert send(receiver, "/", b"x", Authorization=f"Basic {encoded('any:öther')}").status == 200
        bad = ["Bearer other", f"Basic {encoded('s3cret:')}", "Basic s3cret", "Basic \xff"]
        answers = [send(receiver, "/", b"x", Authorization=text) for text in bad]
        assert {answer.status for answer in answers} <= {401, 403}
        assert send(receiver, "/", b"x").status == send(receiver, "/", b"x", Authorization="Bearer ").status == 401
    assert len(messages(source)) == 7
    assert "s3cret" not in repr(source)


# ── The disk ──


def test_a_full_journal_tells_senders_to_wait(tmp_path: Path) -> None:
    source = create_source(tmp_path, journal={"max_bytes": "1MiB"})
    with receiving(source) as receiver:
        assert send(receiver, "/", b"x" * 500_000 + b"\n" + b"y" * 600_000).status == 200
        refused = send(receiver, "/", b"more")
        assert (refused.status, refused.headers["retry-after"]) == (429, str(app.RETRY_SECONDS))
        Journal(source._folder).delete_before(1 << 62)
        answer = refused
        while answer.status == 429:
            answer = send(receiver, "/", b"more")
        assert answer.status == 200

    assert messages(source) == ["more"]


@pytest.mark.parametrize("failing", ["writev", "fdatasync"])
def test_nothing_is_acknowledged_while_the_disk_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    source, real = create_source(tmp_path), getattr(os, failing)

    def fail(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with receiving(source) as receiver:
        assert send(receiver, "/", b"first").status == 200
        monkeypatch.setattr(os, failing, fail)
        refused = [send(receiver, "/", b"lost") for _ in range(3)]
        monkeypatch.setattr(os, failing, real)
        assert {(answer.status, answer.headers["retry-after"]) for answer in refused} == {(503, "5")}
        assert b"No space left on device" in refused[0].body
        answer = refused[0]
        while answer.status == 503:
            answer = send(receiver, "/", b"second")

    assert [text for text in messages(source) if text != "lost"] == ["first", "second"]


def test_a_request_is_answered_after_its_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    going, answers = threading.Event(), []
    source = create_source(tmp_path)
    with receiving(source) as receiver:
        monkeypatch.setattr(os, "fdatasync", lambda file: going.wait(120))
        senders = [threading.Thread(target=lambda: answers.append(send(receiver, "/", b"x"))) for _ in range(20)]
        for sender in senders:
            sender.start()
        senders[0].join(0.2)
        assert answers == []
        going.set()
        for sender in senders:
            sender.join()
    assert {answer.status for answer in answers} == {200}
    assert len(messages(source)) == 20


def test_a_stop_waits_for_the_requests_that_have_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs, going, answers = threading.Event(), threading.Event(), []
    source = create_source(tmp_path)
    with receiving(source) as receiver:
        monkeypatch.setattr(os, "fdatasync", lambda file: (syncs.set(), going.wait(120)))
        sender = threading.Thread(target=lambda: answers.append(send(receiver, "/", b"x")))
        sender.start()
        assert syncs.wait(120)
        stop = threading.Thread(target=receiver.stop)
        stop.start()
        try:
            wait_for(lambda: is_refused(receiver.ports[0]))
            assert stop.is_alive()
        finally:
            going.set()
        stop.join()
        sender.join()

    assert [answer.status for answer in answers] == [200]
    assert messages(source) == ["x"]


def test_events_of_a_run_are_read_by_the_next(tmp_path: Path) -> None:
    source = create_source(tmp_path)
    for number in range(3):
        with receiving(source) as receiver:
            assert send(receiver, "/", b"run %d" % number).status == 200

    assert messages(source) == ["run 0", "run 1", "run 2"]


@pytest.mark.parametrize(
    ("before", "path", "body"),
    [
        ("splunk_hec", "/services/collector", b'{"event":"a"}'),
        ("elasticsearch", "/_bulk", b'{"create":{}}\n{"a":1}\n'),
        ("text", "/", b"a\n" + b"x" * 100),
    ],
)
def test_events_of_another_format_are_dead_letters(tmp_path: Path, before: str, path: str, body: bytes) -> None:
    source = create_source(tmp_path, format=before, max_event_bytes=50)
    with receiving(source) as receiver:
        assert send(receiver, path, body).status == 200
    new = create_source(tmp_path, format="loki")
    with receiving(new) as receiver:
        push = json.dumps({"streams": [{"stream": {"job": "j"}, "values": [["1", "good"]]}]}).encode()
        assert send(receiver, "/loki/api/v1/push", push, Content_Type="application/json").status == 204

    found = sorted((row.get("code", ""), row["message"], row.get("loki.labels")) for row in read_all(new))
    assert found[0] == ("", "good", '{"job": "j"}')
    assert {code for code, _, _ in found[1:]} <= {"other-format", "message-too-long"}
    assert found[-1][:2] == ("other-format", body.decode().strip().partition("\nx")[0])
    for name in ("elasticsearch", "opentelemetry", "splunk_hec", "json"):
        if name != before:
            codes = [row.get("code") for row in read_all(create_source(tmp_path, format=name))]
            assert "other-format" in codes


def test_what_lint_says() -> None:
    source = HttpSource.model_validate(
        {
            "type": "http",
            "listen": ["https://[::]:70000", "http://0.0.0.0:1", "http://0.0.0.0:1"],
            "allow": ["10.0.0.0/99"],
            "tokens": [" "],
        }
    )

    codes = [(finding.code, finding.path) for finding in source.check()]

    assert codes == [
        ("bad-port", ("listen", 0)),
        ("no-certificate", ("listen", 0)),
        ("duplicate-place", ("listen", 2)),
        ("bad-network", ("allow", 0)),
        ("bad-header", ("tokens", 0)),
    ]
    assert json.loads(source.model_dump_json())["tokens"] == ["**********"]
