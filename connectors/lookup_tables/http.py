"""The table `http`."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from email.utils import parsedate
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field, SecretStr

from connectors.http.connection_settings import (
    ConnectionSettings,
    HeaderName,
    check_headers,
    check_login,
    check_secrets,
    login_headers,
)
from connectors.http.urls import Url, check_urls
from connectors.lookup_tables.file import FileTable
from connectors.shared.tls import ClientTls
from etl.api import ComponentError, Duration, Finding, LookupTable, Newer, Size

_PROBE_SECONDS = 5.0
_TEMPORARY = (408, 425, 429)
_HASH_PREFIX = "sha256:"
"""Begin of a version that is a hash of the body."""


class HttpTable(LookupTable):
    """A table from a web server: CSV with a header, JSON lines, or a text as a whole.

    With `refresh` a request is sent at this interval, with `If-None-Match` or `If-Modified-Since` if the last response had an
    `ETag` or `Last-Modified`; as long as the rows are unchanged the server responds 304, without them. A server that supports
    neither sends all rows each time, and the table is built again if they differ. Redirects are not followed: credentials are
    sent only to the URL's server. Statuses of 500 and more, 408, 425, 429 and lost connections are temporary. The process
    that builds the table holds the response in memory, up to `max_bytes`; a larger response is an error, and is not read at
    all if the server declares its length. With `format: text` the whole response is one row with the column `text`, which is
    also the key: a file of rules for the step `rules`.

    ```yaml
    type: http
    url: https://feeds.example.org/bad-addresses.csv
    token: ${FEED_TOKEN:-}
    format: csv
    key: ip
    columns: {score: int}
    refresh: 1h
    ```
    """

    type: Literal["http"] = "http"
    url: Url = Field(description="URL of the rows.", examples=["https://feeds.example.org/bad-addresses.csv"])
    format: Literal["csv", "json", "text"] = Field(
        default="csv", description="Format of the response: CSV, JSON lines, or a text that becomes one row."
    )
    delimiter: str = Field(default=",", min_length=1, max_length=1, description="Delimiter of CSV fields.")
    header: tuple[str, ...] = Field(
        default=(), description="Column names of CSV without a header line.", examples=[["ip", "lists"]]
    )
    headers: dict[HeaderName, SecretStr] = Field(
        default={}, description="Further headers of each request.", examples=[{"X-Api-Key": "${API_KEY}"}]
    )
    user: str | None = Field(default=None, description="User name; needs `password`.")
    password: SecretStr | None = Field(default=None, description="The user's password.", examples=["${PASSWORD}"])
    token: SecretStr | None = Field(default=None, description="A bearer token, instead of a user.", examples=["${TOKEN}"])
    tls: ClientTls | None = Field(default=None, description="Certificates, for an https URL.")
    timeout: Duration = Field(
        default=timedelta(seconds=60), description="How long a request and its whole response may take.", gt=timedelta(0)
    )
    max_bytes: Size = Field(default=128 << 20, description="Largest accepted response.", gt=0, le=1 << 29)

    def check(self) -> Iterable[Finding]:
        yield from check_urls((self.url,), self.tls, "url")
        yield from check_login(self.user, self.password, {"token": self.token})
        yield from check_secrets({"token": self.token})
        yield from check_headers(self.headers)

    def names(self) -> Sequence[str] | None:
        return ["text"] if self.format == "text" else None

    def probe(self) -> Iterable[Finding]:
        try:
            response = self._request("HEAD", min(self.timeout.total_seconds(), _PROBE_SECONDS))
        except OSError as error:
            yield Finding("unreachable", str(error), ("url",))
        except ComponentError as error:
            yield Finding("not-ready", str(error), ("url",))
        else:
            if 300 <= response.status < 400 and "location" in response.headers:
                yield Finding("not-ready", response.describe(), ("url",), "use that URL if you trust it")
            elif response.status == 200 and (length := _content_length(response)) > self.max_bytes:
                yield Finding(
                    "not-ready", f"{response.server} has {length:,} bytes, more than max_bytes, {self.max_bytes:,}", ("url",)
                )
            elif response.status >= 300 and response.status not in (405, 501):
                yield Finding("not-ready", f"{response.server} answers {response.status} to HEAD", ("url",))

    def newer(self, columns: Sequence[str], version: str | None) -> Newer | None:
        response = self._request("GET", self.timeout.total_seconds(), _version_condition(version))
        if response.status == 304 and version is not None:
            return None
        self._raise_for_response(response)
        now = _response_version(response.headers, response.body)
        return (
            None
            if now == version
            else Newer(now, lambda: self._rows(response, columns), lambda row: self._locate_row(response, row))
        )

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        response = self._request("GET", self.timeout.total_seconds())
        self._raise_for_response(response)
        yield from self._rows(response, columns)

    def _rows(self, response: Any, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        if self.format == "text":
            yield self._as_single_row(response, columns)
            return
        with self._as_file(response) as file:
            yield from file.read(columns)

    def _locate_row(self, response: Any, row: int) -> str | None:
        if self.format == "text":
            return None
        with self._as_file(response) as file:
            return file.locate_row(row)

    def _raise_for_response(self, response: Any) -> None:
        """Raise the error of a response that is not a table."""
        if response.status >= 500 or response.status in _TEMPORARY:
            raise ConnectionError(response.describe(120))
        if response.status != 200:
            raise ComponentError(response.describe(120))

    def _as_single_row(self, response: Any, columns: Sequence[str]) -> pa.RecordBatch:
        """Return the response as one row."""
        if missing := [name for name in columns if name != "text"]:
            raise ComponentError(f"{response.server} gives a row with the column 'text', but no {missing[0]!r}")
        try:
            text = response.body.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ComponentError(f"{response.server} responds with a text that is not UTF-8: {error}") from error
        return pa.RecordBatch.from_pydict({"text": pa.array([text], pa.string())})

    @contextmanager
    def _as_file(self, response: Any) -> Iterator[FileTable]:
        """Write the response to a temporary file, which messages call by the URL."""
        with tempfile.TemporaryDirectory(prefix="etl-table-") as folder:
            path = Path(folder) / "rows"
            path.write_bytes(response.body)
            given = {"path": str(path), "format": self.format, "delimiter": self.delimiter, "header": self.header}
            file = FileTable.model_validate({**given, "key": list(self.key), "columns": dict(self.columns)})
            yield file.with_name(self.url)

    def _request(self, method: str, seconds: float, more: Mapping[str, str] | None = None) -> Any:
        from connectors.http.client import Client
        from connectors.http.connection import ResponseTooLargeError

        try:
            with closing(Client(replace(self.connection_settings(), timeout=seconds))) as client:
                return client.request(method, "", more=more or {})
        except ResponseTooLargeError as error:
            raise ComponentError(
                f"{error.server} responds with {error.length}more than max_bytes, {self.max_bytes:,}; "
                "increase max_bytes (at most 512MiB) if it is the right table"
            ) from error

    def connection_settings(self) -> ConnectionSettings:
        """Return the settings of the client."""
        headers = {**self.headers, **login_headers(self.user, self.password, self.token)}
        return ConnectionSettings(
            (self.url,), self.timeout.total_seconds(), self.tls, tuple(headers.items()), max_bytes=self.max_bytes
        )


def _content_length(response: Any) -> int:
    """Return the length that a response to HEAD declares; 0 if it declares none."""
    text = response.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() else 0


# ── Conditional requests: fetch a resource only if it has changed (RFC 9110, section 13) ───────────


def _response_version(headers: Mapping[str, str], body: bytes) -> str:
    """Return a text that changes with the body: the server's validator, or a hash of the body. Header names are in lower
    case.
    """
    return headers.get("etag") or headers.get("last-modified") or _HASH_PREFIX + hashlib.sha256(body).hexdigest()[:32]


def _version_condition(version: str | None) -> Mapping[str, str]:
    """Return the header that makes the server respond 304 if this version is current; empty if the version is a hash."""
    if version is None or version.startswith(_HASH_PREFIX):
        return {}
    return {"If-Modified-Since" if parsedate(version) else "If-None-Match": version}
