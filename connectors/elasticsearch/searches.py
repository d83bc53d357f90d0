"""Searches: count documents in a time range, and read them page by page from a point in time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from connectors.elasticsearch.bulk_response import raise_for_response
from connectors.elasticsearch.hits import Hits, parse_hits
from connectors.http.client import Client
from connectors.http.connection import Response
from etl.api import ComponentError

_PAGE_PATH = (
    "/_search?allow_partial_search_results=false"
    "&filter_path=pit_id,timed_out,hits.hits._index,hits.hits._id,hits.hits._source,hits.hits.sort"
)
_UNKNOWN_PATH = (400, 405)
"""Statuses with which OpenSearch refuses Elasticsearch's path for points in time."""

_NO_INDEX = b"invalid id: [null]"
"""OpenSearch's message for a point in time of no index at all."""


@dataclass(frozen=True, slots=True)
class PointInTime:
    """A point in time held by a cluster: searches see the documents of that time."""

    id: str
    native: bool
    """Whether Elasticsearch holds it, which orders documents of equal sort values itself; OpenSearch does not."""

    @property
    def tie_breaker(self) -> str:
        """Field that makes the order of documents complete."""
        return "_shard_doc" if self.native else "_id"


@dataclass(frozen=True, slots=True)
class Search:
    """Which documents of which indices to read."""

    client: Client
    index: str
    query: Mapping[str, Any] | None
    keep_alive: str
    time_field: str | None = None
    tie_breaker: str | None = None

    def in_time_range(self, low: int | None, high: int | None) -> Search:
        """Restrict to documents whose time is from ``low`` to before ``high`` (milliseconds since 1970)."""
        bounds = {"format": "epoch_millis"} | ({} if low is None else {"gte": low}) | ({} if high is None else {"lt": high})
        filters = [{"range": {str(self.time_field): bounds}}, *([self.query] if self.query else [])]
        return replace(self, query={"bool": {"filter": filters}})

    def count(self, low: int, high: int) -> int:
        """Return the current number of documents whose time is from ``low`` to before ``high``."""
        return int(self._request_json("POST", f"/{self._path}/_count", {"query": self.in_time_range(low, high)._query})["count"])

    def find_time(self, order: str) -> int | None:
        """Return the time (milliseconds since 1970) of the first (``asc``) or last (``desc``) document; None if there are
        none.
        """
        sort = [{str(self.time_field): {"order": order, "numeric_type": "date", "unmapped_type": "date"}}]
        body = {"size": 1, "query": self._query, "_source": False, "sort": sort}
        hits = self._request_json("POST", f"/{self._path}/_search?allow_partial_search_results=false", body)["hits"]["hits"]
        return int(hits[0]["sort"][0]) if hits else None

    @contextmanager
    def point_in_time(self) -> Iterator[PointInTime | None]:
        """Open a point in time and close it at the end."""
        pit = self.open_point_in_time()
        try:
            yield pit
        finally:
            if pit is not None:
                self.close_point_in_time(pit)

    def open_point_in_time(self) -> PointInTime | None:
        """Open a point in time; None if a pattern matches no index."""
        response = self.client.request("POST", f"/{self._path}/_pit?keep_alive={self.keep_alive}")
        if response.status not in _UNKNOWN_PATH:
            return PointInTime(self._parse_json(response)["id"], True)
        found = self.client.request("POST", f"/{self._path}/_search/point_in_time?keep_alive={self.keep_alive}")
        return None if _NO_INDEX in found.body else PointInTime(self._parse_json(found)["pit_id"], False)

    def close_point_in_time(self, pit: PointInTime) -> None:
        """Close a point in time; ignores that it no longer exists or that the server cannot be reached."""
        body = {"id": pit.id} if pit.native else {"pit_id": [pit.id]}
        try:
            self.client.request("DELETE", "/_pit" if pit.native else "/_search/point_in_time", json.dumps(body).encode())
        except ConnectionError:
            return  # the server closes it after keep_alive

    def pages(self, pit: PointInTime, size: int, more: Mapping[str, Any], after: Sequence[Any] | None = None) -> Iterator[Hits]:
        """Yield documents in order, ``size`` at a time. ``more`` is added to each request (``slice``, ``_source`` …)."""
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
            response = self.client.request("POST", _PAGE_PATH, json.dumps(body).encode())
            if response.status != 200:
                raise _to_exception(response, self.keep_alive)
            hits = parse_hits(response, size)
            if hits.response.get("timed_out"):
                raise ConnectionError(f"{response.server} did not search all shards in time")
            pit, after = replace(pit, id=hits.response.get("pit_id", pit.id)), hits.after
            if len(hits.id):
                yield hits
            if len(hits.id) < size:
                return

    def _order(self, pit: PointInTime) -> list[Any]:
        """Return the sort order: time, then the field that orders documents of equal times."""
        order: list[Any] = [{self.time_field: {"order": "asc", "unmapped_type": "date"}}] if self.time_field else []
        order += [self.tie_breaker] if self.tie_breaker else []
        return order if self.tie_breaker and not pit.native else [*order, pit.tie_breaker]

    @property
    def _path(self) -> str:
        return quote(self.index, safe="*,-")

    @property
    def _query(self) -> Mapping[str, Any]:
        return self.query or {"match_all": {}}

    def _request_json(self, method: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._parse_json(self.client.request(method, path, json.dumps(body).encode()))

    def _parse_json(self, response: Response) -> dict[str, Any]:
        if response.status != 200:
            raise _to_exception(response, self.keep_alive)
        try:
            return dict(json.loads(response.body))
        except (ValueError, TypeError) as error:
            raise ConnectionError(f"{response.server} sent a response that is not JSON: {response.excerpt()!r}") from error


def _to_exception(response: Response, keep_alive: str) -> Exception:
    if b"search_context_missing" in response.body:
        return ComponentError(
            f"{response.server} has closed the point in time, which it holds for {keep_alive} or until one of its nodes stops: "
            "start again with a new --state, and a longer keep_alive if it was too short; documents that are read again have the "
            "same identities"
        )
    try:
        raise_for_response(response)
    except (OSError, ComponentError) as error:
        return error
    raise AssertionError("refuse always raises")
