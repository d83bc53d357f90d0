"""Requests of the client commands to a server: JSON over HTTP, with the standard library."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import IO, Any
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from etl.api import EtlError

TOKEN = "ETL_TOKEN"
"""The environment variable with the token: on the command line everyone on the machine could read it."""

SERVER = "ETL_SERVER"
"""The environment variable with the URL."""

MAX_ANSWER_BYTES = 64 << 20
"""Maximum bytes of an answer."""

SECONDS = 60.0
"""Seconds that a server may take to answer."""


class RefusedError(EtlError):
    """The server has refused a request; ``problems`` are those of a file."""

    def __init__(self, message: str, code: str, problems: list[dict[str, Any]]) -> None:
        super().__init__(message)
        self.code, self.problems = code, problems


class _Document(dict[str, Any]):
    """An object of an answer. A member that it lacks shows that something else answers, or a server of another version."""

    def __init__(self, members: dict[str, Any], url: str) -> None:
        super().__init__(members)
        self._url = url

    def __missing__(self, name: str) -> Any:
        raise EtlError(
            f"what answers at {self._url} is not a server of etl, or one of another version (`etl --version`): its answer has no "
            f"{name!r}"
        )


@dataclass
class Pace:
    """How long a server with many viewers wants each of them to wait."""

    min_seconds: float = 0.0
    """The shortest pause before the next request."""

    def note(self, answer: http.client.HTTPResponse) -> None:
        """Take over what an answer says."""
        with suppress(ValueError):
            self.min_seconds = min(60.0, max(0.0, float(answer.headers.get("Poll-After", "0"))))

    def pause(self, seconds: float) -> float:
        """Wait these seconds, or longer if the server asks for it."""
        return max(seconds, self.min_seconds)


@dataclass(frozen=True)
class Connection:
    """A server, by its URL."""

    url: str
    token: str = field(default="", repr=False)
    pace: Pace = field(default_factory=lambda: Pace(), repr=False, compare=False)
    """For commands that ask again and again."""
    is_exact: bool = False
    """Whether answers are as of now; those of a server with many viewers may be seconds old, some older than others."""
    session: http.client.HTTPConnection | None = field(default=None, repr=False, compare=False)
    """The connection of all requests; without one each has its own."""

    @staticmethod
    def of(url: str) -> Connection:
        """The server at a URL, with the token of the environment. Raises EtlError, which does not repeat a login or token."""
        parts = _server_url(url if "://" in url else f"http://{url}")
        token = os.environ.get(TOKEN, "")
        if not re.fullmatch(r"[!-~]*", token):
            raise EtlError(f"{TOKEN}: a token has printable ASCII characters only, and no space or line break")
        return Connection(parts.geturl().rstrip("/"), token)

    @contextmanager
    def kept_open(self) -> Iterator[Connection]:
        """This server, asked on one connection while the body runs: a server with many viewers counts their connections."""
        with closing(self._open()) as session:
            yield replace(self, session=session)

    def get(self, path: str, **parameters: Any) -> Any:
        """The answer to a GET."""
        return self.call("GET", path, **parameters)

    def call(self, method: str, path: str, body: bytes | None = None, *, is_list: bool = False, **parameters: Any) -> Any:
        """The answer as a document, or with ``is_list`` as a list of them; None without content.

        Raises RefusedError, and EtlError if no server of etl answers.
        """
        with closing(self._open()) if self.session is None else nullcontext(self.session) as connection:
            answer = self._request(connection, method, path, body, parameters)
            with self._name_broken_answer(), answer:
                data = answer.read(MAX_ANSWER_BYTES)
        return self._value(answer.status, data, is_list)

    def pipeline(
        self, method: str, name: str, verb: str = "", body: bytes | None = None, *, is_list: bool = False, **parameters: Any
    ) -> Any:
        """The answer about a pipeline: ``name`` is namespace/name, or a name in the namespace ``default``."""
        path = self.path_of(name)
        return self.call(method, f"{path}/{verb}" if verb else path, body, is_list=is_list, **parameters)

    def path_of(self, name: str) -> str:
        """The path of a pipeline."""
        namespace, _, rest = name.rpartition("/")
        return f"/api/pipelines/{quote(namespace or 'default', safe='')}/{quote(rest, safe='')}"

    def download(self, path: str, file: IO[bytes], **parameters: Any) -> None:
        """Write an answer to a file. Raises as `call`, also for an answer that breaks off."""
        with closing(self._open()) as connection:
            answer = self._request(connection, "GET", path, None, parameters)
            with self._name_broken_answer(), answer:
                if answer.status >= 400:
                    self._value(answer.status, answer.read(MAX_ANSWER_BYTES))
                shutil.copyfileobj(answer, file)

    @contextmanager
    def _name_broken_answer(self) -> Iterator[None]:
        """Raise EtlError for an answer that does not come to its end."""
        try:
            yield
        except (OSError, http.client.HTTPException) as error:
            raise EtlError(f"the answer of {self.url} broke off: {error or type(error).__name__}; try again") from error

    def _open(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        if parts.scheme == "https":
            return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=SECONDS, context=ssl.create_default_context())
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=SECONDS)

    def _request(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None, parameters: dict[str, Any]
    ) -> http.client.HTTPResponse:
        query = urlencode({name: value for name, value in parameters.items() if value is not None})
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        headers |= {"Cache-Control": "no-cache"} if self.is_exact else {}
        target = f"{path}?{query}" if query else path
        try:
            answer = self._send(connection, method, target, body, headers)
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or error or type(error).__name__
            raise EtlError(f"no server answers at {self.url}: {reason}{_connection_hint(error, self.url)}") from error
        self.pace.note(answer)
        return answer

    @staticmethod
    def _send(
        connection: http.client.HTTPConnection, method: str, target: str, body: bytes | None, headers: dict[str, str]
    ) -> http.client.HTTPResponse:
        """The answer. A connection that was idle may be closed by the server: a request that only reads is sent again."""
        is_used = connection.sock is not None
        try:
            connection.request(method, target, body, headers)
            return connection.getresponse()
        except (http.client.BadStatusLine, http.client.CannotSendRequest, ConnectionError):
            connection.close()
            if not is_used or method != "GET":
                raise
        connection.request(method, target, body, headers)
        return connection.getresponse()

    def _value(self, status: int, data: bytes, is_list: bool = False) -> Any:
        if status == http.HTTPStatus.NO_CONTENT:
            return None
        try:
            value = json.loads(data, object_hook=partial(_Document, url=self.url))
            if status < 300 and _is_answer(value, is_list):
                return value
            error = value["error"]
            message, code, problems = str(error["message"]), str(error["code"]), list(error.get("problems", []))
        except (ValueError, TypeError, AttributeError, RecursionError, EtlError):
            raise EtlError(
                f"what answers at {self.url} is not a server of etl (status {status}): name another with --server or {SERVER}"
            ) from None
        hint = f"; set {TOKEN}" if status == http.HTTPStatus.UNAUTHORIZED else ""
        raise RefusedError(f"{message}{hint}", code, problems)


def _is_answer(value: Any, is_list: bool) -> bool:
    """Whether an answer is a document, or a list of them."""
    if is_list:
        return isinstance(value, list) and all(isinstance(one, dict) for one in value)
    return isinstance(value, dict)


def _connection_hint(error: Exception, url: str) -> str:
    """What to do about a connection that failed; empty if its reason says it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return "; set SSL_CERT_FILE to the certificate of the authority that signed that of the server"
    if isinstance(error, ssl.SSLError):
        return "; the URL of a server without TLS begins with http://"
    if isinstance(error, http.client.BadStatusLine) and url.startswith("http://"):
        return "; the URL of a server with TLS begins with https://"
    return "; `etl serve` starts a server, --server names another one" if isinstance(error, ConnectionRefusedError) else ""


def _server_url(url: str) -> SplitResult:
    """The parts of the URL of a server. Raises EtlError."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        host.encode("idna")
    except ValueError as error:
        shown = re.sub("//[^/]*@", "//…@", url)  # without a login
        raise EtlError(f"{shown!r} is not the URL of a server, such as http://127.0.0.1:8321: {error}") from None
    if parts.username is not None:
        raise EtlError(f"the URL of a server has no login before {host!r}: its token is that of the environment, {TOKEN}")
    is_server = parts.scheme in ("http", "https") and re.fullmatch(r"[^\s/?#]+", host) and port != 0
    if not is_server or parts.path.strip("/") or parts.query or parts.fragment:
        raise EtlError(f"{url!r} is not the URL of a server, such as http://127.0.0.1:8321")
    return parts
