"""The ``elasticsearch`` sink."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from connectors.elasticsearch import names
from connectors.elasticsearch.access import Cluster
from connectors.elasticsearch.documents import Action, Documents
from connectors.elasticsearch.index_templates import IndexTemplate
from connectors.elasticsearch.writer import BulkWriter
from connectors.file.templates import example, parse_template
from etl.api import Batching, FieldName, Finding, Guarantee, Schema, Sink, Task, unknown_field, visible


class ElasticsearchSink(Cluster, Sink):
    """Index events as documents of Elasticsearch 7, 8, 9 or OpenSearch, in bulk.

    Exactly once: a document's ``_id`` is the event's identity, the same when it is written again, so a repetition finds
    its document there and changes nothing. With ``id`` the values of fields are the id (several are joined by ``|``): with
    ``create`` the first event with an id stays, with ``index`` the last, with ``update`` its fields are laid over the
    document, which is made when it is missing. An event whose id is null, empty or longer than 512 bytes is a dead letter
    (``bad-id``).

    A data stream takes ``create`` only, wants a field ``@timestamp``, and looks for an id in its newest index alone: what is
    written again after a rollover is there twice, so exactly-once ends at each rollover. The same holds for an alias that
    rolls over. An index with a date (by event time) has no such seam.

    In braces ``index`` takes the value of a field or a date (letters ``yyyy MM dd HH mm``, in UTC): null and empty become
    ``__null__``, capitals small letters, anything unsafe is percent-encoded, more than 64 characters are cut and told apart by
    a hash. All names begin with the literal text in front of the first brace. A server has a limit of indices (1,000 shards a
    node, if it does not say otherwise) and refuses documents beyond it: choose fields of few values. ``max_indices`` bounds how
    many the events of one split go to: those of further indices are dead letters (``too-many-indices``). `etl lint` warns of a
    field in the name as long as nothing is said.

    Without ``template`` the server guesses the type of each new field from its first value, indexes every text twice (as words
    and as a keyword) and is slower by much. With ``template: ecs`` the pipeline puts an index template (named
    ``sluice-<the literal prefix of the index>``, for that prefix) before its first document: numbers, times and truth values by
    the types of their fields; texts as keywords, but for ``*.ip`` (addresses), ``message`` and ``*.stack_trace`` (words),
    ``*.geo.location`` (points) and ``event.original`` (kept, not searchable), as the Elastic Common Schema has them. A value
    that does not fit its type is kept in the document and not indexed (``ignore_malformed``). A file holds a template of one's
    own: the body of ``PUT _index_template``, or ``settings`` and ``mappings`` alone. Indices that exist keep what they have.
    The login needs the right ``manage_index_templates``.

    Documents nest dotted fields, times are ISO 8601, null members are kept. Events of one split reach a shard in their order;
    splits run side by side, one request at a time each. A document that the server refuses, such as one that does not fit
    the mapping, is a dead letter with the server's reason (``elasticsearch-rejected``), and its neighbours are indexed. A busy
    server or shard (429, 503), a lost connection, a full disk (which blocks indices) are tried again, only what failed; a
    request too large for the server is cut. A refused login, a missing right, a missing index that the server may not make
    or a missing ingest pipeline end the run: nothing is lost.

    Tested against Elasticsearch 7.17, 8.19 and 9.5, and OpenSearch 2.19, this also with users, rights and TLS: clusters absent
    at the start, runs killed at random moments and continued, with no document missing and none twice. API keys and tokens
    were tested against a server of our own only, data streams on OpenSearch only.

    ```yaml
    type: elasticsearch
    urls: ["https://localhost:9200"]
    user: etl
    password: ${ES_PASSWORD:-}
    index: logs-{yyyy.MM.dd}
    ```
    """

    type: Literal["elasticsearch"] = "elasticsearch"
    index: str = Field(
        description="The index, alias or data stream; `{field}` and `{yyyy.MM.dd}` are replaced.",
        min_length=1,
        examples=["logs-{yyyy.MM.dd}", "logs-{event.dataset}"],
    )
    action: Action = Field(
        default="create",
        description="What is done to a document that is there already: create leaves it, index replaces it, update merges.",
    )
    id: tuple[FieldName, ...] = Field(
        default=(), description="Fields that make the document's id; none means the event's identity.", examples=[["event.id"]]
    )
    data_stream: bool = Field(default=False, description="Whether the index is a data stream.")
    template: str | None = Field(
        default=None,
        min_length=1,
        description="Index template that is put before the first document: `ecs` makes the mapping from the fields of the "
        "pipeline, otherwise the path of a JSON file; none means that the server guesses types.",
        examples=["ecs", "templates/logs.json"],
    )
    pipeline: str | None = Field(
        default=None, description="Ingest pipeline of the server that documents go through.", min_length=1
    )
    routing: FieldName | None = Field(default=None, description="Field whose value chooses the shard.")
    time_field: FieldName | None = Field(
        default=None, description="Timestamp for dates in the index; without it the field `timestamp`."
    )
    max_indices: int = Field(
        default=1000,
        ge=1,
        description="Most different indices that the events of one split may go to, where the name has fields; events of further "
        "ones are dead letters.",
    )
    batch: Batching = Field(
        default=Batching(max_events=5000, max_bytes=5_000_000), description="When buffered events are written."
    )

    guarantee: ClassVar[Guarantee] = "exactly once"
    identified: ClassVar[bool] = True

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Names, fields and options that do not go together."""
        yield from self.check_access()
        yield from self._check_index(visible(incoming))
        yield from self._check_fields(visible(incoming))
        if self._template is not None:
            yield from self._template.check()
        if self.action == "update" and not self.id:
            yield Finding("missing-id", "update needs to know which document: there is no id", ("action",), "add id: [field, …]")
        if self.data_stream:
            yield from self._check_data_stream(incoming)

    def guaranteed(self) -> Guarantee:
        """Data streams forget their ids at a rollover."""
        return "at least once" if self.data_stream else "exactly once"

    def writes(self) -> Iterable[str]:
        """The index, or one as it would be called, at each URL."""
        return [f"index {url}/{example(parse_template(self.index))}" for url in self.urls]

    def probe(self, incoming: Schema) -> Iterable[Finding]:
        """Log in; look for the index, what its mapping says of our fields, and the pipeline."""
        from connectors.elasticsearch.probe import probe_sink

        return probe_sink(self, incoming)

    def prepare(self, incoming: Schema) -> None:
        """Put the index template."""
        from connectors.http.client import client_of

        if self._template is not None:
            self._template.put(client_of(self.access()), incoming)

    def open(self, task: Task) -> BulkWriter:
        """With this process's connections."""
        from connectors.http.client import client_of

        documents = Documents(self.action, self.index, self.id, self.routing, self.time_field)
        return BulkWriter(client_of(self.access()), documents, self.pipeline, names.IndexLimit(self.max_indices))

    @property
    def _template(self) -> IndexTemplate | None:
        return None if self.template is None else IndexTemplate(self.template, self.index, self.data_stream)

    def _check_index(self, incoming: Schema) -> Iterable[Finding]:
        wrong = list(names.check(self.index, self.time_field, incoming))
        yield from wrong
        if "max_indices" not in self.model_fields_set:
            yield from names.unbounded(self.index, incoming) if not wrong else ()
        elif not parse_template(self.index).fields:
            message = "the index takes no value of a field, such as {host}"
            yield Finding("unused-option", message, ("max_indices",), severity="warning")

    def _check_fields(self, incoming: Schema) -> Iterable[Finding]:
        used: list[tuple[str, tuple[str | int, ...]]] = [(name, ("id", number)) for number, name in enumerate(self.id)]
        used += [(self.routing, ("routing",))] if self.routing else []
        for name, path in used:
            if name not in incoming.names:
                yield unknown_field(name, incoming, path)
            elif not _is_text(incoming.field(name).type):
                yield Finding("wrong-type", f"field {name!r} is {incoming.field(name).type}, which makes no text", path)

    def _check_data_stream(self, incoming: Schema) -> Iterable[Finding]:
        if self.action != "create":
            yield Finding("data-stream-action", f"a data stream takes create, not {self.action}", ("action",), "leave action out")
        if "@timestamp" not in incoming.names:
            hint = "add {type: rename, fields: {timestamp: '@timestamp'}} in front"
            yield Finding("unknown-field", "documents of a data stream need a field '@timestamp'", ("data_stream",), hint)


def _is_text(type_: pa.DataType) -> bool:
    return not (pa.types.is_nested(type_) or pa.types.is_binary(type_) or pa.types.is_large_binary(type_))
