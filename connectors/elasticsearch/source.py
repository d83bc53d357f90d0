"""The ``elasticsearch`` source."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from connectors.elasticsearch.connection_options import ClusterOptions
from connectors.elasticsearch.snapshot import Snapshot, SnapshotSplit, plan_splits, skip_documents
from connectors.elasticsearch.time_ranges import divide_time, find_end_time
from etl.api import Duration, FieldName, Finding, Limit, Offset, Rejects, Schema, Source, Split, TypeName, format_duration

if TYPE_CHECKING:
    from connectors.elasticsearch.hit_reader import HitReader
    from connectors.elasticsearch.searches import Search

PARTITION = "documents"
MIN_SPLIT_DOCUMENTS = 5000
"""Smallest number of documents for which a split of its own is worth its cost."""

DEFAULT_DOCUMENT_BYTES = 500.0
"""Assumed bytes of a document before the first one was read."""


class ElasticsearchSource(ClusterOptions, Source):
    """Read documents of Elasticsearch (7.12 and newer) or OpenSearch (2.4 and newer), once or as they arrive.

    Without ``time_field`` the documents that exist when the run begins are read once, from a point in time that the server
    holds, in parallel slices, and the run ends. A killed run continues from the same point in time as long as the server
    holds it (``keep_alive`` after the last request, and until a node with one of its shards restarts); later it must start
    again.

    With ``time_field`` (a ``date``) documents are read in the order of their time: each micro-batch reads from the end of the
    last one to the current time minus ``lag``, so a document that arrives later than ``lag`` after its own time is never
    read; with ``--once`` there is no lag. Documents without a time are not read. Splits are time ranges, in order; within
    one, documents are in the order of time, then of ``tie_breaker``.

    An event's identity is its document's (a 63-bit number computed from index and id), whichever split or run reads it, so
    delivery is as good as the sink's as long as documents do not change; a changed one is not read again. These numbers are
    not ascending, so a `database` sink with a ledger writes each split in one transaction.

    With ``fields`` an event has these members of the document, as the parser `json` reads them (a document with a member
    that does not fit its type is a dead letter); without it the whole document is text in ``message``. OpenSearch before 3.3
    orders documents of the same time by ``_id``, which costs the server memory; set ``tie_breaker`` there to a field with
    unique values.

    Parallelism: slices or time ranges, one request each. Tested against Elasticsearch 7.17, 8.19 and 9.5, and OpenSearch
    2.19, the latter also with users and TLS: clusters down at the start, killed runs. API keys were tested against a
    simulated server only. Memory of a task: a page, three times.

    ```yaml
    type: elasticsearch
    urls: ["https://localhost:9200"]
    api_key: ${ES_API_KEY:-key}
    index: logs-*
    time_field: "@timestamp"
    fields: {"@timestamp": timestamp, message: string, source.ip: string}
    ```
    """

    type: Literal["elasticsearch"] = "elasticsearch"
    index: str = Field(
        description="Index, alias, data stream or pattern; several with commas.",
        pattern=r"^[^\s/?#]+$",
        json_schema_extra={"patternErrorMessage": "is not an index name: it cannot contain blanks, '/', '?' and '#'"},
        examples=["logs-*", "logs-a,logs-b"],
    )
    query: dict[str, Any] | None = Field(
        default=None,
        description="Query for the documents to read, in the server's query language; without it all.",
        examples=[{"term": {"event.dataset": "sshd"}}],
    )
    declared: dict[FieldName, TypeName] = Field(
        alias="fields",
        default={},
        description="Members of the document that become fields, with their types; without it the document's text in `message`.",
        examples=[{"timestamp": "timestamp", "source.ip": "string"}],
    )
    id_field: FieldName | None = Field(default=None, description="Field for the document's id.")
    index_field: FieldName | None = Field(default=None, description="Field for the name of the document's index.")
    time_field: str | None = Field(
        default=None, description="Date field by which new documents are found; without it documents are read once."
    )
    tie_breaker: str | None = Field(default=None, description="Field that orders documents of the same time.")
    lag: Duration = Field(default=timedelta(seconds=30), description="How much later than its own time a document may arrive.")
    starting: Literal["earliest", "latest"] = Field(
        alias="start", default="earliest", description="Where a new pipeline begins, with `time_field`."
    )
    page: int = Field(default=5000, description="Documents in one request.", ge=1, le=10_000)
    keep_alive: Duration = Field(
        default=timedelta(minutes=10), description="How long the server holds a point in time after a request.", gt=timedelta(0)
    )

    ordered: ClassVar[bool] = False

    def check(self) -> Iterable[Finding]:
        """Check for options without effect, and fields that contradict each other."""
        yield from self.check_connection_options()
        followed = {"tie_breaker", "lag", "starting"} & self.model_fields_set if self.time_field is None else set()
        for name in sorted(followed - {"tie_breaker"}):
            option = "start" if name == "starting" else name
            yield Finding("unused-option", f"{option} is only used with time_field", (option,), severity="warning")
        if self.declared:
            yield from self._hit_reader.check()

    def fields(self) -> Schema:
        """Return the declared fields or ``message``, and the fields of id and index."""
        return self._hit_reader.fields()

    def reads(self, target: str) -> bool:
        """Return whether the target is one of the indices of this cluster, and the source waits for new documents."""
        url, _, index = target.removeprefix("index ").rpartition("/")
        is_read = any(fnmatchcase(index, one) for one in self.index.split(","))
        return target.startswith("index ") and self.time_field is not None and url in self.urls and is_read

    def probe(self) -> Iterable[Finding]:
        """Log in, and check the index and its time field."""
        from connectors.elasticsearch.probe import probe_source

        return probe_source(self, self.index, self.time_field)

    @property
    def skips(self) -> str | None:
        """The option that skips existing documents, if it is set."""
        return "start: latest" if self.starting == "latest" else None

    def start(self) -> Offset:
        """Return the offset before the first document, or now."""
        if self.time_field is None:
            return {"pit": None}
        return {"before": _now() if self.starting == "latest" else None}

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """Return the end of the next batch."""
        return self._snapshot_end(start, limit) if self.time_field is None else self._time_end(start, limit)

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        """Divide a point in time into slices, or a time range into ranges with about equally many documents."""
        if self.time_field is None:
            return [
                Split(PARTITION, *part)
                for part in plan_splits(Snapshot.from_offset(start), Snapshot.from_offset(end), parallelism)
            ]
        search, low, high = self._search(), self._begin_time(start), end["before"]
        parts = min(parallelism, -(-search.count(low, high) // MIN_SPLIT_DOCUMENTS))
        return [Split(PARTITION, a, b) for a, b in pairwise(divide_time(search.count, low, high, max(1, parts))) if a < b]

    def size(self, split: Split) -> int:
        """Of a snapshot's slice: more than one task should read."""
        return sys.maxsize if isinstance(split.detail, SnapshotSplit) else super().size(split)

    def read(self, split: Split) -> Iterator[pa.RecordBatch | Rejects]:
        """Read the split's documents, a page at a time."""
        search, read = self._search(), self._hit_reader.open()
        if isinstance(split.detail, SnapshotSplit):
            for hits in split.detail.pages(search, self.page, self._source_fields()):
                yield from read(hits)
            return
        with search.point_in_time() as pit:
            found = search.in_time_range(split.start, split.end).pages(pit, self.page, self._source_fields()) if pit else ()
            for hits in found:
                yield from read(hits)

    def commit(self, ends: Sequence[Offset]) -> None:
        """Close a point in time that all queries have read to its end."""
        known = [Snapshot.from_offset(end) for end in ends] if self.time_field is None else []
        if known and all(one.over and one.pit == known[0].pit for one in known) and known[0].pit:
            self._search().close_point_in_time(known[0].pit)

    def ended(self, offset: Offset) -> bool:
        """Return whether the point in time is read, without ``time_field``."""
        return self.time_field is None and Snapshot.from_offset(offset).over

    # ── A point in time ──

    def _snapshot_end(self, start: Offset, limit: Limit) -> Offset:
        begun = Snapshot.from_offset(limit.until if limit.until and start["pit"] is None else start)
        if Snapshot.from_offset(start).over:
            return start
        search = self._search()
        pit = begun.pit or search.open_point_in_time()
        if pit is None:
            return start
        if limit.max_events is None:
            return Snapshot(pit, over=True).to_offset()
        return skip_documents(search, Snapshot.from_offset(start), pit, limit.max_events).to_offset()

    # ── Time ──

    def _time_end(self, start: Offset, limit: Limit) -> Offset:
        search = self._search()
        low = self._begin_time(start)
        high = self._time_limit(limit)
        if high is None or high <= low:
            return start
        there = search.count(low, high)
        max_documents = int(max(1, limit.max_bytes / (limit.event_bytes or DEFAULT_DOCUMENT_BYTES)))
        max_documents = max_documents if limit.max_events is None else min(max_documents, limit.max_events)
        if not there:
            return start
        return {"before": high if there <= max_documents else find_end_time(search.count, low, high, max_documents)}

    def _begin_time(self, start: Offset) -> int:
        """Return the time to begin at; the time of the first document if none is known."""
        if start["before"] is not None:
            return int(start["before"])
        first = self._search().in_time_range(None, None).find_time("asc")
        return _now() if first is None else first

    def _time_limit(self, limit: Limit) -> int | None:
        """Return the time before which documents may be read now."""
        if limit.until is not None:
            return limit.until["before"]
        if not limit.bounded:
            return _now() - round(self.lag.total_seconds() * 1000)
        last = self._search().in_time_range(None, None).find_time("desc")
        return None if last is None else last + 1

    # ── Parts ──

    def _search(self) -> Search:
        from connectors.elasticsearch.searches import Search
        from connectors.http.client import shared_client

        keep = format_duration(self.keep_alive)
        return Search(shared_client(self.connection_settings()), self.index, self.query, keep, self.time_field, self.tie_breaker)

    def _source_fields(self) -> Mapping[str, Any]:
        """Return which members the server sends."""
        return {"_source": list(self.declared)} if self.declared else {}

    @property
    def _hit_reader(self) -> HitReader:
        from connectors.elasticsearch.hit_reader import HitReader

        return HitReader(self.declared, self.id_field, self.index_field)


def _now() -> int:
    return time.time_ns() // 1_000_000
