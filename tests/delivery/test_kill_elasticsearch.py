"""Kill -9 at random points: file to OpenSearch, exactly once.

With ``SLUICE_KILLS`` the server is restarted, too, and documents are followed from one index into another.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from killing import RUNS, kills
from running import Etl
from servers.opensearch_server import OpenSearch

PAGE = 10_000
INDEX, SOURCE = "etl-killed", "etl-killed-source"
SETTINGS = {"settings": {"number_of_replicas": 0}, "mappings": {"properties": {"t": {"type": "date"}}}}

FROM_FILE = """
    name: load
    source: {type: file, path: "{here}/in.log"}
    steps:
      - {type: regex, patterns: ['^(?<n>[0-9]+) (?<text>.*)$']}
    sink: {type: elasticsearch, urls: ["URL"], index: INDEX, batch: {max_events: 500}}
    run: {trigger: 100ms}
""".replace("INDEX", INDEX)

FROM_INDEX = """
    name: copy
    source: {type: elasticsearch, urls: ["URL"], index: SOURCE, time_field: t, lag: 10s, page: 700, fields: {n: string}}
    sink: {type: elasticsearch, urls: ["URL"], index: INDEX, batch: {max_events: 500}}
    run: {trigger: 100ms}
""".replace("SOURCE", SOURCE).replace("INDEX", INDEX)

PAIRS = {"file": FROM_FILE, "index": FROM_INDEX} if RUNS else {"file": FROM_FILE}


@contextmanager
def node(shared: OpenSearch) -> Iterator[OpenSearch]:
    """The server that all tests share; where it is to be restarted, one of its own."""
    if not RUNS:
        yield shared
        shared.ask("DELETE", f"/{INDEX}")
        return
    with OpenSearch() as own:
        yield own


def numbers(server: OpenSearch) -> Iterator[int]:
    """Every document's number, by a scroll."""
    server.ask("POST", f"/{INDEX}/_refresh")
    query = {"size": PAGE, "sort": ["_doc"], "_source": ["n"]}
    status, answer = server.ask("POST", f"/{INDEX}/_search?scroll=1m", json.dumps(query).encode())
    while True:
        assert status == 200, answer
        page = json.loads(answer)
        hits = page["hits"]["hits"]
        yield from (int(hit["_source"]["n"]) for hit in hits)
        if len(hits) < PAGE:
            return
        more = {"scroll": "1m", "scroll_id": page["_scroll_id"]}
        status, answer = server.ask("POST", "/_search/scroll", json.dumps(more).encode())


def put_lines(folder: Path, server: OpenSearch) -> Callable[[int, int], None]:
    """Append events to a file."""
    source = folder / "in.log"
    source.touch()

    def fill(first: int, last: int) -> None:
        with source.open("a") as log:
            log.write("".join(f"{n} line number {n}\n" for n in range(first, last)))

    return fill


def put_documents(folder: Path, server: OpenSearch) -> Callable[[int, int], None]:
    """Index events with the present time; which begins when it is put in."""
    server.ask("PUT", f"/{SOURCE}", json.dumps(SETTINGS).encode())

    def fill(first: int, last: int) -> None:
        lines = (f'{{"index":{{"_id":"{n}"}}}}\n{{"n":"{n}","t":{time.time_ns() // 1_000_000}}}\n' for n in range(first, last))
        status, answer = server.ask("POST", f"/{SOURCE}/_bulk?refresh=true", "".join(lines).encode(), "application/x-ndjson")
        assert (status, json.loads(answer)["errors"]) == (200, False)

    return fill


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("source", PAIRS)
def test_documents_are_there_exactly_once(etl: Etl, tmp_path: Path, opensearch: OpenSearch, source: str) -> None:
    with node(opensearch) as server:
        fill = {"file": put_lines, "index": put_documents}[source](tmp_path, server)
        pipeline = etl.pipeline(PAIRS[source].replace("URL", server.address))
        restart = server.restart if RUNS else None

        found = kills(etl, pipeline, fill, lambda: numbers(server), restart)

    assert found.exact, found
