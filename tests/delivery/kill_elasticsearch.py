"""Indexes of OpenSearch and Elasticsearch, in trials in which runs and nodes are killed."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from kill_table import Stage
from running import wait_for
from servers.search_node import SearchNode

PAGE = 10_000
TOO_BUSY = 429
BATCH = 500
"""Documents in a request: several in each split."""
BULK = 20_000
"""Documents put in at once: a node of a small heap takes no requests of many megabytes."""
MAPPING = {"settings": {"number_of_replicas": 0}, "mappings": {"properties": {"n": {"type": "long"}, "t": {"type": "date"}}}}


class IndexFeed:
    """Documents with the time at which they are put in: followed by it, or for each run an index that is read whole."""

    steps: tuple[str, ...] = ()

    def __init__(self, stage: Stage, kind: str, order: str) -> None:
        self.stage, self.order, self.numbers = stage, order, itertools.count()
        self.node: SearchNode = stage.servers[kind]
        self.index = ""

    @property
    def options(self) -> str:
        place = f"urls: ['{self.node.address}'], index: {self.index}"
        return f"{{type: elasticsearch, {place}, page: 1000, fields: {{n: bigint, text: string}}{self.order}}}"

    def begin(self) -> None:
        self.index = f"{self.stage.label}-in-{next(self.numbers)}"
        asked(self.node, "PUT", f"/{self.index}", json.dumps(MAPPING))
        self.stage.clearing.callback(self.node.ask, "DELETE", f"/{self.index}")

    def fill(self, first: int, last: int) -> None:
        now = time.time_ns() // 1_000_000
        for begin in range(first, last, BULK):
            page = range(begin, min(begin + BULK, last))
            made = (f'{{"index":{{"_id":"{n}"}}}}\n{{"n":{n},"text":"event number {n}","t":{now}}}\n' for n in page)
            answer = asked(self.node, "POST", f"/{self.index}/_bulk?refresh=true", "".join(made), "application/x-ndjson")
            assert not answer["errors"]


class IndexCatch:
    """An index of documents whose ids are their events' identities."""

    def __init__(self, stage: Stage, kind: str) -> None:
        self.node: SearchNode = stage.servers[kind]
        self.index = f"{stage.label}-out"
        self.options = f"type: elasticsearch, urls: ['{self.node.address}'], index: {self.index}, batch: {{max_events: {BATCH}}}"
        stage.clearing.callback(self.node.ask, "DELETE", f"/{self.index}")

    def delivered(self) -> Iterator[int]:
        """By a scroll."""
        asked(self.node, "POST", f"/{self.index}/_refresh")
        query = {"size": PAGE, "sort": ["_doc"], "_source": False, "docvalue_fields": ["n"]}
        page = asked(self.node, "POST", f"/{self.index}/_search?scroll=2m", json.dumps(query))
        while hits := page["hits"]["hits"]:
            yield from (hit["fields"]["n"][0] for hit in hits)
            page = asked(self.node, "POST", "/_search/scroll", json.dumps({"scroll": "2m", "scroll_id": page["_scroll_id"]}))

    def prove(self, total: int) -> None:
        """Nothing more."""


def asked(node: SearchNode, method: str, path: str, body: str = "", kind: str = "application/json") -> Any:
    """A request that must succeed, perhaps when a node that is short of memory has some again."""
    answers: list[tuple[int, bytes]] = []

    def taken() -> bool:
        answers.append(node.ask(method, path, body.encode() or None, kind))
        return answers[-1][0] != TOO_BUSY

    wait_for(taken, what="room on the node")
    status, answer = answers[-1]
    assert status < 300, answer[:2000]
    return json.loads(answer)


def followed(kind: str) -> partial[IndexFeed]:
    """By time; a document arrives at most ten seconds behind its own."""
    return partial(IndexFeed, kind=kind, order=", time_field: t, lag: 10s, tie_breaker: n")


def whole(kind: str) -> partial[IndexFeed]:
    """As it is when the run begins."""
    return partial(IndexFeed, kind=kind, order="")


def documents(kind: str) -> partial[IndexCatch]:
    """Documents of an index."""
    return partial(IndexCatch, kind=kind)
