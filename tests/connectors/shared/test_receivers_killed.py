"""Receivers that are killed with SIGKILL while a sender counts acknowledgements: none of them is lost, and none stored twice.

The receiver of HTTP is killed with requests of each format. ``KILLS=10`` kills each ten times (`make kills-receivers`, which
writes the third table of docs/delivery-tests.md).
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import kill_page
import msgpack
import pytest

import connectors.beats.source
import connectors.forward.source
import connectors.http.source
from connectors.shared.receiving.protobuf import write_bytes
from etl.api import Limit, Rejects

KILLS = int(os.environ.get("KILLS", "2"))
EVENTS = 20
"""Events of a request, window or chunk."""

RUN = """
import json, sys, threading
from pydantic import TypeAdapter
from connectors.beats.source import BeatsSource
from connectors.forward.source import ForwardSource
from connectors.http.source import HttpSource
kinds = {"http": HttpSource, "beats": BeatsSource, "forward": ForwardSource}
options = json.loads(sys.argv[1])
receiver = kinds[options["type"]].model_validate(options).with_folder(sys.argv[2]).receiver()
receiver.start()
print(receiver.ports[0], flush=True)
threading.Event().wait()
"""
HTTP_FORMATS = ("ndjson", "elasticsearch", "splunk_hec", "loki", "opentelemetry")
SOURCES: dict[tuple[str, str], tuple[Any, dict[str, Any]]] = {
    **{
        ("http", form): (connectors.http.source.HttpSource, {"type": "http", "listen": ["http://127.0.0.1:0"], "format": form})
        for form in HTTP_FORMATS
    },
    ("forward", "acks"): (connectors.forward.source.ForwardSource, {"type": "forward", "listen": ["tcp://127.0.0.1:0"]}),
    ("beats", "Lumberjack"): (connectors.beats.source.BeatsSource, {"type": "beats", "listen": ["tcp://127.0.0.1:0"]}),
}
"""Receivers with what they are sent."""


def texts_of(number: int) -> list[str]:
    return [json.dumps({"n": f"{number}-{event}"}, separators=(",", ":")) for event in range(EVENTS)]


def received(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = sock.recv(size - len(data))
        if not part:
            raise ConnectionError
        data += part
    return data


def text(number: int, value: str) -> bytes:
    return write_bytes(number, value.encode())


def loki_push(texts: list[str]) -> bytes:
    streams = {"streams": [{"stream": {"job": "a"}, "values": [["1795766400000000000", one] for one in texts]}]}
    return json.dumps(streams).encode()


def otlp_request(texts: list[str]) -> bytes:
    """Logs as Protocol Buffers: resource logs with scope logs with records, whose body is a text."""
    records = b"".join(write_bytes(2, write_bytes(5, text(1, one))) for one in texts)
    return write_bytes(1, write_bytes(2, records))


REQUESTS: dict[str, tuple[str, str, Callable[[list[str]], bytes]]] = {
    "ndjson": ("/", "application/x-ndjson", lambda texts: "\n".join(texts).encode()),
    "elasticsearch": (
        "/_bulk",
        "application/x-ndjson",
        lambda texts: "".join(f'{{"create":{{"_index":"i"}}}}\n{one}\n' for one in texts).encode(),
    ),
    "splunk_hec": (
        "/services/collector",
        "application/json",
        lambda texts: "".join(json.dumps({"event": one}) for one in texts).encode(),
    ),
    "loki": ("/loki/api/v1/push", "application/json", loki_push),
    "opentelemetry": ("/v1/logs", "application/x-protobuf", otlp_request),
}
"""Path, content type and body of a request of each format."""


def send_http(port: int, numbers: Any, acknowledged: list[int], form: str) -> None:
    path, kind, body = REQUESTS[form]
    with closing(HTTPConnection("127.0.0.1", port, timeout=120)) as connection:
        for number in numbers:
            connection.request("POST", path, body(texts_of(number)), {"content-type": kind})
            with connection.getresponse() as response:
                answer = response.read()
            if response.status in (200, 204) and b'"errors":true' not in answer:
                acknowledged.append(number)


def send_forward(port: int, numbers: Any, acknowledged: list[int], form: str) -> None:
    with socket.create_connection(("127.0.0.1", port), 120) as sock:
        for number in numbers:
            entries = [[0, json.loads(text)] for text in texts_of(number)]
            sock.sendall(msgpack.packb(["t", entries, {"chunk": "c"}]))
            received(sock, len(msgpack.packb({"ack": "c"})))
            acknowledged.append(number)


def send_beats(port: int, numbers: Any, acknowledged: list[int], form: str) -> None:
    with socket.create_connection(("127.0.0.1", port), 120) as sock:
        for number in numbers:
            frames = b"".join(
                b"2J" + n.to_bytes(4, "big") + len(text).to_bytes(4, "big") + text.encode()
                for n, text in enumerate(texts_of(number))
            )
            packed = zlib.compress(frames)
            sock.sendall(b"2W" + EVENTS.to_bytes(4, "big") + b"2C" + len(packed).to_bytes(4, "big") + packed)
            received(sock, 6)
            acknowledged.append(number)


SENDERS: dict[str, Callable[[int, Any, list[int], str], None]] = {"http": send_http, "forward": send_forward, "beats": send_beats}


def run_until_killed(kind: tuple[str, str], folder: Path, numbers: Any, acknowledged: list[int], sent: list[int]) -> None:
    """Start a receiver and three senders, and kill it when some of their requests have been acknowledged."""
    command = [sys.executable, "-c", RUN, json.dumps(SOURCES[kind][1]), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        before = len(acknowledged)

        def send() -> None:
            def counted() -> Any:
                for number in numbers:
                    sent.append(number)
                    yield number

            with suppress(OSError, HTTPException):
                SENDERS[kind[0]](port, counted(), acknowledged, kind[1])

        senders = [threading.Thread(target=send) for _ in range(3)]
        for sender in senders:
            sender.start()
        until = time.monotonic() + 60
        while len(acknowledged) < before + 30 and time.monotonic() < until:
            time.sleep(0.005)
        process.kill()
        for sender in senders:
            sender.join()


@pytest.mark.slow
@pytest.mark.delivery
@pytest.mark.parametrize("kind", SOURCES, ids="-".join)
def test_what_is_acknowledged_is_stored_once(tmp_path: Path, kind: tuple[str, str]) -> None:
    numbers, acknowledged, sent = itertools.count(), [], []
    for _ in range(KILLS):
        run_until_killed(kind, tmp_path, numbers, acknowledged, sent)
    class_, options = SOURCES[kind]
    source = class_.model_validate(options).with_folder(str(tmp_path))
    receiver = source.receiver()  # repairs the journal, as the next run does
    receiver.start()
    receiver.stop()

    batches = [
        batch
        for split in source.splits(source.start(), source.latest(source.start(), Limit(1 << 62)), 2)
        for batch in source.read(split)
    ]

    assert not [batch for batch in batches if isinstance(batch, Rejects)]
    found = Counter(json.loads(text)["n"] for batch in batches for text in batch.column("message").to_pylist())
    if "SLUICE_KILLS_PAGE" in os.environ:
        missing = sum(f"{number}-{event}" not in found for number in acknowledged for event in range(EVENTS))
        counts = (len(acknowledged) * EVENTS, missing, sum(found.values()) - len(found))
        kill_page.write(Path(os.environ["SLUICE_KILLS_PAGE"]), kill_page.receiver_row_of(kind, KILLS, *counts))
    assert set(found.values()) == {1}
    whole = Counter(int(name.partition("-")[0]) for name in found)
    assert set(whole.values()) == {EVENTS}
    assert set(acknowledged) <= whole.keys() <= set(sent)
    assert len(acknowledged) >= 30 * KILLS
