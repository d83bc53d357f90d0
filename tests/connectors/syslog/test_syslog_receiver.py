"""The `syslog` source with its receiver, over real sockets on loopback."""

from __future__ import annotations

import pickle
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from running import wait_for
from slow_clients import SlowClients
from source_events import receiving

from connectors.shared.journal.reader import Journal
from connectors.syslog import receive_loop
from connectors.syslog.source import SyslogSource
from etl.api import ComponentError, Limit, Rejects

FAR = Limit(1 << 62)
TCP, UDP, TLS = "tcp://127.0.0.1:0", "udp://127.0.0.1:0", "tls://127.0.0.1:0"


def create_source(folder: Path, *listen: str, **options: Any) -> SyslogSource:
    return SyslogSource.model_validate({"type": "syslog", "listen": listen, **options}).with_folder(str(folder / "journal"))


def rows(source: SyslogSource) -> list[dict[str, Any]]:
    """Return the events of the journal, read as workers read it; a rejected event has a ``code``."""
    end = source.latest(source.start(), FAR)
    found: list[dict[str, Any]] = []
    for split in pickle.loads(pickle.dumps(source.splits(source.start(), end, 2))):
        for batch in pickle.loads(pickle.dumps(source)).read(split):
            if isinstance(batch, Rejects):
                found += [{**row, "code": batch.code} for row in batch.events.to_pylist()]
            else:
                found += batch.to_pylist()
    return found


def messages(source: SyslogSource) -> list[str]:
    return [row["message"] for row in rows(source)]


def journaled(source: SyslogSource, count: int) -> Callable[[], bool]:
    return lambda: sum(stop.events for stop in Journal(source._folder).walk(0)) >= count


def tcp(port: int, data: bytes) -> tuple[str, int]:
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.sendall(data)
        return sock.getsockname()


def test_tcp_messages_with_their_sender_and_time(tmp_path: Path) -> None:
    source = create_source(tmp_path, TCP)
    with receiving(source) as receiver:
        name = tcp(receiver.ports[0], b"<13>one\n7 <13>two<13>three\r\n\n\n<13>four")
        wait_for(journaled(source, 4))

    found = rows(source)

    assert [row["message"] for row in found] == ["<13>one", "<13>two", "<13>three", "<13>four"]
    assert {(row["log.source.address"], row["log.source.port"]) for row in found} == {name}
    assert all(row["event.created"].year >= 2024 for row in found)
    assert len({row["_offset"] for row in found}) == 4
    assert list(found[0]) == [*source.fields().names, "_offset"]


def test_udp_messages_are_datagrams(tmp_path: Path) -> None:
    source = create_source(tmp_path, UDP, max_message_bytes=1000)
    with receiving(source) as receiver, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(("127.0.0.1", receiver.ports[0]))
        for data in (b"<13>one\n", b"12 <13>two\nlines", b"x" * 1001, b"", b"\0", b"y" * 1000):
            sock.send(data)
        wait_for(journaled(source, 4))
        port = sock.getsockname()[1]

    found = rows(source)

    assert [row["message"] for row in found] == ["<13>one", "12 <13>two\nlines", "y" * 1000, "x" * 1001]
    assert [row.get("code") for row in found] == [None, None, None, "message-too-long"]
    assert {(row["log.source.address"], row["log.source.port"]) for row in found} == {("127.0.0.1", port)}


def test_many_datagrams_of_many_senders(tmp_path: Path) -> None:
    source = create_source(tmp_path, UDP)
    senders = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(20)]
    with receiving(source) as receiver:
        for number in range(2000):
            senders[number % 20].sendto(b"%d" % number, ("127.0.0.1", receiver.ports[0]))
        wait_for(journaled(source, 2000))
    ports = [sender.getsockname()[1] for sender in senders]
    for sender in senders:
        sender.close()

    found = {int(row["message"]): row["log.source.port"] for row in rows(source)}

    assert found == {number: ports[number % 20] for number in range(2000)}


def test_ipv6(tmp_path: Path) -> None:
    if not socket.has_ipv6 or not _binds("::1"):
        pytest.skip("this machine has no IPv6 loopback")
    source = create_source(tmp_path, "udp://[::]:0", "tcp://[::1]:0")
    with receiving(source) as receiver:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"six", ("::1", receiver.ports[0]))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"four", ("127.0.0.1", receiver.ports[0]))
        with socket.create_connection(("::1", receiver.ports[1])) as stream:
            stream.sendall(b"stream\n")
        wait_for(journaled(source, 3))

    assert {row["message"]: row["log.source.address"] for row in rows(source)} == {
        "six": "::1",
        "four": "127.0.0.1",
        "stream": "::1",
    }


def _binds(host: str) -> bool:
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind((host, 0))
    except OSError:
        return False
    return True


