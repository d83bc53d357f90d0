"""Indexes of OpenSearch and Elasticsearch in kill tests."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from kill_table import Workspace
from running import wait_for
from servers.search.search_node import SearchNode

PAGE = 10_000
TOO_BUSY = 429
BATCH = 500
"""Documents in a request of the sink, so that a split has several requests."""
BULK = 20_000
"""Documents that one request of the test writes: a node with a small heap rejects requests of many megabytes."""
MAPPING = {"settings": {"number_of_replicas": 0}, "mappings": {"properties": {"n": {"type": "long"}, "t": {"type": "date"}}}}


class IndexInput:
    """An index of documents with the time of their writing, followed by that time; or a new index for each run, read once."""

    steps: tuple[str, ...] = ()

    def __init__(self, workspace: Workspace, kind: str, order: str) -> None:
        self.workspace, self.order, self.numbers = workspace, order, itertools.count()
        self.node: SearchNode = workspace.servers[kind]
        self.index = ""

    @property
    def options(self) -> str:
        index = f"urls: ['{self.node.address}'], index: {self.index}"
        return f"{{type: elasticsearch, {index}, page: 1000, fields: {{n: bigint, text: string}}{self.order}}}"

    def begin(self) -> None:
        self.index = f"{self.workspace.label}-in-{next(self.numbers)}"
        request(self.node, "PUT", f"/{self.index}", json.dumps(MAPPING))
        self.workspace.cleanup.callback(self.node.ask, "DELETE", f"/{self.index}")

    def write_events(self, first: int, last: int) -> None:
        now = time.time_ns() // 1_000_000
        for begin in range(first, last, BULK):
            page = range(begin, min(begin + BULK, last))
            made = (f'{{"index":{{"_id":"{n}"}}}}\n{{"n":{n},"text":"event number {n}","t":{now}}}\n' for n in page)
            answer = request(self.node, "POST", f"/{self.index}/_bulk?refresh=true", "".join(made), "application/x-ndjson")
            assert not answer["errors"]


class IndexOutput:
    """An index of documents whose ids are their events' identities."""

    def __init__(self, workspace: Workspace, kind: str) -> None:
        self.node: SearchNode = workspace.servers[kind]
        self.index = f"{workspace.label}-out"
        self.options = f"type: elasticsearch, urls: ['{self.node.address}'], index: {self.index}, batch: {{max_events: {BATCH}}}"
        workspace.cleanup.callback(self.node.ask, "DELETE", f"/{self.index}")

    def delivered(self) -> Iterator[int]:
        """Read all documents with a scroll."""
        request(self.node, "POST", f"/{self.index}/_refresh")
        query = {"size": PAGE, "sort": ["_doc"], "_source": False, "docvalue_fields": ["n"]}
        page = request(self.node, "POST", f"/{self.index}/_search?scroll=2m", json.dumps(query))
        while hits := page["hits"]["hits"]:
            yield from (hit["fields"]["n"][0] for hit in hits)
            page = request(self.node, "POST", "/_search/scroll", json.dumps({"scroll": "2m", "scroll_id": page["_scroll_id"]}))

    def check(self, total: int) -> None:
        """Check nothing more."""


def request(node: SearchNode, method: str, path: str, body: str = "", kind: str = "application/json") -> Any:
    """Send a request that must succeed; retry while the node is short of memory."""
    answers: list[tuple[int, bytes]] = []

    def is_accepted() -> bool:
        answers.append(node.ask(method, path, body.encode() or None, kind))
        return answers[-1][0] != TOO_BUSY

    wait_for(is_accepted, what="memory of the node")
    status, answer = answers[-1]
    assert status < 300, answer[:2000]
    return json.loads(answer)


def followed(kind: str) -> partial[IndexInput]:
    """An index that is followed by time; a document is visible at most ten seconds after its time."""
    return partial(IndexInput, kind=kind, order=", time_field: t, lag: 10s, tie_breaker: n")


def whole(kind: str) -> partial[IndexInput]:
    """An index that is read once, as it is when the run begins."""
    return partial(IndexInput, kind=kind, order="")


def documents(kind: str) -> partial[IndexOutput]:
    """Documents of an index."""
    return partial(IndexOutput, kind=kind)
