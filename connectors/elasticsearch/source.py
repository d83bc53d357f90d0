"""The ``elasticsearch`` source."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from connectors.elasticsearch.access import Cluster
from connectors.elasticsearch.following import cut, edges
from connectors.elasticsearch.snapshot import Portion, Snapshot, cursor_after, slices
from etl.api import Duration, FieldName, Finding, Limit, Offset, Rejects, Schema, Source, Split, TypeName, format_duration

if TYPE_CHECKING:
    from connectors.elasticsearch.reading import Reading
    from connectors.elasticsearch.searches import Search

PARTITION = "documents"
SPLIT_DOCUMENTS = 5000
"""Fewest documents that are worth a split of their own."""

TYPICAL_BYTES = 500.0
"""Of a document, before any was seen."""


class ElasticsearchSource(Cluster, Source):
    """Read documents of Elasticsearch (7.12 and newer) or OpenSearch (2.4 and newer), once or as they come.

    Without ``time_field`` the documents that are there when the run begins are read once, from a point in time that the
    server keeps, in slices side by side, and the run ends. A run that was killed goes on from the same point, as long as the
    server keeps it (``keep_alive`` after the last request, and not beyond the restart of a node that has a shard of it); then
    it must begin again.

    With ``time_field`` documents are followed by their time, which is a ``date``: each micro-batch reads those from the end of
    the last to before now less ``lag``, so a document must arrive within ``lag`` of its own time, or it is never seen; with
    ``--once`` there is no lag. Documents without a time are not read. Splits are ranges of time, in order; within one
    documents are in the order of time, then of ``tie_breaker``.

    An event's identity is its document's (a 63-bit number made of index and id), whatever split or run reads it, so delivery
    is exactly as good as the sink's as long as documents are not changed; a changed one is not read again. These numbers do not
    grow, so a `database` sink with a ledger writes each split in one transaction.

    With ``fields`` an event has these members of the document, as the parser `json` reads them (one that does not fit its
    type is a dead letter); without, the whole document is text in ``message``. On OpenSearch before 3.3 documents of the same
    time are told apart by ``_id``, which costs the server memory; name a ``tie_breaker`` there: a field without two equal
    values.

    Parallelism: slices or ranges of time, a request each. Tested against Elasticsearch 7.17, 8.19 and 9.5, and OpenSearch 2.19,
    this also with users and TLS: clusters absent at the start, runs killed on the way. API keys were tested against a server
    of our own only. Memory of a task: a page, three times.

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
        json_schema_extra={"patternErrorMessage": "is no name of an index: without blanks, '/', '?' and '#'"},
        examples=["logs-*", "logs-a,logs-b"],
    )
    query: dict[str, Any] | None = Field(
        default=None,
        description="Which documents, in the server's query language; none means all.",
        examples=[{"term": {"event.dataset": "sshd"}}],
    )
    declared: dict[FieldName, TypeName] = Field(
        alias="fields",
        default={},
        description="Members of the document that become fields, and their types; none means its text in `message`.",
        examples=[{"timestamp": "timestamp", "source.ip": "string"}],
    )
    id_field: FieldName | None = Field(default=None, description="Field that gets the document's id.")
    index_field: FieldName | None = Field(default=None, description="Field that gets the name of the document's index.")
    time_field: str | None = Field(
        default=None, description="Date that documents are followed by; none means that they are read once."
    )
    tie_breaker: str | None = Field(default=None, description="Field that tells documents of the same time apart.")
    lag: Duration = Field(default=timedelta(seconds=30), description="How much later than its own time a document may arrive.")
    starting: Literal["earliest", "latest"] = Field(
        alias="start", default="earliest", description="Where a new pipeline begins to follow."
    )
    page: int = Field(default=5000, description="Documents in one request.", ge=1, le=10_000)
    keep_alive: Duration = Field(
        default=timedelta(minutes=10), description="How long the server keeps a point in time after a request.", gt=timedelta(0)
    )

    ordered: ClassVar[bool] = False

    def check(self) -> Iterable[Finding]:
        """Options without effect, fields that contradict each other."""
        yield from self.check_access()
        followed = {"tie_breaker", "lag", "starting"} & self.model_fields_set if self.time_field is None else set()
        for name in sorted(followed - {"tie_breaker"}):
            option = "start" if name == "starting" else name
            yield Finding("unused-option", f"{option} is for following by time_field", (option,), severity="warning")
        if self.declared:
            yield from self._reading.check()

    def fields(self) -> Schema:
        """The declared fields or ``message``, and what the document is called."""
        return self._reading.fields()

    def reads(self, target: str) -> bool:
        """Whether it is one of the indices, of a cluster with one of the URLs, and new documents are waited for."""
        url, _, index = target.removeprefix("index ").rpartition("/")
        wanted = any(fnmatchcase(index, one) for one in self.index.split(","))
        return target.startswith("index ") and self.time_field is not None and url in self.urls and wanted

    def probe(self) -> Iterable[Finding]:
        """Log in, look for the index, and whether its time is one."""
        from connectors.elasticsearch.probe import probe_source

        return probe_source(self, self.index, self.time_field)

    @property
    def skips(self) -> str | None:
        """Documents that are there already, if the options say so."""
        return "start: latest" if self.starting == "latest" else None

    def start(self) -> Offset:
        """Before the first document, or now."""
        if self.time_field is None:
            return {"pit": None}
        return {"before": _now() if self.starting == "latest" else None}

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """Up to where a micro-batch may go."""
        return self._snapshot_end(start, limit) if self.time_field is None else self._time_end(start, limit)

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        """Slices of a point in time, or ranges of time with about equally many documents."""
        if self.time_field is None:
            return [Split(PARTITION, *part) for part in slices(Snapshot.of(start), Snapshot.of(end), parallelism)]
        search, low, high = self._search(), self._first(start), end["before"]
        parts = min(parallelism, -(-search.count(low, high) // SPLIT_DOCUMENTS))
        return [Split(PARTITION, a, b) for a, b in pairwise(edges(search.count, low, high, max(1, parts))) if a < b]

    def read(self, split: Split) -> Iterator[pa.RecordBatch | Rejects]:
        """The split's documents, a page at a time."""
        search, read = self._search(), self._reading.opened()
        if isinstance(split.detail, Portion):
            for hits in split.detail.pages(search, self.page, self._wanted()):
                yield from read(hits)
            return
        with search.point_in_time() as pit:
            found = search.within(split.start, split.end).pages(pit, self.page, self._wanted()) if pit else ()
            for hits in found:
                yield from read(hits)

    def commit(self, ends: Sequence[Offset]) -> None:
        """A point in time that all have read to its end is given up."""
        known = [Snapshot.of(end) for end in ends] if self.time_field is None else []
        if known and all(one.over and one.pit == known[0].pit for one in known) and known[0].pit:
            self._search().close(known[0].pit)

    def ended(self, offset: Offset) -> bool:
        """When a point in time was read."""
        return self.time_field is None and Snapshot.of(offset).over

    # ── A point in time ──

    def _snapshot_end(self, start: Offset, limit: Limit) -> Offset:
        begun = Snapshot.of(limit.until if limit.until and start["pit"] is None else start)
        if Snapshot.of(start).over:
            return start
        search = self._search()
        pit = begun.pit or search.open()
        if pit is None:
            return start
        if limit.max_events is None:
            return Snapshot(pit, over=True).offset()
        return cursor_after(search, Snapshot.of(start), pit, limit.max_events).offset()

    # ── Time ──

    def _time_end(self, start: Offset, limit: Limit) -> Offset:
        search = self._search()
        low = self._first(start)
        high = self._horizon(limit)
        if high is None or high <= low:
            return start
        there = search.count(low, high)
        most = int(max(1, limit.max_bytes / (limit.event_bytes or TYPICAL_BYTES)))
        most = most if limit.max_events is None else min(most, limit.max_events)
        if not there:
            return start
        return {"before": high if there <= most else cut(search.count, low, high, most)}

    def _first(self, start: Offset) -> int:
        """The time to begin at; where none is known, that of the first document."""
        if start["before"] is not None:
            return int(start["before"])
        first = self._search().within(None, None).edge("asc")
        return _now() if first is None else first

    def _horizon(self, limit: Limit) -> int | None:
        """Before which time there is what may be read now."""
        if limit.until is not None:
            return limit.until["before"]
        if not limit.bounded:
            return _now() - round(self.lag.total_seconds() * 1000)
        last = self._search().within(None, None).edge("desc")
        return None if last is None else last + 1

    # ── Parts ──

    def _search(self) -> Search:
        from connectors.elasticsearch.searches import Search
        from connectors.http.client import client_of

        keep = format_duration(self.keep_alive)
        return Search(client_of(self.access()), self.index, self.query, keep, self.time_field, self.tie_breaker)

    def _wanted(self) -> Mapping[str, Any]:
        """Which members the server sends."""
        return {"_source": list(self.declared)} if self.declared else {}

    @property
    def _reading(self) -> Reading:
        from connectors.elasticsearch.reading import Reading

        return Reading(self.declared, self.id_field, self.index_field)


def _now() -> int:
    return time.time_ns() // 1_000_000