def test_unix_sockets(tmp_path: Path) -> None:
    stream, datagram = tmp_path / "stream", tmp_path / "datagram"
    source = create_source(tmp_path, f"unix://{stream}", f"unixgram://{datagram}", permissions="600")
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(stream))
    with receiving(source):
        assert stream.stat().st_mode & 0o777 == 0o600
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(stream))
            sock.sendall(b"one\ntwo\n")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"three", str(datagram))
        wait_for(journaled(source, 3))

    found = {row["message"]: (row["log.source.address"], row["log.source.port"]) for row in rows(source)}

    assert found == {"one": (str(stream), None), "two": (str(stream), None), "three": (str(datagram), None)}
    assert not stream.exists()
    assert not datagram.exists()


def test_an_address_in_use_is_an_error(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        place = f"tcp://127.0.0.1:{other.getsockname()[1]}"

        with pytest.raises(ComponentError, match=f"cannot listen at {place}: Address already in use"):
            create_source(tmp_path, place).receiver().start()


def test_a_unix_socket_in_use_is_an_error(tmp_path: Path) -> None:
    place = f"unix://{tmp_path}/taken"
    with receiving(create_source(tmp_path, place)), pytest.raises(ComponentError, match="Address already in use"):
        create_source(tmp_path / "other", place).receiver().start()


def test_senders_outside_the_allowed_networks_are_refused_and_counted(tmp_path: Path) -> None:
    source = create_source(tmp_path, TCP, UDP, allow=["127.0.0.2/32", "::1/128"])
    with receiving(source) as receiver:
        for host in ("127.0.0.1", "127.0.0.2"):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.bind((host, 0))
                sock.sendto(f"udp {host}".encode(), ("127.0.0.1", receiver.ports[1]))
            with socket.socket() as stream:
                stream.bind((host, 0))
                stream.connect(("127.0.0.1", receiver.ports[0]))
                try:
                    stream.sendall(f"tcp {host}\n".encode())
                except ConnectionError:
                    assert host == "127.0.0.1"
        wait_for(journaled(source, 2))
        wait_for(lambda: receiver.loss_counters.sums["not-allowed"] == 2)

    assert sorted(messages(source)) == ["tcp 127.0.0.2", "udp 127.0.0.2"]


def test_connections_beyond_the_limit_are_refused(tmp_path: Path) -> None:
    source = create_source(tmp_path, TCP, connections=1)
    with receiving(source) as receiver:
        with socket.create_connection(("127.0.0.1", receiver.ports[0])) as first:
            first.sendall(b"first\n")
            wait_for(journaled(source, 1))
            with socket.create_connection(("127.0.0.1", receiver.ports[0])) as second:
                assert second.recv(1) == b""
        wait_for(lambda: not receiver._loop._connections)
        tcp(receiver.ports[0], b"third\n")
        wait_for(journaled(source, 2))

    assert messages(source) == ["first", "third"]
    assert receiver.loss_counters.sums["too-many"] == 1


def test_an_incomplete_message_waits_for_its_rest(tmp_path: Path) -> None:
    source = create_source(tmp_path, TCP)
    with receiving(source) as receiver, socket.create_connection(("127.0.0.1", receiver.ports[0])) as sock:
        sock.sendall(b"one\ntw")
        wait_for(journaled(source, 1))
        assert messages(source) == ["one"]
        sock.sendall(b"o\n")
        wait_for(journaled(source, 2))

    assert messages(source) == ["one", "two"]


def test_messages_sent_before_the_stop_are_stored(tmp_path: Path) -> None:
    source = create_source(tmp_path, TCP)
    receiver = source.receiver()
    receiver.start()
    with socket.create_connection(("127.0.0.1", receiver.ports[0])) as sock:
        sock.sendall(b"x" * 99 + b"\n")
        wait_for(journaled(source, 1))
        sock.sendall((b"y" * 99 + b"\n") * 10_000)
        receiver.stop()

    assert len(messages(source)) == 10_001


def test_a_full_journal_makes_tcp_wait_and_drops_udp(tmp_path: Path) -> None:
    source = create_source(tmp_path, TCP, UDP, journal={"max_bytes": "1MiB", "fsync": "never"})
    line, lines = b"z" * 999 + b"\n", 60_000
    with receiving(source) as receiver, socket.create_connection(("127.0.0.1", receiver.ports[0])) as sock:
        sock.setblocking(False)
        sent = 0

        def pushed() -> bool:
            nonlocal sent
            try:
                while True:
                    sent += sock.send(line[sent % 1000 :] + line * 20)
            except BlockingIOError:
                return receiver._loop._is_paused

        wait_for(pushed, what="back-pressure")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.sendto(b"lost", ("127.0.0.1", receiver.ports[1]))
        wait_for(lambda: receiver.loss_counters.sums["journal-full"] == 1)
        assert receiver.dropped() == {"the journal was full": 1}
        assert sent < lines * 1000
        found = len(rows(source))
        end = source.latest(source.start(), FAR)
        source.commit([end])
        wait_for(lambda: next(Journal(source._folder).walk(end["offset"]), None) is not None, what="room for more")

    assert 0 < found < lines
    assert "lost" not in messages(source)


def test_invalid_utf8_is_repaired(tmp_path: Path) -> None:
    source = create_source(tmp_path, TCP, UDP)
    with receiving(source) as receiver:
        tcp(receiver.ports[0], "schön\n".encode() + b"caf\xe9 au lait\n5 <1>\xc3\xa9" + b"6 <1>ab\xc3\xa9\n")
        wait_for(journaled(source, 5))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"\xc3", ("127.0.0.1", receiver.ports[1]))
            sock.sendto(b"\xa9", ("127.0.0.1", receiver.ports[1]))
        wait_for(journaled(source, 7))

    assert messages(source) == ["schön", "caf\ufffd au lait", "<1>é", "<1>ab\ufffd", "\ufffd", "\ufffd", "\ufffd"]


