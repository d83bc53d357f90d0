"""The ``opentelemetry`` sink."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from connectors.http.sink_options import LoginOptions
from connectors.http.statuses import Status
from connectors.opentelemetry.log_bodies import LOGS_PATH, LogBodies, record_fields
from connectors.shared.text_template import TextTemplate, check_fields, check_templates, check_time_field
from etl.api import Batching, FieldName, Finding, Guarantee, Schema, Task, Writer, visible

AttributeName = Annotated[str, Field(min_length=1, max_length=256)]


class OpenTelemetrySink(LoginOptions):
    """Send events as log records to an OpenTelemetry collector, or to another receiver of OTLP over HTTP.

    At least once: a request is sent again if its response was lost, or if the run was killed while it was in flight; OTLP
    has no identity by which a receiver recognises records. Events of a resource are sent in order, one request at a time
    for each split; splits are sent in parallel.

    The body of a record is ``value_field``, else the field ``message``. Its time is ``time_field``, else the field
    ``timestamp``; the observed time is ``observed_field``, else the time of sending. A time before 1970 or after 2262, which a
    record cannot have, stays an attribute.
    ``severity_field`` is the severity's text, and its number where the level is known: trace 1, debug 5, info 9,
    notice 10, warning 13, error 17, critical 18,
    alert 19, fatal and emergency 21. ``trace_field`` and ``span_field`` have ids of 32 and 16 hexadecimal digits; what is no
    id stays an attribute. All other fields, or those in ``attributes``, are attributes under their names: numbers,
    booleans and bytes with their types, lists as arrays, structs and maps as lists of pairs, times and decimals as texts;
    null is left out. ``resource`` has the attributes of the resource, in which ``{field}`` is replaced; those without a
    value are left out. Events are sent sorted by resource, so use fields with few values.

    Statuses in ``retry_on`` (those that OTLP calls retryable) and lost connections are retried as ``retry`` says, but not
    before the time in ``Retry-After``. Statuses in ``stop_on`` and redirects end the run without loss. With any other status
    all events of the request are dead letters (``otlp-rejected``) with the receiver's message; a request that is too large
    (413) is halved first. A receiver that rejects some records says how many, but not which (``partial_success``), and OTLP
    forbids to send them again: all events of such a request become dead letters (``otlp-partly-rejected``) with both numbers
    and the reason, so that none is lost; those that the receiver has accepted are then in both places. Use a smaller
    ``batch`` where that happens.

    Tested with messages that the classes of opentelemetry-proto read and write, and against the source ``http`` with
    ``format: opentelemetry``; not against the collector.

    ```yaml
    type: opentelemetry
    urls: ["http://localhost:4318"]
    resource: {service.name: web, host.name: "{host.name}"}
    compression: gzip
    ```
    """

    type: Literal["opentelemetry"] = "opentelemetry"
    format: Literal["protobuf", "json"] = Field(default="protobuf", description="Form of the requests.")
    resource: dict[AttributeName, str] = Field(
        default={"service.name": "sluice"},
        description="Attributes of the resource; `{field}` is replaced.",
        examples=[{"service.name": "web", "host.name": "{host.name}"}],
    )
    scope: str = Field(default="sluice", description="Name of the instrumentation scope.")
    scope_version: str = Field(default="", description="Version of the instrumentation scope.")
    value_field: FieldName | None = Field(
        default=None, description="Field that is the body; without it the field `message`, if there is one.", examples=["message"]
    )
    time_field: FieldName | None = Field(
        default=None, description="Timestamp that is the record's time; without it the field `timestamp`."
    )
    observed_field: FieldName | None = Field(
        default=None, description="Timestamp that is the observed time; without it, and where it is null, the time of sending."
    )
    severity_field: FieldName = Field(default="log.level", description="Field that is the severity, if there is one.")
    trace_field: FieldName = Field(default="trace.id", description="Field that is the trace id, if there is one.")
    span_field: FieldName = Field(default="span.id", description="Field that is the span id, if there is one.")
    attributes: tuple[FieldName, ...] | None = Field(
        default=None, description="Fields that are attributes; without it all that have no other place.", examples=[["user.name"]]
    )
    retry_on: tuple[Status, ...] = Field(
        default=(429, 502, 503, 504), description="Statuses that are temporary.", examples=[[429, "5xx"]]
    )
    batch: Batching = Field(
        default=Batching(max_events=1000, max_bytes=1_000_000), description="When buffered events are written."
    )

    guarantee: ClassVar[Guarantee] = "at least once"

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Check URLs, headers, the login, and that fields exist."""
        yield from self.check_requests()
        yield from self.check_base_urls(LOGS_PATH)
        known = visible(incoming)
        yield from check_templates({("resource", name): text for name, text in self.resource.items()}, known)
        yield from check_fields([(("value_field",), self.value_field)], known)
        yield from check_fields([(("attributes", at), name) for at, name in enumerate(self.attributes or ())], known)
        chosen = [name for name in ("severity_field", "trace_field", "span_field") if name in self.model_fields_set]
        yield from check_fields([((name,), getattr(self, name)) for name in chosen], known)
        yield from check_time_field(self.time_field, known)
        yield from check_time_field(self.observed_field, known, "observed_field")

    def probe(self, incoming: Schema) -> Iterable[Finding]:
        """Check that the receivers respond, and accept the login."""
        return self.probe_path("OPTIONS", LOGS_PATH)

    def open(self, task: Task) -> Writer:
        """Return a writer that uses this process's connections."""
        from connectors.opentelemetry.writer import LogWriter

        ids = (self.severity_field, self.trace_field, self.span_field)
        fields = record_fields(task.schema, self.value_field, (self.time_field, self.observed_field), ids, self.attributes)
        resource = {name: TextTemplate.parse(text) for name, text in self.resource.items()}
        bodies = LogBodies(self.format, fields, resource, self.scope, self.scope_version)
        return LogWriter(self.shared_client(), bodies, self.statuses())
