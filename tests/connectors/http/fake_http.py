"""A web server that records every request and responds as a test sets: slowly, with errors, incompletely, or not at all.

`FakeCluster` speaks the bulk API: it keeps documents by id, as Elasticsearch does.
"""

from __future__ import annotations

import gzip
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Request:
    """A request. ``body`` is decompressed; ``connection`` identifies the connection."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    sent: int
    """Bytes of the body before decompression."""
    connection: object

    @property
    def lines(self) -> list[Any]:
        """Return the body's lines as JSON."""
        return [json.loads(line) for line in self.body.splitlines()]


@dataclass
class Reply:
    """What is answered. ``wait`` is awaited before (an event that the test sets); ``cut`` closes after so many bytes;
    ``drip`` sends a byte of the body each so many seconds."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    wait: threading.Event | None = None
    cut: int | None = None
    drip: float = 0.0


Answering = Callable[[Request], Reply]


class FakeServer:
    """Responds with ``replies`` in their order, and then with ``answer``."""

    def __init__(self, answer: Answering = lambda request: Reply(), context: ssl.SSLContext | None = None) -> None:
        self.answer = answer
        self.replies: list[Reply | Answering] = []
        self.requests: list[Request] = []
        self._lock = threading.Lock()
        server = self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        server.daemon_threads = True
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients that leave early are what is tested
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        self.port = server.server_address[1]
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.port}"

    @contextmanager
    def running(self) -> Iterator[FakeServer]:
        """Serve in a thread."""
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def reply(self, request: Request) -> Reply:
        with self._lock:
            self.requests.append(request)
            planned = self.replies.pop(0) if self.replies else self.answer
        return planned(request) if callable(planned) else planned

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 120
            disable_nagle_algorithm = True

            def handle_any(self) -> None:
                sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                body = gzip.decompress(sent) if headers.get("content-encoding") == "gzip" else sent
                reply = fake.reply(Request(self.command, self.path, headers, body, len(sent), self.connection))
                if reply.wait is not None:
                    reply.wait.wait(120)
                self.answer(reply)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = handle_any  # noqa: N815

            def answer(self, reply: Reply) -> None:
                if reply.cut == 0:
                    self.close_connection = True
                    return
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                for byte in reply.body if reply.drip else b"":
                    self.wfile.write(bytes([byte]))
                    time.sleep(reply.drip)
                self.wfile.write(b"" if reply.drip else reply.body[: reply.cut])
                self.close_connection |= reply.cut is not None

            def log_message(self, *_: object) -> None:
                """Nothing."""

        return Handler


class FakeCluster(FakeServer):
    """The bulk API with a dict as storage. ``fate`` can set another status of a document: (status, type, reason)."""

    def __init__(self, **options: Any) -> None:
        super().__init__(self.bulk, **options)
        self.documents: dict[tuple[str, str], Any] = {}
        self.fate: Callable[[str, Any], tuple[int, str, str] | None] = lambda id_, document: None

    def bulk(self, request: Request) -> Reply:
        at = request.path.partition("/_bulk")[0].strip("/")
        assert request.body.endswith(b"\n")
        lines, items = iter(request.lines), list[dict[str, Any]]()
        for line in lines:
            [(action, meta)] = line.items()
            items.append(self._deleted(meta, at) if action == "delete" else self._done(action, meta, next(lines), at))
        errors = any("error" in result for item in items for result in item.values())
        return Reply(body=json.dumps({"errors": errors, "items": items}).encode())

    def _deleted(self, meta: Any, at: str) -> dict[str, Any]:
        found = self.documents.pop((meta.get("_index", at), meta["_id"]), None)
        return {"delete": {"status": 404 if found is None else 200}}

    def _done(self, action: str, meta: Any, document: Any, at: str) -> dict[str, Any]:
        key = (meta.get("_index", at), meta["_id"])
        found = self.fate(meta["_id"], document)
        if found is None and action == "create" and key in self.documents:
            found = (409, "version_conflict_engine_exception", "document already exists")
        if found is not None:
            status, type_, reason = found
            return {action: {"status": status, "error": {"type": type_, "reason": reason}}}
        doc = document["doc"] if action == "update" else document
        self.documents[key] = {**self.documents.get(key, {}), **doc} if action == "update" else doc
        return {action: {"status": 201}}
