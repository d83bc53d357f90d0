"""Server-sent events: what has changed since the last second, encoded once for all viewers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any

EVERY_SECONDS = 1.0
"""Seconds between two looks at the pipelines, as long as somebody views; more of many."""

VIEWERS_PER_SECOND = 20
"""Viewers who are told of new counters in a second; of a new status all are told at once."""

MAX_VIEWERS = 200
"""Viewers at the same time."""

MAX_WAITING = 64
"""Events that wait for a viewer; one that is slower is disconnected, and its browser connects again."""

PING_SECONDS = 15.0
"""Seconds after which a viewer without events gets a comment, so that proxies keep the connection."""


class TooManyViewersError(Exception):
    """There are `MAX_VIEWERS` already."""


class Events:
    """Gives each viewer first the status of all pipelines, then of those whose status has changed.

    ``statuses``: name → status of each pipeline, as plain values without secrets; called in a thread.
    """

    def __init__(self, statuses: Callable[[], Mapping[str, Any]]) -> None:
        self._statuses = statuses
        self._viewers: set[asyncio.Queue[bytes | None]] = set()
        self._last: dict[str, str] = {}
        self._wake: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    def changed(self) -> None:
        """Look at the pipelines now; callable from any thread."""
        loop, wake = self._loop, self._wake
        if loop is not None and wake is not None:
            with suppress(RuntimeError):  # the server ends
                loop.call_soon_threadsafe(wake.set)

    async def view(self) -> AsyncIterator[bytes]:
        """The stream of one viewer. Raises TooManyViewersError."""
        if len(self._viewers) >= MAX_VIEWERS:
            raise TooManyViewersError
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(MAX_WAITING)
        first = [_encode("pipeline", text) for text in self._last.values()]
        self._viewers.add(queue)
        if self._task is None or self._task.done():
            self._loop, self._wake = asyncio.get_running_loop(), asyncio.Event()
            self._last, first = {}, []
            self._task = asyncio.create_task(self._work())
        try:
            yield b"retry: 2000\n\n" + b"".join(first)
            while True:
                try:
                    event = await asyncio.wait_for(queue.get(), PING_SECONDS)
                except TimeoutError:
                    event = b": ping\n\n"
                if event is None:
                    return
                yield event
        finally:
            self._viewers.discard(queue)

    def end(self) -> None:
        """End all streams; callable from any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._end_all)

    def _end_all(self) -> None:
        for queue in list(self._viewers):
            _end(queue)

    async def _work(self) -> None:
        """Look at the pipelines as long as there are viewers."""
        assert self._wake is not None
        while self._viewers:
            self._wake.clear()
            self._send(await asyncio.to_thread(self._statuses))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), max(EVERY_SECONDS, len(self._viewers) / VIEWERS_PER_SECOND))
                await asyncio.sleep(EVERY_SECONDS / 10)  # several changes come together

    def _send(self, statuses: Mapping[str, Any]) -> None:
        texts = {name: json.dumps(status) for name, status in statuses.items()}
        events = [_encode("pipeline", text) for name, text in texts.items() if self._last.get(name) != text]
        events += [_encode("removed", json.dumps({"name": name})) for name in self._last.keys() - texts.keys()]
        self._last = texts
        if events:
            for queue in list(self._viewers):
                try:
                    queue.put_nowait(b"".join(events))
                except asyncio.QueueFull:
                    self._viewers.discard(queue)
                    _end(queue)


def _end(queue: asyncio.Queue[bytes | None]) -> None:
    """Let the viewer's stream end."""
    while not queue.empty():
        queue.get_nowait()
    queue.put_nowait(None)


def _encode(event: str, data: str) -> bytes:
    return f"event: {event}\ndata: {data}\n\n".encode("utf-8", "replace")