def test_another_charset(tmp_path: Path) -> None:
    source = create_source(tmp_path, TCP, charset="gbk")
    with receiving(source) as receiver:
        tcp(receiver.ports[0], "<13>登录失败\n".encode("gbk"))
        wait_for(journaled(source, 1))

    assert messages(source) == ["<13>登录失败"]


def test_a_damaged_record_is_a_dead_letter(tmp_path: Path) -> None:
    source = create_source(tmp_path, TCP)
    with receiving(source) as receiver:
        for text in (b"before\n", b"damaged\n", b"after\n"):
            count = sum(stop.events for stop in Journal(source._folder).walk(0))
            tcp(receiver.ports[0], text)
            wait_for(journaled(source, count + 1))
    (path,) = Path(source._folder).glob("*.segment")
    data = path.read_bytes()
    path.write_bytes(data.replace(b"damaged", b"garbled"))

    found = rows(source)

    assert [row["message"] for row in found if "code" not in row] == ["before", "after"]
    assert [row["code"] for row in found if "code" in row] == ["journal-damaged"]


def test_events_are_counted_across_records(tmp_path: Path) -> None:
    source = create_source(tmp_path, TCP)
    with receiving(source) as receiver:
        tcp(receiver.ports[0], b"".join(b"%d\n" % n for n in range(10)))
        wait_for(journaled(source, 10))
    here, seen = source.start(), []

    while (end := source.latest(here, Limit(1 << 62, max_events=3))) != here:
        batches = [batch for split in source.splits(here, end, 2) for batch in source.read(split)]
        seen.append([text for batch in batches for text in batch.column("message").to_pylist()])
        here = end

    assert seen == [["0", "1", "2"], ["3", "4", "5"], ["6", "7", "8"], ["9"]]


