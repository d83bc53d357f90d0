"""The ``http`` sink."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated, ClassVar, Literal

from pydantic import Field, SecretStr

from connectors.http.access import Access, basic, bearer, check_login, check_secrets
from connectors.http.bodies import Format
from connectors.http.statuses import Status, Statuses, both
from connectors.http.urls import Url, check_urls
from connectors.http.writer import RequestWriter
from connectors.tls import ClientTls
from etl.api import Batching, Duration, Finding, Guarantee, Schema, Sink, Task

HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]

OWN_HEADERS = ("content-length", "content-encoding", "accept-encoding", "transfer-encoding", "host", "connection")


class HttpSink(Sink):
    """Send events to a web server, many in one request.

    At least once: a request whose answer was lost is sent again, and so is one that was under way when the run was killed.
    A header (``key_header``) names its events: the identity of a single event, a hash of the identities of several. The same
    request tried again has the same key; after a restart batches may be cut otherwise, so a receiver that is to recognise
    repetitions wants ``batch: {max_events: 1}``. Events of one split are sent in their order, one request at a time; splits
    run side by side.

    A body is a JSON array (``json``), a line for each event (``ndjson``), or a single event (``object``, with
    ``batch: {max_events: 1}``). Answers of 200 to 299 are success. Those in ``retry_on`` and lost connections are tried again
    as ``retry`` says, and not before the time that the header ``Retry-After`` asks for (or ``retry.max_backoff``, where that
    is less). Those in ``stop_on`` and redirects, which are never followed, end the run: nothing is lost. After any other all
    events of the request are dead letters (``http-rejected``) with the status and the beginning of the answer; a request that
    is too large (413) is cut in halves first.

    Tested against a server of our own that answers slowly, refuses, and closes connections in the middle.

    ```yaml
    type: http
    urls: ["https://hooks.example.org/events"]
    token: ${HOOK_TOKEN:-}
    format: ndjson
    ```
    """

    type: Literal["http"] = "http"
    urls: tuple[Url, ...] = Field(
        description="Where requests go; the next one is asked when one does not answer.",
        min_length=1,
        examples=[["https://hooks.example.org/events"]],
    )
    method: Literal["POST", "PUT", "PATCH"] = Field(default="POST", description="Method of the requests.")
    format: Format = Field(default="json", description="What a body is: an array of events, a line for each, or one event.")
    headers: dict[HeaderName, SecretStr] = Field(
        default={}, description="Further headers of each request.", examples=[{"X-Api-Key": "${API_KEY}"}]
    )
    key_header: HeaderName | None = Field(
        default="Idempotency-Key", description="Header that names the events of a request; none means without."
    )
    user: str | None = Field(default=None, description="Who logs in, with `password`.")
    password: SecretStr | None = Field(default=None, description="The user's password.", examples=["${PASSWORD}"])
    token: SecretStr | None = Field(default=None, description="A bearer token, instead of a user.", examples=["${TOKEN}"])
    tls: ClientTls | None = Field(default=None, description="Certificates, for https URLs.")
    timeout: Duration = Field(
        default=timedelta(seconds=60), description="How long a request and its answer may take.", gt=timedelta(0)
    )
    compression: Literal["none", "gzip"] = Field(default="none", description="How bodies travel.")
    retry_on: tuple[Status, ...] = Field(
        default=(408, 425, 429, "5xx"), description="Statuses that are temporary.", examples=[[408, 429, "5xx"]]
    )
    stop_on: tuple[Status, ...] = Field(
        default=(401, 403, 404, 405, 407), description="Statuses that end the run, since other events would get them too."
    )
    batch: Batching = Field(
        default=Batching(max_events=1000, max_bytes=1_000_000), description="When buffered events are written."
    )

    guarantee: ClassVar[Guarantee] = "at least once"
    identified: ClassVar[bool] = True

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """URLs, credentials, headers and statuses that do not go together."""
        yield from check_urls(self.urls, self.tls, "urls")
        yield from check_login(self.user, self.password, {"token": self.token})
        yield from check_secrets({"token": self.token})
        yield from self._check_headers()
        for status in both(self.retry_on, self.stop_on):
            yield Finding("status-conflict", f"{status} is both in retry_on and in stop_on", ("stop_on",))
        if self.format == "object" and self.batch.max_events != 1:
            message = "format: object puts one event into a request"
            yield Finding("batch-conflict", message, ("format",), "add batch: {max_events: 1}")

    def probe(self, incoming: Schema) -> Iterable[Finding]:
        """Is anybody there, and does TLS do? A request without events (OPTIONS) tells about the login."""
        from connectors.http.probe import probe

        return probe(self.access(), self.stop_on)

    def access(self) -> Access:
        """For a client."""
        headers = dict(self.headers)
        if self.token is not None:
            headers["Authorization"] = bearer(self.token)
        elif self.user is not None:
            headers["Authorization"] = basic(self.user, self.password)
        return Access(self.urls, self.timeout.total_seconds(), self.tls, tuple(headers.items()), self.compression == "gzip")

    def open(self, task: Task) -> RequestWriter:
        """With this process's connections."""
        from connectors.http.client import client_of

        statuses = Statuses(self.retry_on, self.stop_on)
        return RequestWriter(client_of(self.access()), self.method, self.format, statuses, self.key_header)

    def _check_headers(self) -> Iterable[Finding]:
        for name, value in self.headers.items():
            if name.lower() in OWN_HEADERS:
                yield Finding("bad-header", f"{name} is written by the sink itself", ("headers", name))
            elif name.lower() == "authorization" and (self.user is not None or self.token is not None):
                yield Finding("several-logins", "user or token make this header", ("headers", name), "leave one of them")
            for finding in check_secrets({name: value}):
                yield Finding(finding.code, finding.message, ("headers", name))
