"""Searches: counting documents in a time, and reading them page by page from a point in time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from connectors.elasticsearch.answers import refuse
from connectors.elasticsearch.hits import Hits, read_hits
from connectors.http.client import Client
from connectors.http.connection import Answer
from etl.api import ComponentError

_PAGE_PATH = (
    "/_search?allow_partial_search_results=false"
    "&filter_path=pit_id,timed_out,hits.hits._index,hits.hits._id,hits.hits._source,hits.hits.sort"
)
_NO_SUCH_PLACE = (400, 405)
"""What OpenSearch says to Elasticsearch's place for points in time."""

_NO_INDEX = b"invalid id: [null]"
"""What OpenSearch says of a point in time of no index at all."""


@dataclass(frozen=True, slots=True)
class Pit:
    """A point in time that a cluster keeps: what a search sees does not change."""

    id: str
    native: bool
    """Whether Elasticsearch keeps it, which tells documents of equal sort values apart by itself; OpenSearch does not."""

    @property
    def tie_breaker(self) -> str:
        """What makes the order of documents complete."""
        return "_shard_doc" if self.native else "_id"


@dataclass(frozen=True, slots=True)
class Search:
    """Which documents of which indices."""

    client: Client
    index: str
    query: Mapping[str, Any] | None
    keep_alive: str
    time_field: str | None = None
    tie_breaker: str | None = None

    def within(self, low: int | None, high: int | None) -> Search:
        """Those whose time is from ``low`` to before ``high`` (milliseconds since 1970)."""
        bounds = {"format": "epoch_millis"} | ({} if low is None else {"gte": low}) | ({} if high is None else {"lt": high})
        filters = [{"range": {str(self.time_field): bounds}}, *([self.query] if self.query else [])]
        return replace(self, query={"bool": {"filter": filters}})

    def count(self, low: int, high: int) -> int:
        """How many documents there are now whose time is from ``low`` to before ``high``."""
        return int(self._ask("POST", f"/{self._path}/_count", {"query": self.within(low, high)._query})["count"])

    def edge(self, order: str) -> int | None:
        """The time (milliseconds since 1970) of the first (``asc``) or last (``desc``) document; None without any."""
        sort = [{str(self.time_field): {"order": order, "numeric_type": "date", "unmapped_type": "date"}}]
        body = {"size": 1, "query": self._query, "_source": False, "sort": sort}
        hits = self._ask("POST", f"/{self._path}/_search?allow_partial_search_results=false", body)["hits"]["hits"]
        return int(hits[0]["sort"][0]) if hits else None

    @contextmanager
    def point_in_time(self) -> Iterator[Pit | None]:
        """One that is given up afterwards."""
        pit = self.open()
        try:
            yield pit
        finally:
            if pit is not None:
                self.close(pit)

    def open(self) -> Pit | None:
        """Keep what is there now; None where a pattern finds no index."""
        answer = self.client.ask("POST", f"/{self._path}/_pit?keep_alive={self.keep_alive}")
        if answer.status not in _NO_SUCH_PLACE:
            return Pit(self._json(answer)["id"], True)
        found = self.client.ask("POST", f"/{self._path}/_search/point_in_time?keep_alive={self.keep_alive}")
        return None if _NO_INDEX in found.body else Pit(self._json(found)["pit_id"], False)

    def close(self, pit: Pit) -> None:
        """Give it up; it is no trouble when it is gone already, or when the server cannot be reached."""
        body = {"id": pit.id} if pit.native else {"pit_id": [pit.id]}
        try:
            self.client.ask("DELETE", "/_pit" if pit.native else "/_search/point_in_time", json.dumps(body).encode())
        except ConnectionError:
            return  # the server forgets it by itself

    def pages(self, pit: Pit, size: int, more: Mapping[str, Any], after: Sequence[Any] | None = None) -> Iterator[Hits]:
        """Documents in order, ``size`` at a time. ``more`` goes into each request (``slice``, ``_source`` …)."""
        while True:
            body = {
                "size": size,
                "query": self._query,
                "track_total_hits": False,
                "pit": {"id": pit.id, "keep_alive": self.keep_alive},
                "sort": self._order(pit),
                **more,
                **({"search_after": after} if after else {}),
            }
            answer = self.client.ask("POST", _PAGE_PATH, json.dumps(body).encode())
            if answer.status != 200:
                raise _refused(answer, self.keep_alive)
            hits = read_hits(answer, size)
            if hits.rest.get("timed_out"):
                raise ConnectionError(f"{answer.place} did not search all shards in time")
            pit, after = replace(pit, id=hits.rest.get("pit_id", pit.id)), hits.after
            if len(hits.id):
                yield hits
            if len(hits.id) < size:
                return

    def _order(self, pit: Pit) -> list[Any]:
        """Time first; then what tells documents of equal times apart."""
        order: list[Any] = [{self.time_field: {"order": "asc", "unmapped_type": "date"}}] if self.time_field else []
        order += [self.tie_breaker] if self.tie_breaker else []
        return order if self.tie_breaker and not pit.native else [*order, pit.tie_breaker]

    @property
    def _path(self) -> str:
        return quote(self.index, safe="*,-")

    @property
    def _query(self) -> Mapping[str, Any]:
        return self.query or {"match_all": {}}

    def _ask(self, method: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._json(self.client.ask(method, path, json.dumps(body).encode()))

    def _json(self, answer: Answer) -> dict[str, Any]:
        if answer.status != 200:
            raise _refused(answer, self.keep_alive)
        try:
            return dict(json.loads(answer.body))
        except (ValueError, TypeError) as error:
            raise ConnectionError(f"{answer.place} answers no JSON: {answer.excerpt()!r}") from error


def _refused(answer: Answer, keep_alive: str) -> Exception:
    if b"search_context_missing" in answer.body:
        return ComponentError(
            f"{answer.place} has given up the point in time, which it keeps for {keep_alive} or until one of its nodes ends: "
            "begin again with a new --state, and a longer keep_alive if it was too short; documents that are read again have the "
            "same identities"
        )
    try:
        refuse(answer)
    except (OSError, ComponentError) as error:
        return error
    raise AssertionError("refuse always raises")
