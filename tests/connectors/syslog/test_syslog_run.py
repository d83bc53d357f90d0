"""The `syslog` source in runs of the real command: delivery across kills and restarts."""

from __future__ import annotations

import re
import signal
import socket
import threading
from collections import Counter
from pathlib import Path

import pytest
from running import Engine, Etl, Running, wait_for

from connectors.shared.journal.segments import Segments

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PIPELINE = """
    name: receive
    sources:
      main: {{type: syslog, listen: ["tcp://127.0.0.1:{port}"], journal: {{fsync: {fsync}}}}}
    sinks:
      out: {{from: main, type: file, path: "{{here}}/out.jsonl"}}
    run: {{trigger: 100ms}}
"""


MESSAGE = re.compile(rb"<13>(\w+) (\d+) x+")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


KILLS = 1
"""Number of runs, each with a start of Spark; `make kills` tests this source with more."""


class Sender(threading.Thread):
    """Sends numbered messages of a name, with both framings in turn, until the connection breaks or it is stopped.

    Some thousands a second, and tens of thousands when told to hurry.
    """

    def __init__(self, port: int, name: str) -> None:
        super().__init__(daemon=True)
        self.port, self.title, self.sent = port, name, 0
        self.hurry, self._stopped = threading.Event(), threading.Event()

    def run(self) -> None:
        wait_for(lambda: self._connected() is not None, what="a listening receiver")
        with self._sock:
            while not self._stopped.is_set():
                messages = [b"<13>%s %d %s" % (self.title.encode(), self.sent + n, b"x" * 150) for n in range(1000)]
                framed = [b"%d %s" % (len(one), one) if n // 100 % 2 else one + b"\n" for n, one in enumerate(messages)]
                try:
                    self._sock.sendall(b"".join(framed))
                except ConnectionError:
                    return
                self.sent += len(messages)
                self._stopped.wait(0.01 if self.hurry.is_set() else 0.2)

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    def _connected(self) -> socket.socket | None:
        try:
            self._sock = socket.create_connection(("127.0.0.1", self.port), timeout=120)
        except ConnectionRefusedError:
            return None
        return self._sock


def delivered(path: Path) -> Counter[tuple[str, int]]:
    """Return which messages the output has, and how often."""
    found = MESSAGE.findall(path.read_bytes()) if path.exists() else []
    return Counter((name.decode(), int(number)) for name, number in found)


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def test_after_kills_under_load_events_of_the_journal_are_delivered_once(etl: Etl, engine: Engine) -> None:
    port, out, state = free_port(), etl.folder / "out.jsonl", etl.folder / "state"
    pipeline = etl.pipeline(PIPELINE.format(port=port, fsync="interval"))
    words = ("run", pipeline, "--master", "local[2]", "--state", state, "-q")
    kept: Counter[tuple[str, int]] = Counter()
    for kill in range(KILLS):
        running, sender = etl.start(*words), Sender(port, f"kill{kill}")
        sender.start()
        for _ in range(2):
            before = size(out)
            wait_for(lambda before=before: size(out) > before, what="output")
            sender.hurry.set()
        running.send_signal(signal.SIGKILL)
        running.communicate()
        sender.stop()
        kept += journaled(state)
    assert kept

    with engine.following(pipeline) as rest:
        wait_for(lambda: all_delivered(state, rest), what="the rest")

    found = delivered(out)
    assert kept.keys() <= found.keys()
    assert set(found.values()) == {1}
    for kill in range(KILLS):
        numbers = sorted(number for name, number in found if name == f"kill{kill}")
        assert numbers == list(range(len(numbers))), "a hole: a message before one that was delivered is missing"
        assert numbers


def all_delivered(state: Path, running: Running) -> bool:
    """Return whether the journal has only the empty segment of this run."""
    segments = Segments(state / "sources" / "main")
    return not running.ended and len(segments.starts) == 1 and segments.bytes_on_disk == 0


def journaled(state: Path) -> Counter[tuple[str, int]]:
    """Return the complete messages in the journal's segments."""
    from connectors.syslog.source import SyslogSource
    from etl.api import Limit

    source = SyslogSource(listen=("tcp://127.0.0.1:1",)).with_folder(str(state / "sources" / "main"))
    start = source.start()
    splits = source.splits(start, source.latest(start, Limit(1 << 62)), 1)
    texts = [text for split in splits for batch in source.read(split) for text in batch.column("message").to_pylist()]
    found = MESSAGE.findall("\n".join(texts).encode())
    assert len(found) == len(texts)
    return Counter((name.decode(), int(number)) for name, number in found)


def test_nothing_is_missing_after_a_restart(engine: Engine) -> None:
    port, out, state = free_port(), engine.etl.folder / "out.jsonl", engine.etl.folder / "state"
    pipeline, sender = engine.etl.pipeline(PIPELINE.format(port=port, fsync="always")), Sender(port, "stopped")
    with engine.following(pipeline):
        sender.start()
        wait_for(lambda: size(out) > 0, what="output")
        sender.stop()

    with engine.following(pipeline) as again:
        wait_for(lambda: all_delivered(state, again), what="all messages")

    assert delivered(out) == Counter(("stopped", number) for number in range(sender.sent))


def test_once_reads_received_events_and_ends(engine: Engine) -> None:
    ran = engine.run(engine.etl.pipeline(PIPELINE.format(port=free_port(), fsync="never")), "--once")

    assert ran.status == 0, ran.err
    assert "receive: 0 events" in ran.err
