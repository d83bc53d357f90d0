"""The ``splunk_hec`` sink."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Literal

from pydantic import Field, SecretStr

from connectors.http.connection_settings import check_secrets
from connectors.http.sink_options import RequestOptions
from connectors.http.writer import RequestWriter
from connectors.shared.text_template import TextTemplate, check_fields, check_templates, check_time_field
from connectors.splunk.envelopes import EVENT_PATH, HEALTH_PATH, EnvelopeBodies
from etl.api import Batching, FieldName, Finding, Guarantee, Schema, Task, visible

_METADATA = ("host", "source", "sourcetype", "index")


class SplunkHecSink(RequestOptions):
    """Send events to Splunk's HTTP Event Collector (HEC), many in one request.

    At least once: a request is sent again if its response was lost, if the run was killed while it was in flight, or if one
    of its events was invalid; Splunk then indexes its events twice. A request counts as delivered when Splunk answers
    200: Splunk has it in its queue, and indexes it later. Indexer acknowledgement is not used. Events of one split are
    sent in order, one request at a time; splits are sent in parallel.

    An event is the object of all fields, or the value of ``value_field``. ``host``, ``source``, ``sourcetype`` and ``index``
    are texts in which ``{field}`` is replaced by the value of a field; where that is null, and where the option is not
    set, Splunk uses the setting of the token. ``fields`` are also indexed, as texts. The time is that of ``time_field``;
    for an event without a time Splunk uses its own.

    Splunk names an event that it rejects (400 with ``invalid-event-number``): this event becomes a dead letter
    (``splunk-rejected``) and the others are sent again. An index that the token may not write to makes a dead letter if
    ``index`` has a field, and ends the run otherwise. Statuses in ``retry_on`` (a busy server: 429, 503) and lost
    connections are retried as ``retry`` says, but not before the time in ``Retry-After``. Statuses in ``stop_on`` (a wrong
    token: 401, 403) and redirects end the run without loss. With any other status all events of the request are dead
    letters; a request that is too large (413) is halved first.

    Tested against a test server that speaks HEC, and against the source ``http`` with ``format: splunk_hec``; not against
    Splunk.

    ```yaml
    type: splunk_hec
    urls: ["https://splunk.example.org:8088"]
    token: ${SPLUNK_TOKEN:-change-me}
    sourcetype: app:json
    ```
    """

    type: Literal["splunk_hec"] = "splunk_hec"
    token: SecretStr = Field(description="Token of the collector.", examples=["${SPLUNK_TOKEN}"])
    value_field: FieldName | None = Field(
        default=None, description="Field whose value is the event, instead of all fields as an object.", examples=["message"]
    )
    time_field: FieldName | None = Field(
        default=None, description="Timestamp that is the event's time; without it the field `timestamp`."
    )
    host: str | None = Field(default=None, description="Host of the events; `{field}` is replaced.", examples=["{host.name}"])
    source: str | None = Field(default=None, description="Source of the events; `{field}` is replaced.")
    sourcetype: str | None = Field(
        default=None, description="Source type of the events; `{field}` is replaced.", examples=["app:json"]
    )
    index: str | None = Field(default=None, description="Index of the events; `{field}` is replaced.", examples=["main"])
    fields: tuple[FieldName, ...] = Field(
        default=(), description="Fields that Splunk indexes beside the event, as texts.", examples=[["log.level"]]
    )
    batch: Batching = Field(default=Batching(max_events=1000, max_bytes=800_000), description="When buffered events are written.")

    guarantee: ClassVar[Guarantee] = "at least once"

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Check URLs, headers, the token, and that fields exist."""
        yield from check_secrets({"token": self.token})
        yield from self.check_requests()
        yield from self.check_base_urls(EVENT_PATH)
        known = visible(incoming)
        yield from check_templates({(name,): getattr(self, name) for name in _METADATA}, known)
        yield from check_fields([(("value_field",), self.value_field)], known)
        yield from check_fields([(("fields", at), name) for at, name in enumerate(self.fields)], known)
        yield from check_time_field(self.time_field, known)

    def login(self) -> Mapping[str, SecretStr]:
        """Return the header with the token."""
        return {"Authorization": SecretStr(f"Splunk {self.token.get_secret_value()}")}

    def probe(self, incoming: Schema) -> Iterable[Finding]:
        """Check that the collector responds."""
        return self.probe_path("GET", HEALTH_PATH)

    def open(self, task: Task) -> RequestWriter:
        """Return a writer that uses this process's connections."""
        metadata = {name: TextTemplate.parse(value) for name in _METADATA if (value := getattr(self, name)) is not None}
        bodies = EnvelopeBodies(self.value_field, self.time_field, metadata, self.fields)
        return RequestWriter(self.shared_client(), bodies, self.statuses())
