"""Who may do what, and what a hostile client can do: nothing that others would notice."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest
from jobs_and_client import LOOPBACK, Client, Jobs
from running import Etl, wait_for
from servers.certificates import Certificates
from servers.command import run
from slow_clients import SlowClients

from etl import tls_listener
from etl.api import EtlError
from etl.cli.server.connection import Connection
from etl.server.access import MAX_BODY_BYTES, Access
from etl.server.app import create_app
from etl.server.listening import ServerProtocol, Tls, listening
from etl.server.tokens import Tokens, hash_token, new_token, token_line

A = "/api/pipelines/shop/a"
READ, WRITE = "read-token", "write-token"


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text("# of the test\n" + token_line("read", READ, "viewer") + token_line("write", WRITE, "the admin"))
    return path


@pytest.fixture
def guarded(jobs: Jobs, tokens: Path) -> Iterator[Client]:
    """The API with tokens."""
    with listening(create_app(jobs.server, Access(Tokens(tokens))), LOOPBACK) as address:
        yield Client(address)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_tokens_have_roles(jobs: Jobs, guarded: Client, tokens: Path) -> None:
    wrong = [(bearer("wrong"), "wrong-token"), (bearer(hash_token(WRITE)), "wrong-token")]
    wrong += [({"Cookie": "sluice_token=wrong"}, "wrong-token"), ({"Authorization": WRITE}, "no-token"), ({}, "no-token")]
    for headers, code in wrong:
        answer = guarded("GET", "/api/pipelines", **headers)
        assert (answer.status, answer.json["error"]["code"], answer.headers["www-authenticate"]) == (401, code, "Bearer")
    assert guarded("GET", "/api/pipelines", **bearer(READ)).status == 200
    assert guarded("PUT", A, jobs.text(), **bearer(READ)).json["error"]["code"] == "read-only"
    assert guarded("PUT", A, jobs.text(), **bearer(WRITE)).status == 200
    assert [guarded("GET", path).status for path in ("/health", "/metrics", "/api/openapi.json", "/api/events")] == [
        200,
        401,
        401,
        401,
    ]

    tokens.write_text(token_line("read", READ, "viewer"))
    assert guarded("POST", f"{A}/stop", **bearer(WRITE)).status == 401
    tokens.write_text("read half")
    assert guarded("GET", "/api/pipelines", **bearer(READ)).status == 401


def test_a_browser_logs_in_with_a_token(guarded: Client) -> None:
    page = guarded("GET", "/other", Accept="text/html")
    assert (page.status, page.headers["location"]) == (303, "/login")
    assert guarded("POST", "/api/session", "token=wrong").status == 401
    assert guarded("POST", "/api/session", "token=" + "x" * 5000).status == 413

    answer = guarded("POST", "/api/session", f"token={READ}", **{"Content-Type": "application/x-www-form-urlencoded"})

    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert guarded("GET", "/api/pipelines", Cookie=cookie.partition(";")[0]).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_pages_of_other_sites_change_nothing(jobs: Jobs, client: Client, headers: dict[str, str]) -> None:
    answer = client("PUT", A, jobs.text(), **headers)

    assert (answer.status, answer.json["error"]["code"]) == (403, "other-origin")
    own = f"http://127.0.0.1:{client.address.port}"
    assert client("PUT", A, jobs.text(), Origin=own, Sec_Fetch_Site="same-origin").status == 200


def test_without_tokens_only_names_of_this_host_are_answered(client: Client) -> None:
    assert client("GET", "/api/pipelines", Host="rebound.example").json["error"]["code"] == "wrong-host"
    assert client("GET", "/api/pipelines", Host="localhost:1").status == 200


def test_answers_forbid_frames_and_guessing(client: Client) -> None:
    headers = client("GET", "/api/pipelines").headers

    assert (headers["x-frame-options"], headers["x-content-type-options"], headers["cache-control"]) == (
        "DENY",
        "nosniff",
        "no-store",
    )
    assert "server" not in headers


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x, x]\n"
        + "\n".join(f"a{n}: &a{n} [*a{'' if n == 1 else n - 1}, *a{'' if n == 1 else n - 1}]" for n in range(1, 40)),
        "[" * 100_000,
        "a: " * 10_000 + "b",
        "sources: " + "{a: " * 5_000,
        "\x00\xff",
        "%YAML 9.9\n---\n- !!python/object/apply:os.system [id]",
    ],
    ids=["aliases", "brackets", "nesting", "maps", "control", "objects"],
)
def test_hostile_files_are_refused_soon(client: Client, text: str) -> None:
    began = time.monotonic()
    answer = client("PUT", A, text.encode("latin-1"))

    assert (answer.status, answer.json["error"]["code"]) == (422, "refused")
    assert time.monotonic() - began < 60
    assert client("GET", A).status == 404


def test_bodies_have_a_limit(client: Client) -> None:
    assert client("PUT", A, "#" * ((1 << 20) + 1)).json["error"]["message"].startswith("the file is larger than 1 MiB")
    for size, status in ((MAX_BODY_BYTES + 1, b" 413 "), (10**19 - 1, b" 413 "), (10**30, b" 400 "), (-1, b" 400 ")):
        head = f"PUT {A} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n"
        assert status in sent(client, head.encode())
    chunk = b"100000\r\n" + b"#" * (1 << 20) + b"\r\n"
    chunked = f"PUT {A} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    assert b" 413 " in sent(client, chunked + 5 * chunk)


def sent(client: Client, data: bytes) -> bytes:
    """The first line that answers these bytes."""
    with closing(socket.create_connection(client.address, timeout=120)) as connection:
        with suppress(OSError):  # it has answered and closed
            connection.sendall(data)
        return connection.recv(1000).partition(b"\r\n")[0]


def test_slow_and_idle_clients_are_closed(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("head_seconds", "idle_seconds"):
        monkeypatch.setattr(ServerProtocol, limit, 0.3)
    monkeypatch.setattr("etl.server.access.BODY_SECONDS", 0.3)
    with ExitStack() as stack:
        idle, half, slow = (stack.enter_context(closing(socket.create_connection(client.address, timeout=120))) for _ in range(3))
        half.sendall(b"GET /health HTTP/1.1\r\nHost: loc")
        slow.sendall(f"PUT {A} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf".encode())

        assert [ended(connection) for connection in (idle, half)] == [b"", b""]
        assert slow.recv(1000).startswith(b"HTTP/1.1 408 ")
    assert client("GET", "/health").status == 200


@pytest.mark.slow
def test_a_client_that_does_not_read_its_answers_is_closed(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ServerProtocol, "write_seconds", 0.3)
    request = b"GET /api/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with closing(socket.create_connection(client.address, timeout=120)) as deaf:
        wait_for(lambda: len(ServerProtocol.open_connections) == 1)
        with suppress(OSError):  # closed meanwhile
            deaf.sendall(request * 2000)
        wait_for(lambda: not ServerProtocol.open_connections, what="the end of the connection")
    assert client("GET", "/health").status == 200


def ended(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1)
    except ConnectionResetError:
        return b""


def test_clients_who_send_nothing_keep_nobody_out(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ServerProtocol, "max_connections", 20)
    with ExitStack() as stack:
        silent = [stack.enter_context(closing(socket.create_connection(client.address, timeout=120))) for _ in range(20)]
        silent[1].sendall(b"GET /health HTTP/1.1\r\nHost: loc")
        wait_for(lambda: len(ServerProtocol.open_connections) == 20)

        assert [client("GET", path).status for path in ("/health", "/ready", "/api/pipelines")] == [200] * 3
        assert ended(silent[0]) == b""  # those that have waited longest made room
        assert len(ServerProtocol.open_connections) <= 20
    wait_for(lambda: not ServerProtocol.open_connections, what="the end of all connections")
    assert not ServerProtocol.waiting_connections


def test_health_is_answered_while_all_connections_are_at_work(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ServerProtocol, "max_connections", 5)
    monkeypatch.setattr(ServerProtocol, "spare_connections", 2)
    request = f"PUT {A} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf".encode()
    with ExitStack() as stack:
        busy = [stack.enter_context(closing(socket.create_connection(client.address, timeout=120))) for _ in range(5)]
        for one in busy:
            one.sendall(request)
        wait_for(lambda: len(ServerProtocol.open_connections) == 5 and not ServerProtocol.waiting_connections)

        assert [client("GET", path).status for path in ("/health", "/ready")] == [200] * 2
        refused = client("GET", "/api/pipelines")
        assert (refused.status, refused.json["error"]["code"], refused.headers["retry-after"]) == (
            503,
            "too-many-connections",
            "1",
        )
        for one in busy:
            one.sendall(b"x" * 96)
            assert one.recv(1000).startswith(b"HTTP/1.1 422 ")
    assert client("GET", "/api/pipelines").status == 200


def test_beyond_loopback_there_is_no_server_without_a_token(etl: Etl, tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "none").write_text("# nobody\n")

    refused = etl.here("serve", "jobs", "--listen", "0.0.0.0:0", "--state", "state")
    assert (refused.status, "anyone who reaches 0.0.0.0 could run pipelines: give --tokens FILE" in refused.err) == (1, True)
    refused = etl.here("serve", "jobs", "--listen", "0.0.0.0:0", "--state", "state", "--tokens", "none")
    assert (refused.status, "has no token, so that nobody could use the server" in refused.err) == (1, True)


def test_the_command_makes_tokens(etl: Etl, tmp_path: Path) -> None:
    made = etl.here("token", "tokens.txt", "alice", "--role", "write")

    token = made.out.strip()
    assert (tmp_path / "tokens.txt").read_text() == f"write {hash_token(token)} alice\n"
    assert (tmp_path / "tokens.txt").stat().st_mode & 0o777 == 0o600
    assert Tokens(tmp_path / "tokens.txt").role(token) == "write"
    assert len({new_token() for _ in range(9)}) == 9


def test_a_file_of_tokens_with_another_line_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("admin " + "0" * 64 + " x\n")

    with pytest.raises(EtlError, match=r"t:1: not a line of a token"):
        Tokens(tmp_path / "t")


@pytest.mark.slow
def test_clients_check_the_certificate_of_the_server(jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Certificates(tmp_path / "certificates")
    tls = Tls(made.server.certificate, made.server.key)
    with listening(create_app(jobs.server), LOOPBACK, tls) as address:
        connection = Connection.of(f"https://localhost:{address.port}")
        with pytest.raises(EtlError, match=r"no server answers at https://localhost:\d+: .*CERTIFICATE_VERIFY_FAILED"):
            connection.get("/api/pipelines")
        monkeypatch.setenv("SSL_CERT_FILE", str(made.authority))
        assert connection.get("/api/pipelines")["pipelines"] == []
        with pytest.raises(EtlError, match="no server answers at http://localhost"):
            Connection.of(f"http://localhost:{address.port}").get("/api/pipelines")

    (tmp_path / "key.pem").write_text("no key")
    with (
        pytest.raises(EtlError, match=r"cannot use .* for TLS \(--tls-cert, --tls-key\): "),
        listening(create_app(jobs.server), LOOPBACK, Tls(made.server.certificate, tmp_path / "key.pem")),
    ):
        pass


@pytest.mark.parametrize(("head_seconds", "min_seconds", "ended"), [(3.0, 1.0, 300), (1000.0, 0.1, 40)], ids=["time", "number"])
def test_slow_tls_handshakes_are_limited_and_keep_nobody_out(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head_seconds: float, min_seconds: float, ended: int
) -> None:
    made = Certificates(tmp_path / "certificates")
    monkeypatch.setattr(ServerProtocol, "head_seconds", head_seconds)
    monkeypatch.setattr(tls_listener, "MIN_SECONDS", min_seconds)
    monkeypatch.setenv("SSL_CERT_FILE", str(made.authority))
    tls = Tls(made.server.certificate, made.server.key)
    with listening(create_app(jobs.server), LOOPBACK, tls) as address, SlowClients(address.port, 300) as slow:
        wait_for(lambda: slow.ended >= ended, 50, "the end of the slow handshakes")
        assert Connection.of(f"https://localhost:{address.port}").get("/api/pipelines")["pipelines"] == []


def test_a_key_with_a_passphrase_is_refused_without_a_question(jobs: Jobs, tmp_path: Path) -> None:
    made, key = Certificates(tmp_path / "certificates"), tmp_path / "key.pem"
    run("openssl", "pkcs8", "-topk8", "-in", made.server.key, "-out", key, "-passout", "pass:secret-phrase")

    with (
        pytest.raises(EtlError, match="the key has a passphrase, which a server cannot be asked for"),
        listening(create_app(jobs.server), LOOPBACK, Tls(made.server.certificate, key)),
    ):
        pass
