"""The ``loki`` sink."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, SecretStr

from connectors.http.connection_settings import check_secrets
from connectors.http.sink_options import LoginOptions
from connectors.http.writer import RequestWriter
from connectors.loki.push_bodies import PUSH_PATH, PushBodies
from connectors.shared.distinct_limit import DistinctLimit
from connectors.shared.row_groups import sort_by_group
from connectors.shared.text_template import TextTemplate, check_fields, check_templates, check_time_field
from etl.api import Batching, FieldName, Finding, Guarantee, Rejects, Result, Schema, Task, visible

LabelName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class LokiSink(LoginOptions):
    """Send events to Grafana Loki as lines of streams, by its push API in JSON.

    At least once: a request is sent again if its response was lost, if the run was killed while it was in flight, or if
    Loki rejected some of its lines. Loki stores a line once if stream, time and text are equal, so a repeated line is not
    visible, unless it has no time: an event whose ``time_field`` is null gets the time of sending. Events of a stream are
    sent in order, one request at a time for each split; splits are sent in parallel.

    ``labels`` name the stream. ``{field}`` in a label is replaced by the value of a field; a label without a value is left
    out, and an event without labels is a dead letter (``no-labels``). Loki becomes slow with many streams: use fields with
    few values, and put others into ``metadata`` (structured metadata, Loki 2.9 or later). ``max_streams`` limits the
    streams of the events of one split; events of more streams are dead letters (``too-many-streams``).

    A line is the JSON object of all fields, or the value of ``value_field``. Lines that Loki rejects (400: out of order, too
    old, too long) are dead letters with its reason (``loki-rejected``). Loki stores the other lines of such a request, but
    does not name all rejected ones: the request is halved until they are found, which takes up to two requests for each
    rejected line; if Loki says that it ignored all lines, none. Statuses in ``retry_on`` (a rate limit: 429) and lost
    connections are retried as ``retry`` says, but not before the time in ``Retry-After``. Statuses in ``stop_on`` and
    redirects end the run without loss. With any other status all events of the request are dead letters; a request that
    is too large (413) is halved first.

    Tested against a test server that rejects lines as Loki does, and against the source ``http`` with ``format: loki``; not
    against Loki.

    ```yaml
    type: loki
    urls: ["https://loki.example.org:3100"]
    labels: {job: sluice, env: prod}
    ```
    """

    type: Literal["loki"] = "loki"
    labels: dict[LabelName, str] = Field(
        description="Labels of the stream of an event; `{field}` is replaced.",
        min_length=1,
        examples=[{"job": "sluice", "host": "{host.name}"}],
    )
    value_field: FieldName | None = Field(
        default=None, description="Field whose value is the line, instead of all fields as JSON.", examples=["message"]
    )
    time_field: FieldName | None = Field(
        default=None, description="Timestamp that is the line's time; without it the field `timestamp`."
    )
    metadata: tuple[FieldName, ...] = Field(
        default=(), description="Fields that are structured metadata of the line, as texts.", examples=[["trace.id"]]
    )
    tenant: SecretStr | None = Field(
        default=None, description="Tenant of the events, for the header X-Scope-OrgID.", examples=["${LOKI_TENANT}"]
    )
    max_streams: int = Field(
        default=1000, ge=1, description="Maximum number of streams of one split; events of more streams become dead letters."
    )
    batch: Batching = Field(
        default=Batching(max_events=1000, max_bytes=1_000_000), description="When buffered events are written."
    )

    guarantee: ClassVar[Guarantee] = "at least once"

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Check URLs, headers, the login, and that fields exist."""
        yield from check_secrets({"tenant": self.tenant})
        yield from self.check_requests()
        yield from self.check_base_urls(PUSH_PATH)
        known = visible(incoming)
        yield from check_templates({("labels", name): label for name, label in self.labels.items()}, known)
        yield from check_fields([(("value_field",), self.value_field)], known)
        yield from check_fields([(("metadata", at), name) for at, name in enumerate(self.metadata)], known)
        yield from check_time_field(self.time_field, known)

    def login(self) -> Mapping[str, SecretStr]:
        """Return the headers of the login and the tenant."""
        tenant = {"X-Scope-OrgID": self.tenant} if self.tenant else {}
        return {**super().login(), **tenant}

    def probe(self, incoming: Schema) -> Iterable[Finding]:
        """Check that the servers respond, and accept the login."""
        return self.probe_path("OPTIONS", PUSH_PATH)

    def open(self, task: Task) -> LokiWriter:
        """Return a writer that uses this process's connections."""
        labels = {name: TextTemplate.parse(label) for name, label in self.labels.items()}
        bodies = PushBodies(labels, self.value_field, self.time_field, self.metadata)
        return LokiWriter(self.shared_client(), bodies, self.statuses(), DistinctLimit(self.max_streams))


NO_LABELS, TOO_MANY_STREAMS = "no-labels", "too-many-streams"


@dataclass
class LokiWriter(RequestWriter):
    """Writer: one request a batch, sorted by streams. Events without labels, or of too many streams, are rejected."""

    bodies: PushBodies
    limit: DistinctLimit

    def write(self, batch: pa.RecordBatch) -> Result:
        """Send the events of streams within the limit."""
        rejected: list[Rejects] = []
        labels = self.bodies.stream_labels(batch)
        rows = pa.array(range(batch.num_rows), pa.int64())
        bare = pc.equal(labels, "{}")
        if bare.true_count:
            rejected.append(Rejects(batch.filter(bare), NO_LABELS, "no label has a value, and a stream needs one"))
            labels, rows = labels.filter(pc.invert(bare)), rows.filter(pc.invert(bare))
        beyond = self.limit.find_beyond(labels)
        if beyond is not None:
            reason = f"its stream would exceed max_streams, {self.limit.maximum:,}"
            rejected.append(Rejects(batch.take(rows.filter(beyond)), TOO_MANY_STREAMS, reason))
            labels, rows = labels.filter(pc.invert(beyond)), rows.filter(pc.invert(beyond))
        order = rows.take(sort_by_group(labels))
        if not len(order):
            return Result(rejected=rejected)
        result = super().write(batch.take(order))
        retryable = None if result.retryable is None else order.take(result.retryable).sort()
        return Result(retryable, [*rejected, *result.rejected], result.cause, result.after)
