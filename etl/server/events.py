"""Server-sent events: what has changed since the last second, encoded once for all viewers."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from etl.server.requests import error_response

MEDIA_TYPE = "text/event-stream"

log = logging.getLogger("sluice.server")

EVERY_SECONDS = 1.0
"""Seconds between two looks at the pipelines, as long as somebody views; more of many."""

VIEWERS_PER_SECOND = 20
"""Viewers that get new counters in one second; a new status is sent to all at once."""

MAX_VIEWERS = 200
"""Viewers at the same time."""

MAX_UNREAD_BYTES = 1 << 20
"""Bytes that wait for a viewer; one that is slower is disconnected, and its browser connects again."""

PING_SECONDS = 15.0
"""Seconds after which viewers without events get a comment, so that proxies keep the connection."""


class ViewerConnection(Protocol):
    """The connection of a viewer, on which an answer has begun."""

    @property
    def transport(self) -> asyncio.Transport:
        """Takes bytes for the client."""


class Events:
    """Gives each viewer first the status of all pipelines, then of those whose status has changed; and the refused files.

    ``statuses``: name → status of each pipeline, as plain values without secrets; called in a thread. ``refused_files``: file of
    the folder that is not a pipeline → reason, without secrets.
    """

    def __init__(self, statuses: Callable[[], Mapping[str, Any]], refused_files: Callable[[], Mapping[str, str]] = dict) -> None:
        self._statuses, self._refused_files = statuses, refused_files
        self._viewers: set[_Viewer] = set()
        self._last: dict[str, str] = {}
        self._last_refused = ""
        """The refused files as they were sent last; empty before."""
        self._wake: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._sent_at = 0.0

    @property
    def viewers(self) -> int:
        """How many clients follow the events."""
        return len(self._viewers)

    def changed(self) -> None:
        """Look at the pipelines now; callable from any thread."""
        loop, wake = self._loop, self._wake
        if loop is not None and wake is not None:
            with suppress(RuntimeError):  # the server ends
                loop.call_soon_threadsafe(wake.set)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request with the stream, as an ASGI application, until its client leaves or the server ends."""
        is_full = len(self._viewers) >= MAX_VIEWERS
        if is_full or scope["method"] == "HEAD":
            await (_refuse_viewer() if is_full else Response(media_type=MEDIA_TYPE))(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", MEDIA_TYPE.encode())]})
        self._begin()
        viewer = _Viewer(scope["state"]["connection"], is_chunked=scope["http_version"] >= "1.1")
        refused = _encode("refused_files", self._last_refused) if self._last_refused else b""
        known = b"".join(_encode("pipeline", text) for text in self._last.values())
        viewer.write(_Frame(b"retry: 2000\n\n" + refused + known))
        self._viewers.add(viewer)
        try:
            await _await_first(viewer.ends.wait(), _await_disconnect(receive))
        finally:
            self._viewers.discard(viewer)
        await send({"type": "http.response.body"})

    def end(self) -> None:
        """End all streams; callable from any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._end_all)

    def _begin(self) -> None:
        """Look at the pipelines from now on, for the first viewer."""
        if self._task is None or self._task.done():
            self._loop, self._wake = asyncio.get_running_loop(), asyncio.Event()
            self._last, self._last_refused, self._sent_at = {}, "", time.monotonic()
            self._task = asyncio.create_task(self._work())

    def _end_all(self) -> None:
        for viewer in self._viewers:
            viewer.ends.set()

    async def _work(self) -> None:
        """Look at the pipelines as long as there are viewers. An error ends their streams, and browsers connect again."""
        assert self._wake is not None
        try:
            while self._viewers:
                self._wake.clear()
                self._send(await asyncio.to_thread(self._statuses))
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), max(EVERY_SECONDS, len(self._viewers) / VIEWERS_PER_SECOND))
                    await asyncio.sleep(EVERY_SECONDS / 10)  # several changes come together
        except Exception:
            log.exception("the status of the pipelines cannot be read for those who follow the events")
        finally:
            self._end_all()

    def _send(self, statuses: Mapping[str, Any]) -> None:
        texts = {name: json.dumps(status) for name, status in statuses.items()}
        events = [_encode("pipeline", text) for name, text in texts.items() if self._last.get(name) != text]
        events += [_encode("removed", json.dumps({"name": name})) for name in self._last.keys() - texts.keys()]
        self._last = texts
        refused = json.dumps(self._refused_files())
        if refused != self._last_refused:
            events.append(_encode("refused_files", refused))
            self._last_refused = refused
        now = time.monotonic()
        if not events and now - self._sent_at >= PING_SECONDS:
            events = [b": ping\n\n"]
        if events:
            self._sent_at = now
            frame = _Frame(b"".join(events))
            for viewer in self._viewers:
                viewer.write(frame)


class _Frame:
    """Events as the bytes that go to all viewers."""

    def __init__(self, plain: bytes) -> None:
        self.plain = plain
        self.chunk = b"%x\r\n%b\r\n" % (len(plain), plain)


@dataclass(eq=False)
class _Viewer:
    """An answer whose head is sent and that does not end. Its frames are written past the HTTP server, which would wake a task
    and frame them again for each viewer."""

    connection: ViewerConnection
    is_chunked: bool
    ends: asyncio.Event = field(default_factory=asyncio.Event)

    def write(self, frame: _Frame) -> None:
        """Write a frame, or disconnect a client that does not read."""
        transport = self.connection.transport
        if transport.is_closing():
            return
        if transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            transport.abort()
        else:
            transport.write(frame.chunk if self.is_chunked else frame.plain)


async def _await_disconnect(receive: Receive) -> None:
    """Wait until the client leaves."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _await_first(*waiting: Coroutine[Any, Any, Any]) -> None:
    """Wait for one of them, also for its error, and cancel the others."""
    tasks = [asyncio.ensure_future(one) for one in waiting]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.exception()  # of a body that does not come; asyncio would log it
    finally:
        for task in tasks:
            task.cancel()


def _refuse_viewer() -> Response:
    message = "too many clients follow the events; try later"
    return error_response(HTTPStatus.SERVICE_UNAVAILABLE, "too-many-viewers", message)


def _encode(event: str, data: str) -> bytes:
    return f"event: {event}\ndata: {data}\n\n".encode("utf-8", "replace")
