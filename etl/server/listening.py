"""The HTTP server: uvicorn in a thread, with limits that hold off slow and idle clients, and TLS."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from etl.api import EtlError
from etl.limited_http import MAX_HEAD_BYTES, LimitedProtocol, StoppableServer
from etl.running.metrics_server import ListenAddress
from etl.server.access import HEALTH_PATHS, SECURITY_HEADERS
from etl.server.boards.shared_answers import SharedAnswers
from etl.server.boards.viewer_turns import MAX_PAUSE_SECONDS, POLL_AFTER
from etl.server.requests import JSON, error_response

_ANSWER_START = b"HTTP/1.1 200 OK\r\n" + b"".join(
    f"{name.lower()}: {value}\r\n".encode() for name, value in {"Content-Type": JSON, **SECURITY_HEADERS}.items()
)
"""The start of an answer that is given without the application."""


class ServerProtocol(LimitedProtocol):
    """The protocol of `etl serve`. Handlers find in ``request.state`` this object as ``connection``, and as ``head`` the bytes of
    the request, where they came as a whole and alone.
    """

    max_connections = 512
    spare_connections = 16
    head_seconds = 10.0
    idle_seconds = MAX_PAUSE_SECONDS + 15.0  # a viewer connects once, and not for each of its turns

    def connection_made(self, transport: Any) -> None:
        """Accept a connection."""
        self.app_state = {"connection": self}
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Process a part of a request."""
        super().data_received(data)
        self.app_state.pop("head", None)  # a request that came with others is processed later

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection, which may be that of a viewer."""
        super().connection_lost(exc)
        self._answers.turns.remove(self)

    def answer_at_once(self, data: bytes) -> bytes | None:
        """An answer that others have got just now, to a request that came before."""
        found = self._answers.find(data)
        if found is None:
            self.app_state["head"] = data
            return None
        request, text = found
        own = [*self.server_state.default_headers, (b"content-length", b"%d" % len(text))]
        own.append((POLL_AFTER.lower().encode(), b"%.2f" % self.pause(request.token)))
        return b"".join((_ANSWER_START, *(b"%b: %b\r\n" % header for header in own), b"\r\n", text))

    def pause(self, token: str) -> float:
        """The seconds until the next turn of this connection, which is a viewer with this token from now on; 0 if it is closed,
        which may happen while its answer is computed."""
        if self not in self.open_connections:
            return 0.0
        client = self.client[0] if self.client else "", token
        return self._answers.turns.pause(client, self)

    @property
    def _answers(self) -> SharedAnswers:
        app: Any = self.config.app
        answers: SharedAnswers = app.state.answers
        return answers

    def spare_app(self, app: Any) -> Any:
        """Health checks are answered however many clients there are; others have to come again."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http" and scope["path"] not in HEALTH_PATHS:
                message = f"{self.max_connections} connections are in use; try later"
                refusal = error_response(HTTPStatus.SERVICE_UNAVAILABLE, "too-many-connections", message)
                refusal.headers.update({"Connection": "close", "Retry-After": "1"})
                await refusal(scope, receive, send)
            else:
                await app(scope, receive, send)

        return answer


@dataclass(frozen=True)
class Tls:
    """The files of a certificate and its key."""

    certificate: Path
    key: Path


@contextmanager
def listening(app: Starlette, address: ListenAddress, tls: Tls | None = None) -> Iterator[ListenAddress]:
    """Answer requests while the body runs; gives the address with its port. Raises EtlError if it cannot listen there."""
    config = uvicorn.Config(
        app,
        host=address.host,
        port=address.port,
        http=ServerProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        ssl_certfile=str(tls.certificate) if tls else None,
        ssl_keyfile=str(tls.key) if tls else None,
    )
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # what clients do wrong would fill the log
    try:
        if tls is not None:
            _check_tls(tls)
        config.load()
        listener = _bind(address)
    except OSError as error:
        raise EtlError(f"cannot listen at {address.host}:{address.port} (--listen): {error.strerror or error}") from error
    server = StoppableServer(config)
    thread = threading.Thread(target=server.run, args=([listener],), name="http", daemon=True)
    thread.start()
    try:
        yield ListenAddress(address.host, listener.getsockname()[1])
    finally:
        app.state.events.end()
        server.stop()
        thread.join()
        listener.close()


def _check_tls(tls: Tls) -> None:
    """Raise EtlError unless the files are a certificate and its key. Without this check a key with a passphrase would make the
    library ask on the terminal."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.certificate, tls.key, password=_no_passphrase)
    except (OSError, ValueError) as error:
        reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        raise EtlError(f"cannot use {tls.certificate} and {tls.key} for TLS (--tls-cert, --tls-key): {reason}") from error


def _no_passphrase() -> str:
    raise ValueError("the key has a passphrase, which a server cannot be asked for; `openssl pkey -in KEY -out NEW` removes it")


def _bind(address: ListenAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    return socket.create_server((address.host, address.port), family=family, backlog=256)
