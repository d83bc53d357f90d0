"""A connection to one server, kept alive.

Uses the standard library's `http.client`: a worker sends one request at a time and waits for its response, so the pools,
retries and redirects of other clients would only be switched off, and no package is needed.
"""

from __future__ import annotations

import gzip
import select
import ssl
import zlib
from collections.abc import Mapping
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
    RemoteDisconnected,
    responses,
)
from typing import NamedTuple
from urllib.parse import urljoin

from connectors.http.connection_settings import ConnectionSettings
from connectors.http.urls import parse_url
from connectors.shared.deadline import DeadlineSocket
from connectors.shared.tls import ClientTls
from etl.api import ComponentError, cut

CONNECT_SECONDS = 10.0
"""How long connecting may take."""

MAX_ERROR_BYTES = 1 << 16
"""Bytes that are read of an error response, whatever the limit: enough for its reason."""

GZIP_LEVEL = 1


class ResponseTooLargeError(ComponentError):
    """A response is larger than `ConnectionSettings.max_bytes`. It was not read completely; not at all if it declares its
    length.
    """

    def __init__(self, server: str, length: int | None, max_bytes: int) -> None:
        self.length = "" if length is None else f"{length:,} bytes, "
        self.server = server
        super().__init__(
            f"{server} responds with {self.length}more than the limit of {max_bytes:,} bytes; request less at a time"
        )


class Response(NamedTuple):
    """Response of a server."""

    server: str
    """Scheme, host and port, for messages."""

    status: int
    headers: Mapping[str, str]
    """Values by name in lower case."""

    body: bytes

    def excerpt(self, length: int = 300) -> str:
        """Return the beginning of the body on one line, for messages."""
        text = " ".join(self.body[: 4 * length].decode(errors="replace").split())
        text = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
        return cut(text, length)

    def reason(self, length: int = 300) -> str:
        """Return the reason for messages: the beginning of the body, else the meaning of the status, or the target of a
        redirect.
        """
        if 300 <= self.status < 400 and "location" in self.headers:
            location = urljoin(f"{self.server}/", self.headers["location"])
            return f"it redirects to {cut(location, length)!r}, and redirects are not followed"
        return self.excerpt(length) or responses.get(self.status, "no reason given")

    def describe(self, length: int = 300) -> str:
        """Return server, status and reason, for messages."""
        return f"{self.server} answers {self.status}: {self.reason(length)}"


class Connection:
    """Connection to one server, opened on demand. Errors are OSErrors that name the server, or ComponentErrors."""

    def __init__(self, url: str, settings: ConnectionSettings) -> None:
        self.server = parse_url(url)
        self._timeout, self._tls = settings.timeout, settings.tls
        self._compressed, self._max_bytes = settings.compressed, settings.max_bytes
        self._http: HTTPConnection | None = None
        self._socket: DeadlineSocket | None = None

    def connect(self) -> None:
        """Connect, or reconnect if the server has closed the connection."""
        if self._http is not None and not _is_closed(self._http):
            return
        self.close()
        http = self._create()
        try:
            http.connect()
        except ssl.SSLCertVerificationError as error:
            raise ComponentError(
                f"{self.server}: the server's certificate is not accepted: {error.verify_message}; "
                "see tls.authority and tls.verify"
            ) from error
        except (TimeoutError, ssl.SSLEOFError, ConnectionError) as error:
            raise ConnectionError(f"{self.server}: {_cause(error)}") from error
        except ssl.SSLError as error:
            raise ComponentError(
                f"{self.server}: no TLS connection: {error.reason or error}; "
                "check that the port uses https, and whether it requires a client certificate"
            ) from error
        except OSError as error:
            raise ConnectionError(f"{self.server}: {_cause(error)}") from error
        self._socket = DeadlineSocket(http.sock)
        http.sock = self._socket
        self._http = http

    def send_request(self, method: str, path: str, body: bytes | memoryview | None, headers: Mapping[str, str]) -> Response:
        """Send a request and return its response, whatever its status, within the timeout."""
        assert self._http is not None
        assert self._socket is not None
        self._socket.set_deadline(self._timeout)
        request_headers = dict(headers)
        if self._compressed:
            request_headers["Accept-Encoding"] = "gzip"
            if body is not None:
                body, request_headers["Content-Encoding"] = gzip.compress(body, GZIP_LEVEL, mtime=0), "gzip"
        try:
            http_response = self._send(
                self._http, method, self.server.path + path if path else self.server.target, body, request_headers
            )
            return self._read(http_response)
        except (OSError, HTTPException, zlib.error) as error:
            self.close()
            if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
                raise ComponentError(f"{self.server}: the server ends TLS: {error.reason}; see tls.certificate") from error
            raise ConnectionError(f"{self.server}: {_cause(error, self.server.scheme, self._timeout)}") from error

    def close(self) -> None:
        """Close the connection."""
        if self._http is not None:
            self._http.close()
            self._http = None
        if self._socket is not None:
            self._socket.abort()
            self._socket = None

    def _create(self) -> HTTPConnection:
        host, port = self.server.host, self.server.port
        timeout = min(CONNECT_SECONDS, self._timeout)
        if self.server.scheme == "http":
            return HTTPConnection(host, port, timeout=timeout)
        return HTTPSConnection(host, port, timeout=timeout, context=(self._tls or ClientTls()).context())

    def _send(
        self, http: HTTPConnection, method: str, path: str, body: bytes | memoryview | None, headers: dict[str, str]
    ) -> HTTPResponse:
        try:
            http.request(method, path or "/", body, headers)
        except (
            BrokenPipeError,
            ConnectionResetError,
        ):  # the server may have responded before reading the whole body, for example with 413
            http_response = http.getresponse()
            http_response.will_close = True
            return http_response
        return http.getresponse()

    def _read(self, http_response: HTTPResponse) -> Response:
        headers = {name.lower(): value for name, value in http_response.headers.items()}
        is_error = http_response.status >= 300
        max_bytes = max(self._max_bytes, MAX_ERROR_BYTES) if is_error else self._max_bytes
        if not is_error and (length := http_response.length) is not None and length > max_bytes:
            self._raise_too_large(length)
        body = http_response.read(max_bytes + 1)
        if len(body) <= max_bytes and http_response.length:
            raise IncompleteRead(body, http_response.length)
        if headers.get("content-encoding") == "gzip":
            body = zlib.decompressobj(wbits=31).decompress(body, max_bytes + 1)
        if len(body) > max_bytes and not is_error:
            self._raise_too_large(None)
        if http_response.will_close or len(body) > max_bytes:
            self.close()
        return Response(str(self.server), http_response.status, headers, body[:max_bytes])

    def _raise_too_large(self, length: int | None) -> None:
        """Close the connection, because the rest of the response is not read, and raise."""
        self.close()
        raise ResponseTooLargeError(str(self.server), length, self._max_bytes)


def _is_closed(http: HTTPConnection) -> bool:
    """Return True if the server has closed the connection, or sent unrequested data."""
    if http.sock is None:
        return True
    poll = select.poll()
    poll.register(http.sock, select.POLLIN)
    return bool(poll.poll(0))


def _cause(error: Exception, scheme: str = "", timeout: float = 0.0) -> str:
    match error:
        case TimeoutError():
            return f"no complete response within {timeout:g} s" if timeout else "no response in time"
        case RemoteDisconnected():
            return "it closed the connection without a response" + ("; is it https?" if scheme == "http" else "")
        case IncompleteRead():
            return "it closed the connection within a response"
        case HTTPException():
            return "its response is not HTTP"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
