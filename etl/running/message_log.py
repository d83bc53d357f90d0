"""The messages of runs in the state folder of their pipeline, for whoever was not there when they came."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from etl.running.messages import Message, OnMessage
from etl.spark.run import PipelineRun

MAX_BYTES = 1 << 20
"""Bytes after which a log becomes the earlier one; there is one earlier log."""

LONGEST_TEXT = 8192
"""Characters of a message that are stored."""


class MessageLog:
    """Appends messages to a file as JSON lines. What cannot be written, as on a full disk, is left out."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._last: int | None = None
        """The id of the last message, once it is known."""

    def append(self, message: Message) -> dict[str, Any]:
        """Write a message; returns it with its ``id``, which grows from message to message."""
        with self._lock:
            last = _last_id(self._path) if self._last is None else self._last
            self._last = max(last + 1, time.time_ns() // 1000)  # greater also after the clock was set back
            entry = {
                "id": self._last,
                "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "level": message.level,
                "event": message.event,
                "pipeline": message.pipeline,
                "message": message.text[:LONGEST_TEXT],
            }
            with suppress(OSError):
                self._write(json.dumps(entry).encode() + b"\n")
        return entry

    def _write(self, line: bytes) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            if self._path.stat().st_size > MAX_BYTES:
                os.replace(self._path, earlier(self._path))
        with open(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab", 0) as file:
            file.write(line)


class MessageLogs:
    """Hands the messages of runs on, and writes each to the log of its pipeline, or to all logs if it is about none.

    Runs that share a session read the messages of all workers: those of other pipelines are left out.
    """

    def __init__(self, runs: Sequence[PipelineRun], on_message: OnMessage) -> None:
        self._logs = {run.plan.pipeline: MessageLog(run.state.messages) for run in runs}
        self._on_message = on_message

    def __call__(self, message: Message) -> None:
        """Take a message."""
        if message.pipeline and message.pipeline not in self._logs:
            return
        for name, log in self._logs.items():
            if message.pipeline in ("", name):
                log.append(replace(message, pipeline=name))
        self._on_message(message)


def read_messages(path: Path, limit: int, after: int = 0) -> list[dict[str, Any]]:
    """The last messages of a log, oldest first, with ids greater than ``after``."""
    found = [entry for file in (earlier(path), path) for entry in _entries(file) if entry["id"] > after]
    return found[-limit:]


def earlier(path: Path) -> Path:
    """The log before this one."""
    return path.with_name(f"{path.stem}.1{path.suffix}")


def _last_id(path: Path) -> int:
    """The id of the last message of a log; 0 where none is found."""
    tail = 2 * LONGEST_TEXT
    with suppress(OSError), path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - tail))
        return max((entry["id"] for entry in _parsed(file)), default=0)
    return 0


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    """The messages of a file."""
    with suppress(OSError), path.open("rb") as file:
        yield from _parsed(file)


def _parsed(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The messages of lines; one that is cut off is left out."""
    for line in lines:
        with suppress(ValueError):
            entry = json.loads(line)
            if isinstance(entry, dict) and isinstance(entry.get("id"), int):
                yield entry
