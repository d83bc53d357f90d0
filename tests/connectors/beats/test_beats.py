"""The `beats` source with its receiver: Lumberjack 2 over real sockets."""

from __future__ import annotations

import errno
import json
import os
import socket
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from running import wait_for

from connectors.beats.source import BeatsSource
from connectors.shared.receiving import tcp_server
from connectors.shared.receiving.tcp_server import TcpReceiver
from etl.api import Finding, Limit, Rejects


def frame(number: int, document: bytes) -> bytes:
    return b"2J" + struct.pack(">II", number, len(document)) + document


def window(documents: list[bytes], compressed: bool) -> bytes:
    frames = b"".join(frame(number, document) for number, document in enumerate(documents, 1))
    packed = zlib.compress(frames)
    head = b"2W" + struct.pack(">I", len(documents))
    return head + (b"2C" + struct.pack(">I", len(packed)) + packed if compressed else frames)


def create_source(folder: Path, **options: Any) -> BeatsSource:
    values = {"type": "beats", "listen": ["tcp://127.0.0.1:0"], **options}
    return BeatsSource.model_validate(values).with_folder(str(folder / "journal"))


@contextmanager
def connected(source: BeatsSource) -> Iterator[tuple[TcpReceiver, socket.socket]]:
    receiver = source.receiver()
    receiver.start()
    try:
        with socket.create_connection(("127.0.0.1", receiver.ports[0]), 30) as sock:
            yield receiver, sock
    finally:
        receiver.stop()


def acknowledged(sock: socket.socket) -> int:
    data = b""
    while len(data) < 6:
        data += sock.recv(6 - len(data))
    assert data[:2] == b"2A"
    return int.from_bytes(data[2:], "big")


def messages(source: BeatsSource) -> list[str]:
    found: list[str] = []
    for split in source.splits(source.start(), source.latest(source.start(), Limit(1 << 62)), 2):
        for batch in source.read(split):
            assert not isinstance(batch, Rejects)
            found += batch.column("message").to_pylist()
    return found


@pytest.mark.parametrize("compressed", [False, True])
def test_windows_are_acknowledged_when_stored(tmp_path: Path, compressed: bool) -> None:
    source = create_source(tmp_path)
    documents = [b'{"message":"line %d"}' % number for number in range(50)]
    with connected(source) as (_, sock):
        for size in (1, 50):
            sock.sendall(window(documents[:size], compressed))
            assert acknowledged(sock) == size
            assert len(messages(source)) == (1 if size == 1 else 51)

    assert messages(source) == [text.decode() for text in documents[:1] + documents]


def test_pairs_of_version_1_and_bytes_one_by_one(tmp_path: Path) -> None:
    source = create_source(tmp_path)
    texts = [b"line", b"hello \xff", b"host", b"web-1"]
    pairs = b"1D" + struct.pack(">II", 7, 2) + b"".join(struct.pack(">I", len(text)) + text for text in texts)
    packed = zlib.compress(pairs + frame(8, b""))
    data = b"1W" + struct.pack(">I", 3) + pairs + b"2C" + struct.pack(">I", len(packed)) + packed
    with connected(source) as (_, sock):
        for byte in data:
            sock.send(bytes([byte]))
        assert acknowledged(sock) == 8

    assert [json.loads(text) for text in messages(source)] == [{"line": "hello \ufffd", "host": "web-1"}] * 2 + [{}]


def compressed_frame(frames: bytes) -> bytes:
    packed = zlib.compress(frames)
    return b"2W\x00\x00\x00\x01" + b"2C" + struct.pack(">I", len(packed)) + packed


DAMAGED: dict[str, bytes | Callable[[], bytes]] = {
    "another protocol": b"GET / HTTP/1.1\r\n\r\n",
    "unknown frame": b"2X",
    "no window": frame(1, b"{}"),
    "empty window": b"2W\x00\x00\x00\x00",
    "window of billions": b"2W\xff\xff\xff\xff",
    "frame of billions": b"2W\x00\x00\x00\x01" + b"2J\x00\x00\x00\x01\xff\xff\xff\xff",
    "compressed frame of billions": b"2W\x00\x00\x00\x012C\xff\xff\xff\xff",
    "pairs of billions": b"2W\x00\x00\x00\x012D\x00\x00\x00\x01\x00\x00\x00\x01\xff\xff\xff\xff",
    "empty pairs without end": b"2W\x00\x00\x00\x012D\x00\x00\x00\x01\xff\xff\xff\xff" + bytes(1 << 16) + b"\x00" * 8,
    "not compressed": b"2W\x00\x00\x00\x012C\x00\x00\x00\x04abcd",
    "bomb": lambda: compressed_frame(frame(1, bytes(4 << 20))),
    "lie within a compressed frame": compressed_frame(b"2J\x00\x00\x00\x01\x00\x00\x00\x09{}"),
    "half a frame in a compressed one": compressed_frame(b"2J\x00\x00"),
    "a pair longer than its frame": compressed_frame(b"2D\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x09a"),
    "nested compression": compressed_frame(compressed_frame(b"")[6:]),
    "more than allowed in a window": b"2W\x00\x00\x00\x03" + frame(1, bytes(40_000)) + frame(2, bytes(40_000)),
}