# ── TLS ──


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, and certificates of a server and a client, created with the command openssl."""
    if not shutil.which("openssl"):
        pytest.skip("the command openssl, which makes certificates, is not installed")
    folder = tmp_path_factory.mktemp("certificates")
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    authority = ["-keyout", "authority.key", "-out", "authority.pem", "-subj", "/CN=authority"]
    subprocess.run([*new, *authority], cwd=folder, check=True, capture_output=True)
    for name in ("server", "client"):
        signed = ["-CA", "authority.pem", "-CAkey", "authority.key", "-subj", f"/CN={name}"]
        files = ["-keyout", f"{name}.key", "-out", f"{name}.pem", "-addext", "subjectAltName=IP:127.0.0.1"]
        subprocess.run([*new, *signed, *files], cwd=folder, check=True, capture_output=True)
    return folder


def over_tls(port: int, certificates: Path, data: bytes, client: bool = False) -> None:
    context = ssl.create_default_context(cafile=certificates / "authority.pem")
    if client:
        context.load_cert_chain(certificates / "client.pem", certificates / "client.key")
    with socket.create_connection(("127.0.0.1", port)) as sock, context.wrap_socket(sock, server_hostname="127.0.0.1") as secure:
        secure.sendall(data)
        secure.unwrap()


def tls_options(certificates: Path, **more: str) -> dict[str, str]:
    return {"certificate": str(certificates / "server.pem"), "key": str(certificates / "server.key"), **more}


def test_tls(tmp_path: Path, certificates: Path) -> None:
    source = create_source(tmp_path, TLS, tls=tls_options(certificates))
    lines = [f"{n:05d}" + "x" * 95 for n in range(5000)]
    with receiving(source) as receiver:
        over_tls(
            receiver.ports[0],
            certificates,
            "".join(f"100 {line}" if n else f"{line}\n" for n, line in enumerate(lines[:1])).encode(),
        )
        over_tls(receiver.ports[0], certificates, "".join(f"{line}\n" for line in lines).encode())
        wait_for(journaled(source, 5001))

    assert messages(source) == [lines[0], *lines]


@pytest.mark.parametrize("asked", ["required", "optional"])
def test_client_certificates(tmp_path: Path, certificates: Path, asked: str) -> None:
    authority = str(certificates / "authority.pem")
    options = tls_options(certificates, client_authority=authority, client_certificates=asked)
    source = create_source(tmp_path, TLS, tls=options)
    with receiving(source) as receiver:
        over_tls(receiver.ports[0], certificates, b"with\n", client=True)
        wait_for(journaled(source, 1))
        if asked == "required":
            with suppress(ssl.SSLError, ConnectionError):  # with TLS 1.3 a sender may learn of it too late
                over_tls(receiver.ports[0], certificates, b"without\n")
            wait_for(lambda: receiver.loss_counters.sums["tls"] == 1)
        else:
            over_tls(receiver.ports[0], certificates, b"without\n")
            wait_for(journaled(source, 2))

    assert messages(source) == (["with"] if asked == "required" else ["with", "without"])


def test_a_client_without_tls_is_refused_and_others_continue(tmp_path: Path, certificates: Path) -> None:
    source = create_source(tmp_path, TLS, tls=tls_options(certificates))
    with receiving(source) as receiver:
        tcp(receiver.ports[0], b"<13>plain text\n")
        with socket.create_connection(("127.0.0.1", receiver.ports[0])):  # says nothing at all
            over_tls(receiver.ports[0], certificates, b"secret\n")
            wait_for(journaled(source, 1))
        wait_for(lambda: receiver.loss_counters.sums["tls"] >= 1)

    assert messages(source) == ["secret"]


@pytest.mark.parametrize("broken", [{"certificate": "missing.pem"}, {"key": "client.key"}, {"client_authority": "server.key"}])
def test_certificates_that_cannot_be_used_are_an_error(tmp_path: Path, certificates: Path, broken: dict[str, str]) -> None:
    options = tls_options(certificates, **{name: str(certificates / file) for name, file in broken.items()})

    with pytest.raises(ComponentError, match="tls cannot use"):
        create_source(tmp_path, TLS, tls=options).receiver().start()


# ── Options ──


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"listen": ["tcp://127.0.0.1:70000"]}, "bad-port"),
        ({"listen": [TCP, TCP]}, "duplicate-place"),
        ({"listen": [TLS]}, "no-certificate"),
        ({"listen": [TCP], "tls": {"certificate": "x"}}, "tls-unused"),
        ({"listen": [TCP], "allow": ["10.0.0.1/8"]}, "bad-network"),
        ({"listen": [TCP], "charset": "utf-17"}, "unknown-charset"),
    ],
)
def test_findings(options: dict[str, Any], code: str) -> None:
    findings = list(SyslogSource.model_validate({"type": "syslog", **options}).check())

    assert [finding.code for finding in findings] == [code]


@pytest.mark.parametrize("place", ["127.0.0.1:514", "http://x:1", "tcp://:514", "tcp://host", "unix://relative", "tcp://::1:514"])
def test_invalid_addresses_are_findings(place: str) -> None:
    with pytest.raises(ValueError, match="listen"):
        SyslogSource.model_validate({"type": "syslog", "listen": [place]})


@pytest.mark.parametrize(("limit", "least"), [("HANDSHAKE_SECONDS", 20), ("MIN_HANDSHAKE_SECONDS", 1)])
def test_slow_handshakes_keep_no_sender_out(
    tmp_path: Path, certificates: Path, monkeypatch: pytest.MonkeyPatch, limit: str, least: int
) -> None:
    """At the limit of connections each of them ends after its time, and one ends before if a sender needs its place."""
    for name in ("HANDSHAKE_SECONDS", "MIN_HANDSHAKE_SECONDS"):
        monkeypatch.setattr(receive_loop, name, 0.5 if name == limit else 1000.0)
    source = create_source(tmp_path, TLS, tls=tls_options(certificates), connections=20)

    def is_received(port: int) -> bool:
        with suppress(OSError):
            over_tls(port, certificates, b"<13>one\n")
        return journaled(source, 1)()

    with receiving(source) as receiver, SlowClients(receiver.ports[0], 20) as slow:
        wait_for(lambda: is_received(receiver.ports[0]), 100)
        wait_for(lambda: slow.ended >= least, 100, "the end of slow handshakes")

    assert set(messages(source)) == {"<13>one"}
