"""The ASGI application of the receiver: reads requests within limits, stores their events, and answers when they are stored.

Nothing of a request that is refused is stored, so its sender can send it again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl

from connectors.http.receiving.requests import AcceptedEvents, Reply, Request, RequestError, RequestProtocol
from connectors.http.receiving.tokens import Tokens
from connectors.shared.journal.event_blocks import Sender
from connectors.shared.journal.group_commit import JOURNAL_FULL, TOO_LARGE, GroupCommit
from connectors.shared.receiving.decompression import DecompressionError, decompress, too_large
from connectors.shared.receiving.receive_counters import ReceiveCounters

RETRY_SECONDS = 5
"""Header Retry-After of a request that is refused because the journal or the disk is full."""

MAX_BUFFERED_BYTES = 256 << 20
"""Bytes of bodies, decompressed ones and replies in memory, over all connections; beyond that requests are refused and their
senders wait."""

_INLINE_BYTES = 16 << 10
"""Bodies up to this size are processed in the thread of the server: a change of threads costs more."""

_PARSING_THREADS = 2
_MAX_QUERY_BYTES = 4096

log = logging.getLogger("sluice.source.http")

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits of a request."""

    max_body_bytes: int
    seconds: float
    """How long its body may take to arrive."""


class ReceiverApp:
    """Answers requests of one protocol."""

    def __init__(
        self, protocol: RequestProtocol, tokens: Tokens, limits: RequestLimits, commits: GroupCommit, counters: ReceiveCounters
    ) -> None:
        self._protocol, self._tokens, self._limits = protocol, tokens, limits
        self._commits, self._counters = commits, counters
        self._buffered_bytes, self._lock = 0, threading.Lock()
        self._threads = ThreadPoolExecutor(_PARSING_THREADS, thread_name_prefix="http-parse")

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request."""
        request = _head_of(scope)
        try:
            reply = await self._reply(request, scope.get("client"), receive)
        except RequestError as error:
            self._counters.count(_COUNTERS.get(error.status, "refused"))
            reply = _with_refusal_headers(self._protocol.refuse(request, error), error)
        except DecompressionError as error:
            refusal = RequestError(error.status, error.message)
            self._counters.count(_COUNTERS.get(error.status, "refused"))
            reply = _with_refusal_headers(self._protocol.refuse(request, refusal), refusal)
        except ConnectionError:
            return  # the sender has gone, and sends its events again
        except Exception:
            log.exception("http: a request could not be processed; its sender has to send it again")
            failure = RequestError(500, "the request could not be processed")
            reply = _with_refusal_headers(self._protocol.refuse(request, failure), failure)
        await _send_reply(send, reply, self._protocol.headers, request.method == "HEAD")

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()

    async def _reply(self, request: Request, client: tuple[str, int] | None, receive: Receive) -> Reply:
        if request.path not in self._protocol.needs_no_token:
            self._tokens.check(request)
        if problem := self._commits.problem:
            raise _refused_for_now(problem)
        buffered = _BodyBuffer(self)
        try:
            async with asyncio.timeout(self._limits.seconds):
                body = await buffered.read(receive, request.headers.get("content-length", ""))
            answer = await self._process(request._replace(body=body), buffered)
            return answer if isinstance(answer, Reply) else await self._store(answer, client)
        except TimeoutError:
            raise RequestError(408, f"the body did not arrive within {self._limits.seconds:g} s (timeout)") from None
        finally:
            buffered.release()

    async def _process(self, request: Request, buffered: _BodyBuffer) -> Reply | AcceptedEvents:
        """Decompress and parse a body; a large one in another thread, so that other requests go on."""
        if len(request.body) <= _INLINE_BYTES and "content-encoding" not in request.headers:
            return self._answer(request, buffered)
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._decompress_and_answer, request, buffered)

    def _decompress_and_answer(self, request: Request, buffered: _BodyBuffer) -> Reply | AcceptedEvents:
        encodings = request.headers.get("content-encoding", "")
        body = decompress(request.body, encodings, self._limits.max_body_bytes)
        if body is not request.body:
            buffered.add(len(body))
        return self._answer(request._replace(body=body), buffered)

    def _answer(self, request: Request, buffered: _BodyBuffer) -> Reply | AcceptedEvents:
        answer = self._protocol.answer(request)
        if isinstance(answer, AcceptedEvents):
            is_own = answer.frames.data is not request.body
            buffered.add(len(answer.reply.body) + (len(answer.frames.data) if is_own else 0))
        return answer

    async def _store(self, events: AcceptedEvents, client: tuple[str, int] | None) -> Reply:
        loop = asyncio.get_running_loop()
        stored: asyncio.Future[str] = loop.create_future()

        def on_commit(problem: str) -> None:
            loop.call_soon_threadsafe(_set_result, stored, problem)

        peer = Sender.from_socket_name(*client[:2]) if client else Sender("")
        senders = [Sender(peer.address, peer.port, context, self._protocol.form) for context in events.contexts]
        self._commits.add(events.frames, senders, events.context_of_row, on_commit)
        if problem := await stored:
            if problem == TOO_LARGE:
                raise RequestError(413, problem)
            raise _refused_for_now(problem)
        return events.reply

    def buffer(self, size: int, own: int) -> None:
        """Count bytes of a request that has ``own`` already, in any thread. Raises RequestError if there are too many in memory,
        unless they are of this request alone, which would never be accepted."""
        with self._lock:
            if size > 0 and self._buffered_bytes + size > MAX_BUFFERED_BYTES and self._buffered_bytes > own:
                raise _refused_for_now("too many requests at the same time")
            self._buffered_bytes += size

    def max_body_bytes(self) -> int:
        """Return the maximum bytes of a body."""
        return self._limits.max_body_bytes


class _BodyBuffer:
    """Counts the bytes of a request in memory: its body, what becomes of it, and the reply."""

    def __init__(self, app: ReceiverApp) -> None:
        self._app, self._size = app, 0

    async def read(self, receive: Receive, announced: str) -> bytes:
        """Return the body."""
        max_bytes = self._app.max_body_bytes()
        if announced.isdigit() and int(announced) > max_bytes:
            raise too_large(max_bytes)
        parts: list[bytes] = []
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ConnectionError
            part = message.get("body", b"")
            self.add(len(part))
            if self._size > max_bytes:
                raise too_large(max_bytes)
            parts.append(part)
            if not message.get("more_body"):
                return parts[0] if len(parts) == 1 else b"".join(parts)

    def add(self, size: int) -> None:
        """Count bytes. Raises RequestError if there are too many in memory."""
        self._app.buffer(size, self._size)
        self._size += size

    def release(self) -> None:
        """The body is not needed any more."""
        self._app.buffer(-self._size, self._size)


def _set_result(future: asyncio.Future[str], problem: str) -> None:
    if not future.done():  # the sender may have gone
        future.set_result(problem)


def _head_of(scope: dict[str, Any]) -> Request:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    query = dict(parse_qsl(scope["query_string"][:_MAX_QUERY_BYTES].decode("latin-1"), keep_blank_values=True))
    return Request(scope["method"], scope["path"], query, headers)


def _refused_for_now(problem: str) -> RequestError:
    return RequestError(429 if problem == JOURNAL_FULL else 503, f"{problem}; try again later")


def _with_refusal_headers(reply: Reply, error: RequestError) -> Reply:
    """Return the reply with Retry-After where waiting helps. The connection ends where the rest of the body is not read."""
    headers = dict(reply.headers)
    if error.status in (429, 503):
        headers["retry-after"] = str(RETRY_SECONDS)
    if error.status in (401, 403, 408, 413, 429, 503):
        headers["connection"] = "close"
    return replace(reply, headers=headers)


async def _send_reply(send: Send, reply: Reply, common: Any, is_head: bool) -> None:
    headers = {**common, **reply.headers, "content-length": str(len(reply.body))}
    if reply.body:
        headers["content-type"] = reply.content_type
    if reply.status == 204:
        del headers["content-length"]
    encoded = [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": reply.status, "headers": encoded})
    await send({"type": "http.response.body", "body": b"" if is_head else reply.body})


_COUNTERS = {401: "no-token", 403: "no-token", 413: "too-large", 408: "slow", 429: "journal-full", 503: "unavailable"}
