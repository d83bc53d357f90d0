"""The ``http`` sink."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import ClassVar, Literal

from pydantic import Field, SecretStr

from connectors.http.bodies import Format
from connectors.http.connection_settings import (
    ConnectionSettings,
    HeaderName,
    check_login,
    check_secrets,
    login_headers,
)
from connectors.http.statuses import Status, Statuses, in_both
from connectors.http.urls import Url, check_urls
from connectors.http.writer import RequestWriter
from connectors.shared.tls import ClientTls
from etl.api import Batching, Duration, Finding, Guarantee, Schema, Sink, Task

RESERVED_HEADERS = ("content-length", "content-encoding", "accept-encoding", "transfer-encoding", "host", "connection")
"""Headers that the client sets."""


class HttpSink(Sink):
    """Send events to a web server, many in one request.

    At least once: a request is sent again if its response was lost, or if the run was killed while it was in flight. A
    header (``key_header``) identifies its events: the identity of a single event, a hash of the identities of several. A
    retried request has the same key; after a restart batches may be divided differently, so a receiver that detects
    duplicates needs ``batch: {max_events: 1}``. Events of one split are sent in order, one request at a time; splits are
    sent in parallel.

    A body is a JSON array (``json``), a line for each event (``ndjson``), or a single event (``object``, with
    ``batch: {max_events: 1}``). Statuses 200 to 299 are success. Statuses in ``retry_on`` and lost connections are
    retried as ``retry`` says, but not before the time in the header ``Retry-After`` (at most ``retry.max_backoff``).
    Statuses in ``stop_on`` and redirects, which are never followed, end the run without loss. With any other status all
    events of the request become dead letters (``http-rejected``) with the status and the beginning of the response; a
    request that is too large (413) is halved first.

    Tested against a test server that responds slowly, refuses requests, and closes connections within a response.

    ```yaml
    type: http
    urls: ["https://hooks.example.org/events"]
    token: ${HOOK_TOKEN:-}
    format: ndjson
    ```
    """

    type: Literal["http"] = "http"
    urls: tuple[Url, ...] = Field(
        description="URLs of the server; if one does not respond, the next is used.",
        min_length=1,
        examples=[["https://hooks.example.org/events"]],
    )
    method: Literal["POST", "PUT", "PATCH"] = Field(default="POST", description="Method of the requests.")
    format: Format = Field(default="json", description="Content of a body: an array of events, one line an event, or one event.")
    headers: dict[HeaderName, SecretStr] = Field(
        default={}, description="Further headers of each request.", examples=[{"X-Api-Key": "${API_KEY}"}]
    )
    key_header: HeaderName | None = Field(
        default="Idempotency-Key", description="Header that identifies the events of a request; null sends none."
    )
    user: str | None = Field(default=None, description="User name; needs `password`.")
    password: SecretStr | None = Field(default=None, description="The user's password.", examples=["${PASSWORD}"])
    token: SecretStr | None = Field(default=None, description="A bearer token, instead of a user.", examples=["${TOKEN}"])
    tls: ClientTls | None = Field(default=None, description="Certificates, for https URLs.")
    timeout: Duration = Field(
        default=timedelta(seconds=60), description="How long a request and its response may take.", gt=timedelta(0)
    )
    compression: Literal["none", "gzip"] = Field(default="none", description="Compression of request bodies.")
    retry_on: tuple[Status, ...] = Field(
        default=(408, 425, 429, "5xx"), description="Statuses that are temporary.", examples=[[408, 429, "5xx"]]
    )
    stop_on: tuple[Status, ...] = Field(
        default=(401, 403, 404, 405, 407), description="Statuses that end the run, because all events would get them."
    )
    batch: Batching = Field(
        default=Batching(max_events=1000, max_bytes=1_000_000), description="When buffered events are written."
    )

    guarantee: ClassVar[Guarantee] = "at least once"
    identified: ClassVar[bool] = True

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Check URLs, credentials, headers, and statuses in both lists."""
        yield from check_urls(self.urls, self.tls, "urls")
        yield from check_login(self.user, self.password, {"token": self.token})
        yield from check_secrets({"token": self.token})
        yield from self._check_headers()
        for status in in_both(self.retry_on, self.stop_on):
            yield Finding("status-conflict", f"{status} is both in retry_on and in stop_on", ("stop_on",))
        if self.format == "object" and self.batch.max_events != 1:
            message = "format: object puts one event into a request"
            yield Finding("batch-conflict", message, ("format",), "add batch: {max_events: 1}")

    def probe(self, incoming: Schema) -> Iterable[Finding]:
        """Check that the servers respond, TLS works and the login is accepted, with a request without events (OPTIONS)."""
        from connectors.http.probe import probe

        return probe(self.connection_settings(), self.stop_on)

    def connection_settings(self) -> ConnectionSettings:
        """Return the settings of the client."""
        headers = {**self.headers, **login_headers(self.user, self.password, self.token)}
        return ConnectionSettings(
            self.urls, self.timeout.total_seconds(), self.tls, tuple(headers.items()), self.compression == "gzip"
        )

    def open(self, task: Task) -> RequestWriter:
        """Return a writer that uses this process's connections."""
        from connectors.http.client import shared_client

        statuses = Statuses(self.retry_on, self.stop_on)
        return RequestWriter(shared_client(self.connection_settings()), self.method, self.format, statuses, self.key_header)

    def _check_headers(self) -> Iterable[Finding]:
        for name, value in self.headers.items():
            if name.lower() in RESERVED_HEADERS:
                yield Finding("bad-header", f"{name} is set by the sink itself", ("headers", name))
            elif name.lower() == "authorization" and (self.user is not None or self.token is not None):
                yield Finding("several-logins", "user or token set this header", ("headers", name), "keep one of them")
            for finding in check_secrets({name: value}):
                yield Finding(finding.code, finding.message, ("headers", name))