@pytest.mark.slow
def test_a_damaged_frame_ends_its_connection_only(tmp_path: Path) -> None:
    source = create_source(tmp_path, max_message_bytes="64KiB")
    with connected(source) as (receiver, other):
        for what, data in DAMAGED.items():
            with socket.create_connection(("127.0.0.1", receiver.ports[0]), 30) as sock, suppress(ConnectionError):
                sock.sendall(data() if callable(data) else data)
                assert sock.recv(1) == b"", what
        with socket.create_connection(("127.0.0.1", receiver.ports[0])) as sock:
            sock.sendall(window([b'{"half":1}', b'{"half":2}'], False)[:-5])
        other.sendall(window([b'{"good":1}'], True))
        assert acknowledged(other) == 1

    assert messages(source) == ['{"good":1}']


def test_senders_wait_while_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp_server, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(tcp_server, "MAX_BUFFERED_BYTES", 600_000)

    def fail(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    source = create_source(tmp_path)
    with connected(source) as (receiver, sock):
        with monkeypatch.context() as patch:
            patch.setattr(os, "writev", fail)
            sock.sendall(window([b'{"n":1}'], True))
            assert acknowledged(sock) == 0  # wait
            with socket.create_connection(("127.0.0.1", receiver.ports[0])) as gone:
                gone.sendall(window([b'{"gone":1}'], True))
                assert acknowledged(gone) == 0
            wait_for(lambda: len(receiver._open) == 1)
            with socket.create_connection(("127.0.0.1", receiver.ports[0]), 30) as large, suppress(ConnectionError):
                large.sendall(b"2W\x00\x00\x00\x01" + frame(1, bytes(700_000)))  # more than all may hold in memory
                assert large.recv(1) == b""
        while (number := acknowledged(sock)) == 0:
            pass
        assert number == 1

    assert messages(source) == ['{"n":1}']


def test_limits_of_connections_and_networks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with connected(create_source(tmp_path, connections=1)) as (receiver, first):
        first.sendall(window([b"{}"], False))
        acknowledged(first)
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", receiver.ports[0]), 30) as second, suppress(ConnectionError):
                assert second.recv(1) == b""
        first.sendall(b"GET / HTTP/1.1\r\n")
        with suppress(ConnectionError):
            assert first.recv(1) == b""
    *refused, damaged = [record.getMessage() for record in caplog.records]
    assert [text.partition(",")[0] for text in refused] == [
        f"beats: {count} connections were refused because the limit of connections was reached" for count in (1, 2)
    ]
    assert damaged.startswith("beats: 1 connections ended because of what they sent, the last of 127.0.0.1: b'GE' does not begin")
    with connected(create_source(tmp_path, allow=["192.0.2.0/24"])) as (_, refused), suppress(ConnectionError):
        assert refused.recv(1) == b""


def test_a_new_connection_takes_the_place_of_a_silent_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp_server, "SILENT_SECONDS", 0.05)
    source = create_source(tmp_path, connections=2)
    with connected(source) as (receiver, first):
        first.sendall(b"2W")
        with socket.create_connection(("127.0.0.1", receiver.ports[0]), 30) as second:
            second.sendall(window([b'{"n":1}'], False))
            acknowledged(second)
            time.sleep(0.1)
            with socket.create_connection(("127.0.0.1", receiver.ports[0]), 30) as third:
                third.sendall(window([b'{"n":2}'], False))
                acknowledged(third)
                second.sendall(window([b'{"n":3}'], False))
                acknowledged(second)
            with suppress(ConnectionError):
                assert first.recv(1) == b""

    assert sorted(messages(source)) == ['{"n":1}', '{"n":2}', '{"n":3}']


def test_what_lint_says() -> None:
    values = {"type": "beats", "listen": ["tls://[::]:70000", "tcp://[::]:1", "tcp://[::]:1"], "allow": ["x"]}

    found: list[Finding] = list(BeatsSource.model_validate(values).check())

    assert [finding.code for finding in found] == ["bad-port", "no-certificate", "duplicate-place", "bad-network"]
