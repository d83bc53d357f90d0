"""The `forward` source with its receiver: messages as Fluentd and Fluent Bit send them, over real sockets."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgpack
import pytest
from running import wait_for
from source_events import receiving

from connectors.forward.source import ForwardSource
from connectors.shared.journal.reader import Journal
from connectors.shared.receiving import tcp_server
from connectors.shared.receiving.tcp_server import TcpReceiver
from etl.api import Limit, Rejects

AT = 1795766400
TIME = msgpack.ExtType(0, AT.to_bytes(4, "big") + (250_000_000).to_bytes(4, "big"))
RECORDS = [{"log": f"line {number}", "n": number} for number in range(3)]


def packed(records: list[Any] = RECORDS) -> bytes:
    return b"".join(msgpack.packb([TIME, record]) for record in records)


def create_source(folder: Path, **options: Any) -> ForwardSource:
    values = {"type": "forward", "listen": ["tcp://127.0.0.1:0"], **options}
    return ForwardSource.model_validate(values).with_folder(str(folder / "journal"))


@contextmanager
def connected(receiver: TcpReceiver) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", receiver.ports[0]), 30) as sock:
        yield sock


def answer(sock: socket.socket) -> Any:
    """The next value that the receiver sends; None at the end of the connection."""
    unpacker = msgpack.Unpacker()
    while data := sock.recv(4096):
        unpacker.feed(data)
        for value in unpacker:
            return value
    return None


def is_ended(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except ConnectionError:
        return True


def rows(source: ForwardSource) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for split in source.splits(source.start(), source.latest(source.start(), Limit(1 << 62)), 2):
        for batch in source.read(split):
            assert not isinstance(batch, Rejects)
            assert batch.schema.names == [*source.fields().names, "_offset"]
            found += batch.to_pylist()
    return found


def journaled(source: ForwardSource, count: int) -> Callable[[], bool]:
    return lambda: sum(stop.events for stop in Journal(source._folder).walk(0)) >= count


MODES = {
    "Message": lambda option: [["app", TIME, record, option] for record in RECORDS],
    "Forward": lambda option: [["app", [[TIME, record] for record in RECORDS], option]],
    "PackedForward": lambda option: [["app", packed(), option]],
    "CompressedPackedForward": lambda option: [["app", gzip.compress(packed()), {**option, "compressed": "gzip"}]],
    "Fluent Bit 2": lambda option: [["app", [[[TIME, {}], record] for record in RECORDS], option]],
}


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_is_acknowledged_when_stored(tmp_path: Path, mode: str) -> None:
    source = create_source(tmp_path)
    with receiving(source) as receiver, connected(receiver) as sock:
        for number, message in enumerate(MODES[mode]({"chunk": f"id-{mode}", "size": 3})):
            sock.sendall(msgpack.packb(message))
            assert answer(sock) == {"ack": f"id-{mode}"}
            assert journaled(source, number + 1)()

    found = rows(source)
    assert [json.loads(row["message"]) for row in found] == RECORDS
    assert {(row["fluent.tag"], row["log.source.address"]) for row in found} == {("app", "127.0.0.1")}
    assert {row["timestamp"] for row in found} == {datetime(2026, 11, 27, 8, 0, 0, 250000, UTC)}


def test_old_texts_heartbeats_pieces_and_values_of_any_kind(tmp_path: Path) -> None:
    source = create_source(tmp_path)
    record = {"b": b"\xff\x00", "f": float("inf"), 7: [None, True, {"x": -1}], "é": '\\ "', "ext": msgpack.ExtType(5, b"x")}
    old = b"\x93\xa3old\xda\x00" + bytes([len(packed())]) + packed() + b"\x80"  # entries as raw16, before the type bin
    data = b"\xc0" + msgpack.packb(["any", 1795766400.5, record]) + old + msgpack.packb(["t", None, {"r": 1}])
    with receiving(source) as receiver, connected(receiver) as sock:
        for byte in data:
            sock.send(bytes([byte]))
        wait_for(journaled(source, 5))

    first, *others, last = rows(source)
    expected = {"b": "\ufffd\x00", "f": None, "7": [None, True, {"x": -1}], "é": '\\ "', "ext": "ExtType(code=5, data=b'x')"}
    assert json.loads(first["message"]) == expected
    assert first["timestamp"] == datetime(2026, 11, 27, 8, 0, 0, 500000, UTC)
    assert [json.loads(row["message"]) for row in others] == RECORDS
    assert last["timestamp"] is None


DAMAGED: dict[str, bytes | Callable[[], bytes]] = {
    "no array": msgpack.packb({"a": 1}),
    "no tag": msgpack.packb([1, 2, 3]),
    "no record": msgpack.packb(["t", 1]),
    "wrong event": msgpack.packb(["t", [[1]]]),
    "cut packed events": msgpack.packb(["t", packed()[:-1], {}]),
    "unknown compression": msgpack.packb(["t", packed(), {"compressed": "lzma"}]),
    "no gzip": msgpack.packb(["t", packed(), {"compressed": "gzip"}]),
    "bomb": lambda: msgpack.packb(["t", gzip.compress(bytes(50 << 20)), {"compressed": "gzip"}]),
    "not MessagePack": b"\xc1" * 10,
    "an array of billions": b"\xdd\xff\xff\xff\xff",
    "a text of billions": b"\x93\xdb\xff\xff\xff\xff",
    "more than allowed": b"\x93\xc6\x7f\xff\xff\xff" + bytes(3 << 20),
    "deep": b"\x93\xa1t\x01" + b"\x91" * 500 + b"\x01",
    "HTTP": b"GET / HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_message_ends_its_connection_only(tmp_path: Path, what: str) -> None:
    source = create_source(tmp_path, max_message_bytes="2MiB")
    data = DAMAGED[what]
    with receiving(source) as receiver, connected(receiver) as other, connected(receiver) as sock:
        try:
            sock.sendall(data() if callable(data) else data)
            if what == "a text of billions":
                sock.shutdown(socket.SHUT_WR)
        except ConnectionError:
            pass
        assert is_ended(sock)
        other.sendall(msgpack.packb(["t", 1, {"good": 1}, {"chunk": "c"}]))
        assert answer(other) == {"ack": "c"}

    assert [row["message"] for row in rows(source)] == ['{"good":1}']


def test_many_small_messages_together_and_good_ones_before_a_damaged_one(tmp_path: Path) -> None:
    source = create_source(tmp_path, max_message_bytes="1KiB")
    packed_twice = [msgpack.packb(["t", packed() * 5, {"chunk": str(n)}]) for n in range(4)]  # more than 1 KiB together
    small = msgpack.packb(["t", 1e300, {"n": 0}]) * 1000
    with receiving(source) as receiver, connected(receiver) as sock:
        sock.sendall(small + b"".join(packed_twice) + msgpack.packb(["t", 1]) + msgpack.packb(["t", 1, {"after": 1}]))
        unpacker = msgpack.Unpacker()
        with suppress(ConnectionError):
            while data := sock.recv(4096):
                unpacker.feed(data)

    assert list(unpacker) == [{"ack": str(n)} for n in range(4)]
    found = rows(source)
    assert [json.loads(row["message"]) for row in found] == [{"n": 0}] * 1000 + RECORDS * 20
    assert found[0]["timestamp"] is None


@pytest.mark.parametrize("key", ["s3cret", "wrong"])
def test_the_handshake(tmp_path: Path, key: str) -> None:
    source = create_source(tmp_path, shared_key="s3cret")

    def digest(salt: bytes, host: bytes, nonce: bytes) -> str:
        return hashlib.sha512(salt + host + nonce + key.encode()).hexdigest()

    with receiving(source) as receiver, connected(receiver) as sock:
        helo, options = answer(sock)
        sock.sendall(msgpack.packb(["PING", "client", b"salt", digest(b"salt", b"client", options["nonce"]), "", ""]))
        pong, accepted, reason, host, proof = answer(sock)
        assert (helo, pong, accepted) == ("HELO", "PONG", key == "s3cret")
        if not accepted:
            assert (reason, is_ended(sock)) == ("shared_key mismatch", True)
            return
        assert proof == digest(b"salt", host.encode(), options["nonce"])
        sock.sendall(msgpack.packb(["t", 1, {}, {"chunk": "c"}]))
        assert answer(sock) == {"ack": "c"}
    with receiving(source) as receiver, connected(receiver) as sock:
        answer(sock)
        sock.sendall(msgpack.packb(["t", 1, {}, {"chunk": "no handshake"}]))
        assert is_ended(sock)
    assert len(rows(source)) == 1


def test_nothing_is_acknowledged_while_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp_server, "RETRY_SECONDS", 0.01)
    tries: list[int] = []

    def fail(*_: Any) -> int:
        tries.append(1)
        raise OSError(errno.ENOSPC, "No space left on device")

    source = create_source(tmp_path)
    with receiving(source) as receiver, connected(receiver) as sock:
        with monkeypatch.context() as patch:
            patch.setattr(os, "writev", fail)
            sock.sendall(msgpack.packb(["t", 1, {"n": 1}, {"chunk": "c"}]))
            wait_for(lambda: len(tries) > 2)
            sock.settimeout(0.05)
            with pytest.raises(TimeoutError):
                sock.recv(1)
        sock.settimeout(120)
        assert answer(sock) == {"ack": "c"}

    assert [row["message"] for row in rows(source)] == ['{"n":1}']
