"""The ``elasticsearch`` sink."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from connectors.elasticsearch import index_naming
from connectors.elasticsearch.connection_options import ClusterOptions
from connectors.elasticsearch.documents import Action, BulkEncoding
from connectors.elasticsearch.index_templates import IndexTemplate
from connectors.elasticsearch.writer import BulkWriter
from connectors.shared.distinct_limit import DistinctLimit
from connectors.shared.path_template import example_path, parse_template
from etl.api import (
    Batching,
    FieldName,
    Finding,
    Guarantee,
    Schema,
    Sink,
    Task,
    key_findings,
    refused_changes,
    unknown_field,
    visible,
)


class ElasticsearchSink(ClusterOptions, Sink):
    """Index events as documents of Elasticsearch 7, 8, 9 or OpenSearch, in bulk.

    Exactly once: a document's ``_id`` is the event's identity, which does not change when the event is written again, so a
    repeated write changes nothing. With ``id`` the values of fields are the id (several are joined by ``|``): with
    ``create`` the first event with an id stays, with ``index`` the last one, with ``update`` its fields are merged into the
    document, which is created if it is missing. An event whose id is null, empty or longer than 512 bytes is a dead letter
    (``bad-id``).

    A data stream accepts ``create`` only, needs a field ``@timestamp``, and checks ids in its newest index only: an event
    written again after a rollover is duplicated, so exactly-once ends at each rollover. The same holds for an alias that
    rolls over. An index with a date (by event time) has no such limit.

    A name in braces in ``index`` is replaced by the value of a field or a date (letters ``yyyy MM dd HH mm``, in UTC): null
    and empty become ``__null__``, capitals small letters, unsafe characters are percent-encoded, values of more than 64
    characters are truncated and get a hash. All names begin with the literal text before the first brace. A server limits
    the number of indices (by default 1,000 shards a node) and refuses documents beyond it: choose fields with few values.
    ``max_indices`` limits the indices of the events of one split: events of more indices become dead letters
    (``too-many-indices``). `etl lint` warns of a field in the name unless ``max_indices`` is set.

    Without ``template`` the server guesses the type of each new field from its first value, indexes every text twice (as
    words and as a keyword) and is much slower. With ``template: ecs`` the pipeline installs an index template (named
    ``sluice-<the literal prefix of the index>``, for that prefix) before its first document: numbers, times and booleans by
    the types of their fields; texts as keywords, except ``*.ip`` (addresses), ``message`` and ``*.stack_trace`` (words),
    ``*.geo.location`` (points) and ``event.original`` (stored, not searchable), as in the Elastic Common Schema. A value that
    does not fit its type stays in the document and is not indexed (``ignore_malformed``). A file contains your own template:
    the body of ``PUT _index_template``, or only ``settings`` and ``mappings``. Existing indices do not change. The login
    needs the right ``manage_index_templates``.

    Dotted fields become nested objects, times are ISO 8601, null members are kept. Events of one split reach a shard in
    order; splits are written in parallel, one request at a time each. A document that the server rejects, for example
    because it does not fit the mapping, becomes a dead letter with the server's reason (``elasticsearch-rejected``); the
    other documents are indexed. After a busy server or shard (429, 503), a lost connection or a full disk (which blocks
    indices) the failed documents are retried; a request that is too large for the server is divided. A refused login, a
    missing right, a missing index that the server may not create or a missing ingest pipeline ends the run without loss.

    Results that change, such as those of ``top`` with ``changelog: true``, need ``action: index`` or ``update``, and as ``id``
    the fields by which they replace each other: documents of rows that are removed are deleted.

    Tested against Elasticsearch 7.17, 8.19 and 9.5, and OpenSearch 2.19, the latter also with users, rights and TLS: clusters
    down at the start, runs killed at random moments and continued, with no document missing or duplicated. API keys and
    tokens were tested against a simulated server only, data streams on OpenSearch only.

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
        description="What happens to an existing document: create leaves it, index replaces it, update merges.",
    )
    id: tuple[FieldName, ...] = Field(
        default=(), description="Fields that form the document's id; without it the event's identity.", examples=[["event.id"]]
    )
    data_stream: bool = Field(default=False, description="Whether the index is a data stream.")
    template: str | None = Field(
        default=None,
        min_length=1,
        description="Index template to install before the first document: `ecs` derives the mapping from the fields of the "
        "pipeline, otherwise the path of a JSON file; without it the server guesses types.",
        examples=["ecs", "templates/logs.json"],
    )
    pipeline: str | None = Field(
        default=None, description="Ingest pipeline of the server that processes the documents.", min_length=1
    )
    routing: FieldName | None = Field(default=None, description="Field whose value chooses the shard.")
    time_field: FieldName | None = Field(
        default=None, description="Timestamp for dates in the index; without it the field `timestamp`."
    )
    max_indices: int = Field(
        default=1000,
        ge=1,
        description="Maximum number of indices for the events of one split, if the name has fields; events of more indices "
        "become dead letters.",
    )
    batch: Batching = Field(
        default=Batching(max_events=5000, max_bytes=5_000_000), description="When buffered events are written."
    )

    guarantee: ClassVar[Guarantee] = "exactly once"
    identified: ClassVar[bool] = True

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Check names, fields, and options that exclude each other."""
        yield from self.check_connection_options()
        yield from self._check_index(visible(incoming))
        yield from self._check_fields(visible(incoming))
        if self._template is not None:
            yield from self._template.check()
        if self.action == "update" and not self.id:
            yield Finding("missing-id", "update needs id", ("action",), "add id: [field, …]")
        if self.data_stream:
            yield from self._check_data_stream(incoming)

    def check_changes(self, incoming: Schema) -> Iterable[Finding]:
        """Changes are documents by the key of the changelog."""
        if self.action == "create":
            hint = "write action: index, with the key of the results as id"
            yield from refused_changes(incoming, "action create keeps the first document of an id", hint)
        else:
            yield from key_findings(incoming, self.id, "id")

    def guaranteed(self) -> Guarantee:
        """Return the guarantee; a data stream does not check ids of earlier indices after a rollover."""
        return "at least once" if self.data_stream else "exactly once"

    def writes(self) -> Iterable[str]:
        """Return the index at each URL; with placeholders, an example of its name."""
        return [f"index {url}/{example_path(parse_template(self.index))}" for url in self.urls]

    def probe(self, incoming: Schema) -> Iterable[Finding]:
        """Log in, and check the index, its mapping, and the ingest pipeline."""
        from connectors.elasticsearch.probe import probe_sink

        return probe_sink(self, incoming)

    def prepare(self, incoming: Schema) -> None:
        """Install the index template."""
        from connectors.http.client import shared_client

        if self._template is not None:
            self._template.install(shared_client(self.connection_settings()), incoming)

    def open(self, task: Task) -> BulkWriter:
        """Return a writer that uses this process's connections."""
        from connectors.http.client import shared_client

        documents = BulkEncoding(self.action, self.index, self.id, self.routing, self.time_field)
        return BulkWriter(shared_client(self.connection_settings()), documents, self.pipeline, DistinctLimit(self.max_indices))

    @property
    def _template(self) -> IndexTemplate | None:
        return None if self.template is None else IndexTemplate(self.template, self.index, self.data_stream)

    def _check_index(self, incoming: Schema) -> Iterable[Finding]:
        wrong = list(index_naming.check_index_name(self.index, self.time_field, incoming))
        yield from wrong
        if "max_indices" not in self.model_fields_set:
            yield from index_naming.check_bounded(self.index, incoming) if not wrong else ()
        elif not parse_template(self.index).fields:
            message = "the index name contains no field, such as {host}"
            yield Finding("unused-option", message, ("max_indices",), severity="warning")

    def _check_fields(self, incoming: Schema) -> Iterable[Finding]:
        used: list[tuple[str, tuple[str | int, ...]]] = [(name, ("id", number)) for number, name in enumerate(self.id)]
        used += [(self.routing, ("routing",))] if self.routing else []
        for name, path in used:
            if name not in incoming.names:
                yield unknown_field(name, incoming, path)
            elif not _is_text(incoming.field(name).type):
                yield Finding("wrong-type", f"field {name!r} is {incoming.field(name).type}, which cannot be text", path)

    def _check_data_stream(self, incoming: Schema) -> Iterable[Finding]:
        if self.action != "create":
            yield Finding(
                "data-stream-action", f"a data stream needs action create, not {self.action}", ("action",), "remove action"
            )
        if "@timestamp" not in incoming.names:
            hint = "add {type: rename, fields: {timestamp: '@timestamp'}} before it"
            yield Finding("unknown-field", "documents of a data stream need a field '@timestamp'", ("data_stream",), hint)


def _is_text(type_: pa.DataType) -> bool:
    return not (pa.types.is_nested(type_) or pa.types.is_binary(type_) or pa.types.is_large_binary(type_))
