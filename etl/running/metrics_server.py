"""What monitoring asks a run over HTTP: ``/metrics`` for Prometheus, ``/health`` and ``/ready`` for whoever starts and stops it.

Three documents that only read, with numbers, names and messages of failures: the standard library's server is enough, with a
limit on connections and on the time that each may take.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET6, SHUT_RDWR, socket
from typing import Any, NamedTuple

from etl.api import EtlError
from etl.running.metrics import Sample, samples, text_lines
from etl.running.process_memory import resident_bytes
from etl.running.supervision import SupervisedRun

MAX_CONNECTIONS = 32
"""Connections at the same time; a further one takes the place of that which has sent no request for longest."""

ROOM_SECONDS = 0.5
"""Seconds in which a connection that gives way has to end."""

POLL_SECONDS = 0.1
"""Seconds after which the end of a run is seen, at most."""

CONNECTION_SECONDS = 10.0
"""Seconds that a client may take for its request and to read the answer."""

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The content type of Prometheus' text format."""


class ListenAddress(NamedTuple):
    """Where to listen; without a host on loopback only."""

    host: str
    port: int

    @staticmethod
    def parse(text: str) -> ListenAddress:
        """``9464``, ``:9464``, ``0.0.0.0:9464`` or ``[::1]:9464``. Raises ValueError."""
        host, _, port = text.rpartition(":")
        if not (port.isascii() and port.isdigit()) or int(port) > 0xFFFF:
            raise ValueError(f"{text!r} is not an address: write a port such as 9464, or host:port")
        return ListenAddress(host.strip("[]") or "127.0.0.1", int(port))


@contextmanager
def metrics_server(address: ListenAddress, runs: Sequence[SupervisedRun]) -> Iterator[ListenAddress]:
    """Answer requests while the body runs; gives the address with its port. Raises EtlError if it cannot listen there."""
    try:
        server = _Server(address, runs)
    except OSError as error:
        raise EtlError(f"cannot listen at {address.host}:{address.port} (--listen): {error.strerror or error}") from error
    thread = threading.Thread(target=server.serve_forever, args=(POLL_SECONDS,), name="metrics", daemon=True)
    thread.start()
    try:
        yield ListenAddress(address.host, server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: ListenAddress, runs: Sequence[SupervisedRun]) -> None:
        if ":" in address.host:
            self.address_family = AF_INET6
        self.runs = runs
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._waiting: dict[Any, None] = {}
        """Connections that have sent no request, the one that has waited longest first."""
        super().__init__((address.host, address.port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._find_room():
            self._waiting[request] = None
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def _find_room(self) -> bool:
        """Whether a connection may be open; ends another one for it if need be."""
        if self._free.acquire(blocking=False):
            return True
        longest = next(iter(list(self._waiting)), None)
        if longest is not None:
            self.has_request(longest)  # it is ended once
            _hang_up(longest)
        return self._free.acquire(timeout=ROOM_SECONDS)

    def has_request(self, request: Any) -> None:
        """A connection waits no longer."""
        self._waiting.pop(request, None)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        timer = threading.Timer(CONNECTION_SECONDS, _hang_up, [request])
        timer.daemon = True
        timer.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            timer.cancel()
            self.has_request(request)
            self._free.release()

    def handle_error(self, request: socket | tuple[bytes, socket], client_address: Any) -> None:
        """Do nothing: a client has gone, or was too slow."""


def _hang_up(request: socket) -> None:
    """End a connection whose time is over."""
    with suppress(OSError):
        request.shutdown(SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "sluice"
    sys_version = ""
    timeout = CONNECTION_SECONDS

    def do_GET(self) -> None:
        self.server.has_request(self.connection)
        document = _DOCUMENTS.get(self.path.partition("?")[0])
        if document is None:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", f"there are {', '.join(_DOCUMENTS)}\n")
        else:
            self._answer(*document(self.server.runs))

    def _answer(self, status: HTTPStatus, type_: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", type_)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing for each request."""


def _metrics(runs: Sequence[SupervisedRun]) -> tuple[HTTPStatus, str, str]:
    return HTTPStatus.OK, METRICS_TYPE, "".join(f"{line}\n" for line in text_lines(all_samples(runs)))


def all_samples(runs: Sequence[SupervisedRun]) -> Iterator[Sample]:
    """The samples of all pipelines and of the processes."""
    for one in runs:
        yield from _samples(one)
    yield from memory_samples()


def memory_samples() -> Iterator[Sample]:
    """The memory of the processes."""
    for name, size in resident_bytes().items():
        yield Sample("sluice_process_resident_bytes", {"process": name}, size)


def _samples(one: SupervisedRun) -> Iterator[Sample]:
    yield Sample("sluice_up", {"pipeline": one.name}, float(one.status == "running"))
    yield Sample("sluice_restarts_total", {"pipeline": one.name}, one.failures)
    yield from samples(one.name, one.run.totals)


def _health(runs: Sequence[SupervisedRun]) -> tuple[HTTPStatus, str, str]:
    """503 while a pipeline waits to start again after a failure, hangs, or has failed for good."""
    return _states(runs, lambda one: one.status not in ("waiting", "failed") and not one.hanging)


def _ready(runs: Sequence[SupervisedRun]) -> tuple[HTTPStatus, str, str]:
    """503 until all pipelines run."""
    return _states(runs, lambda one: one.status in ("running", "ended"))


def _states(runs: Sequence[SupervisedRun], is_good: Callable[[SupervisedRun], bool]) -> tuple[HTTPStatus, str, str]:
    states: Mapping[str, Any] = {
        one.name: {"status": one.status, **({"error": one.problem} if one.problem else {}), "restarts": one.failures}
        for one in runs
    }
    status = HTTPStatus.OK if all(map(is_good, runs)) else HTTPStatus.SERVICE_UNAVAILABLE
    return status, "application/json", json.dumps({"pipelines": states}) + "\n"


_DOCUMENTS = {"/metrics": _metrics, "/health": _health, "/ready": _ready}
