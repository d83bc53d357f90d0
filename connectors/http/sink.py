"""The ``http`` sink."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from pydantic import Field

from connectors.http.bodies import Format, JsonBodies
from connectors.http.connection_settings import HeaderName
from connectors.http.sink_options import LoginOptions
from connectors.http.writer import RequestWriter
from etl.api import Batching, Finding, Guarantee, Schema, Task


class HttpSink(LoginOptions):
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
    method: Literal["POST", "PUT", "PATCH"] = Field(default="POST", description="Method of the requests.")
    format: Format = Field(default="json", description="Content of a body: an array of events, one line an event, or one event.")
    key_header: HeaderName | None = Field(
        default="Idempotency-Key", description="Header that identifies the events of a request; null sends none."
    )
    batch: Batching = Field(
        default=Batching(max_events=1000, max_bytes=1_000_000), description="When buffered events are written."
    )

    guarantee: ClassVar[Guarantee] = "at least once"
    identified: ClassVar[bool] = True

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Check URLs, credentials, headers, and statuses in both lists."""
        yield from self.check_requests()
        if self.format == "object" and self.batch.max_events != 1:
            message = "format: object puts one event into a request"
            yield Finding("batch-conflict", message, ("format",), "add batch: {max_events: 1}")

    def probe(self, incoming: Schema) -> Iterable[Finding]:
        """Check that the servers respond, TLS works and the login is accepted, with a request without events (OPTIONS)."""
        return self.probe_path("OPTIONS", "")

    def open(self, task: Task) -> RequestWriter:
        """Return a writer that uses this process's connections."""
        return RequestWriter(self.shared_client(), JsonBodies(self.method, self.format, self.key_header), self.statuses())
