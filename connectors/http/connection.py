"""One server and the connection to it, which is kept alive.

On the standard library's `http.client`: a worker asks one server at a time and waits for its answer, so a pool, retries and
redirects, which other clients add, would only be switched off, and nothing has to be installed.
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

from connectors.deadline import DeadlineSocket
from connectors.http.access import Access
from connectors.http.urls import parsed
from connectors.tls import ClientTls
from etl.api import ComponentError, cut

CONNECT_SECONDS = 10.0
"""How long a server may take to accept a connection."""

MOST_ERROR_BYTES = 1 << 16
"""Bytes that are read of an answer that is an error, whatever the limit: enough for its reason."""

GZIP_LEVEL = 1


class AnswerTooLargeError(ComponentError):
    """An answer has more bytes than `Access.max_bytes`. Not all of it was read: nothing of it, where it says its length."""

    def __init__(self, server: str, length: int | None, max_bytes: int) -> None:
        self.length = "" if length is None else f"{length:,} bytes, "
        self.server = server
        super().__init__(
            f"{server} answers with {self.length}more than the {max_bytes:,} bytes that are read; ask for less at a time"
        )


class Answer(NamedTuple):
    """What a server said."""

    place: str
    """Which, for messages."""

    status: int
    headers: Mapping[str, str]
    """By name in lower case."""

    body: bytes

    def excerpt(self, length: int = 300) -> str:
        """The beginning of the body on one line, for messages."""
        text = " ".join(self.body[: 4 * length].decode(errors="replace").split())
        text = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
        return cut(text, length)

    def reason(self, length: int = 300) -> str:
        """Why, for messages: how the body begins, else what the status means, or where a redirect leads."""
        if 300 <= self.status < 400 and "location" in self.headers:
            location = urljoin(f"{self.place}/", self.headers["location"])
            return f"it leads to {cut(location, length)!r}, and redirects are not followed"
        return self.excerpt(length) or responses.get(self.status, "nothing more")

    def said(self, length: int = 300) -> str:
        """Who answered what, and why, for messages."""
        return f"{self.place} answers {self.status}: {self.reason(length)}"


class Connection:
    """Speaks with one server; connects when it must. Errors are OSErrors that name the server, or ComponentErrors."""

    def __init__(self, url: str, access: Access) -> None:
        self.place = parsed(url)
        self._timeout, self._tls = access.timeout, access.tls
        self._compressed, self._max_bytes = access.compressed, access.max_bytes
        self._http: HTTPConnection | None = None
        self._socket: DeadlineSocket | None = None

    def connect(self) -> None:
        """Be connected: a kept connection that the server has closed is made again."""
        if self._http is not None and not _is_over(self._http):
            return
        self.close()
        http = self._new()
        try:
            http.connect()
        except ssl.SSLCertVerificationError as error:
            raise ComponentError(
                f"{self.place}: the server's certificate does not do: {error.verify_message}; see tls.authority and tls.verify"
            ) from error
        except (TimeoutError, ssl.SSLEOFError, ConnectionError) as error:
            raise ConnectionError(f"{self.place}: {_cause(error)}") from error
        except ssl.SSLError as error:
            raise ComponentError(
                f"{self.place}: no TLS connection: {error.reason or error}; is it https, and does it want a certificate?"
            ) from error
        except OSError as error:
            raise ConnectionError(f"{self.place}: {_cause(error)}") from error
        self._socket = DeadlineSocket(http.sock)
        http.sock = self._socket
        self._http = http

    def exchange(self, method: str, path: str, body: bytes | memoryview | None, headers: Mapping[str, str]) -> Answer:
        """On a connection: a request, and its answer whatever its status, both within the timeout."""
        assert self._http is not None
        assert self._socket is not None
        self._socket.set_deadline(self._timeout)
        sent = dict(headers)
        if self._compressed:
            sent["Accept-Encoding"] = "gzip"
            if body is not None:
                body, sent["Content-Encoding"] = gzip.compress(body, GZIP_LEVEL, mtime=0), "gzip"
        try:
            answered = self._send(self._http, method, self.place.path + path if path else self.place.target, body, sent)
            return self._read(answered)
        except (OSError, HTTPException, zlib.error) as error:
            self.close()
            if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
                raise ComponentError(f"{self.place}: the server ends TLS: {error.reason}; see tls.certificate") from error
            raise ConnectionError(f"{self.place}: {_cause(error, self.place.scheme, self._timeout)}") from error

    def close(self) -> None:
        """Be connected no more."""
        if self._http is not None:
            self._http.close()
            self._http = None
        if self._socket is not None:
            self._socket.abort()
            self._socket = None

    def _new(self) -> HTTPConnection:
        host, port = self.place.host, self.place.port
        timeout = min(CONNECT_SECONDS, self._timeout)
        if self.place.scheme == "http":
            return HTTPConnection(host, port, timeout=timeout)
        return HTTPSConnection(host, port, timeout=timeout, context=(self._tls or ClientTls()).context())

    def _send(
        self, http: HTTPConnection, method: str, path: str, body: bytes | memoryview | None, headers: dict[str, str]
    ) -> HTTPResponse:
        try:
            http.request(method, path or "/", body, headers)
        except (BrokenPipeError, ConnectionResetError):  # it may have answered before it had read all, such as with 413
            answered = http.getresponse()
            answered.will_close = True
            return answered
        return http.getresponse()

    def _read(self, answered: HTTPResponse) -> Answer:
        headers = {name.lower(): value for name, value in answered.headers.items()}
        is_error = answered.status >= 300
        most = max(self._max_bytes, MOST_ERROR_BYTES) if is_error else self._max_bytes
        if not is_error and (length := answered.length) is not None and length > most:
            self._refuse_length(length)
        body = answered.read(most + 1)
        if len(body) <= most and answered.length:
            raise IncompleteRead(body, answered.length)
        if headers.get("content-encoding") == "gzip":
            body = zlib.decompressobj(wbits=31).decompress(body, most + 1)
        if len(body) > most and not is_error:
            self._refuse_length(None)
        if answered.will_close or len(body) > most:
            self.close()
        return Answer(str(self.place), answered.status, headers, body[:most])

    def _refuse_length(self, length: int | None) -> None:
        """The rest of the answer is not read, so the connection cannot be used again."""
        self.close()
        raise AnswerTooLargeError(str(self.place), length, self._max_bytes)


def _is_over(http: HTTPConnection) -> bool:
    """True when the other side has closed, or said something that nobody asked for."""
    if http.sock is None:
        return True
    poll = select.poll()
    poll.register(http.sock, select.POLLIN)
    return bool(poll.poll(0))


def _cause(error: Exception, scheme: str = "", timeout: float = 0.0) -> str:
    match error:
        case TimeoutError():
            return f"no whole answer in time, within {timeout:g} s" if timeout else "no answer in time"
        case RemoteDisconnected():
            return "it closed the connection without an answer" + ("; is it https?" if scheme == "http" else "")
        case IncompleteRead():
            return "it closed the connection in the middle of an answer"
        case HTTPException():
            return "what it answers is no HTTP"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
