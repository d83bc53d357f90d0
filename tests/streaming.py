"""A run that follows a file with an event every few milliseconds, while a test changes something."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from running import Engine, Etl, Running, wait_for


@dataclass
class Stream:
    """Numbered events that pass through a run; a thread adds one every few milliseconds."""

    etl: Etl
    run: Running
    _written: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _read: int = 0
    """Bytes of the output that `delivered` has read."""
    _found: dict[int, list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def output(self) -> list[str]:
        """What the run has reported."""
        return [message.text for message in self.run.messages]

    def write(self) -> int:
        """Append an event, and return its number."""
        with self._lock, (self.etl.folder / "in.log").open("a") as log:
            log.write(f"{self._written} sh\n")
            self._written += 1
            return self._written - 1

    def delivered(self) -> dict[int, list[dict[str, Any]]]:
        """The rules of each delivered event; each event is delivered once."""
        for line in self._new_lines():
            event = json.loads(line)
            assert int(event["n"]) not in self._found, f"event {event['n']} came twice"
            self._found[int(event["n"])] = event["rules"]
        return self._found

    def _new_lines(self) -> list[bytes]:
        """The complete lines of the output after those that were read."""
        out = self.etl.folder / "out.jsonl"
        if not out.exists():
            return []
        with out.open("rb") as file:
            file.seek(self._read)
            whole = file.read().rpartition(b"\n")[0]
        self._read += len(whole) + bool(whole)
        return whole.splitlines()

    def now(self) -> tuple[list[str], set[str]]:
        """The rules, and their version, that match an event written now."""
        number = self.write()
        try:
            wait_for(lambda: number in self.delivered() or self.run.ended, what=f"event {number}")
        except AssertionError as error:
            raise AssertionError(f"{error}:\n{''.join(self.output)}") from None
        assert not self.run.ended, "".join(self.output)
        met = self.delivered()[number]
        return [rule["id"] for rule in met], {rule["version"] for rule in met}

    def soon(self) -> tuple[list[str], set[str]]:
        """The same in the second micro-batch from now at the latest."""
        self.now()
        return self.now()

    def total(self) -> int:
        return self._written


@contextmanager
def streaming(engine: Engine, text: str) -> Iterator[Stream]:
    """Run a pipeline that follows its file while the body runs, with an event every few milliseconds."""
    (engine.etl.folder / "in.log").touch()
    with engine.following(text) as run:
        stream, done = Stream(engine.etl, run), threading.Event()
        feeding = threading.Thread(target=_feed, args=(stream, done))
        feeding.start()
        try:
            yield stream
        finally:
            done.set()
            feeding.join()
        wait_for(lambda: len(stream.delivered()) >= stream.total() or run.ended, what="the last event")


def _feed(stream: Stream, done: threading.Event) -> None:
    while not done.wait(0.02):
        stream.write()


def publish(path: Path, text: str) -> None:
    """Replace a file as an editor does."""
    path.parent.mkdir(exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_text(text)
    draft.rename(path)


def own(name: str, where: str = "process = 'sh'") -> str:
    return f'{{name: {name}, where: "{where}"}}\n'
