"""Indexing: JSON lines into OpenSearch, beside a bulk loader that is written by hand."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.contenders import PIPELINES
from benchmarks.folders import HERE, ROOT, fresh
from benchmarks.measure import Command
from benchmarks.processes import cpu_of, cpu_of_ended, until
from benchmarks.results import Result, Row
from benchmarks.settings import Settings

if TYPE_CHECKING:
    from servers.search.opensearch_server import OpenSearch

TITLE = "Indexing into OpenSearch"
ABOUT = (
    "JSON lines of 200 bytes with seven fields become documents of OpenSearch 2.19 (one shard, no replica, a mapping with "
    "keywords, numbers, an address, a date and a text), on the machine that runs the loaders, too. The loader by hand puts an "
    "action before each line as it stands and sends 5,000 at a time; `etl run` on `local[2]` follows the file, parses the "
    "lines into typed fields, writes them as JSON again and delivers exactly once. Both create documents under ids of the same "
    "length, each into an index of its own; documents are counted by the server. Seconds of CPU are the loader's; the server's "
    "have rows of their own."
)
DOCUMENTS = 400_000
WARM = 20_000
SHARE = 80.0
"""Per cent of the better loader's rate that is to be reached."""

LOADER = HERE / "peers" / "bulk_loader.py"

_KEYWORD, _INTEGER = {"type": "keyword"}, {"type": "integer"}
_INDEX = {
    "settings": {"number_of_shards": 1, "number_of_replicas": 0, "refresh_interval": "5s"},
    "mappings": {
        "properties": {
            "timestamp": {"type": "date"},
            "host": {"properties": {"hostname": _KEYWORD}},
            "process": {"properties": {"pid": _INTEGER}},
            "user_name": _KEYWORD,
            "source": {"properties": {"ip": {"type": "ip"}, "port": _INTEGER}},
            "message": {"type": "text"},
        }
    },
}


class Node:
    """The server, and what it has done."""

    def __init__(self, server: OpenSearch) -> None:
        self.server = server
        assert server.process is not None
        self._pid = server.process.pid

    def cpu(self) -> float:
        """CPU seconds so far."""
        return cpu_of(self._pid)

    def fresh_index(self) -> str:
        """An empty index."""
        name = f"bench-{time.monotonic_ns()}"
        self._request("PUT", f"/{name}", _INDEX)
        return name

    def documents(self, index: str) -> int:
        """How many were indexed."""
        path = f"/{index}/_stats/indexing?filter_path=_all.primaries.indexing.index_total"
        return int(self._request("GET", path)["_all"]["primaries"]["indexing"]["index_total"])

    def drop(self, index: str) -> None:
        """Delete it, for the next has the disk's cache to itself."""
        self._request("DELETE", f"/{index}")

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = self.server.ask(method, path, json.dumps(body).encode() if body else None)
        if status >= 300:
            raise RuntimeError(answer[:500])
        return json.loads(answer)


@dataclass
class Loader:
    """Who loads: the rate, and the server's cost."""

    row: Row
    server: Row

    @classmethod
    def called(cls, label: str) -> Loader:
        """Nothing measured yet."""
        return cls(Row(label, "documents/s"), Row(f"the server's CPU: {label}", "s per million documents"))

    def note(self, seconds: float, cpu: float, server: float) -> None:
        """One run."""
        self.note_of(DOCUMENTS, seconds, cpu, server)

    def note_of(self, documents: int, seconds: float, cpu: float, server: float) -> None:
        """One run of so many documents."""
        self.row.values.append(documents / seconds)
        self.row.wall.append(seconds)
        self.row.cpu.append(cpu)
        self.server.values.append(server / documents * 1e6)


def run(settings: Settings) -> Result:
    """The loaders and the engine in turn, on one server."""
    folder = fresh("elasticsearch")
    lines = folder / "lines.jsonl"
    lines.write_bytes(json_lines(0, DOCUMENTS))
    target = Row("etl run, of the better loader's rate", "%", at_least=SHARE)
    one, two, engine = map(Loader.called, ("by hand, one connection", "by hand, two connections", "etl run"))
    with started() as server:
        node = Node(server)
        by_hand(node, Loader.called("warming up"), lines, 2)
        for _ in range(settings.runs):
            by_hand(node, one, lines, 1)
            by_hand(node, two, lines, 2)
            by_engine(node, engine, folder)
            best = max(one.row.values[-1], two.row.values[-1])
            target.values.append(100 * engine.row.values[-1] / best)
    loaders = (one, two, engine)
    return Result("elasticsearch", TITLE, ABOUT, [*(each.row for each in loaders), target, *(each.server for each in loaders)])


def started() -> OpenSearch:
    """The server of the tests, with all of Java's compiler and a heap for work."""
    sys.path.append(str(ROOT / "tests"))
    from servers.search.opensearch_server import OpenSearch

    class Node(OpenSearch):
        options = ("-XX:TieredStopAtLevel=4",)

    return Node(heap="1g")


def json_lines(first: int, count: int) -> bytes:
    """JSON lines."""
    text = "Failed password for invalid user from an address that nobody knows, which is nothing to worry about"
    line = (
        '{{"timestamp":"2026-01-{day:02d}T10:{minute:02d}:07.{n:06d}Z","host":{{"hostname":"web{host:02d}"}},"process":{{"pid":{pid}}},'
        '"user_name":"user{user}","source":{{"ip":"10.{a}.{b}.7","port":{port}}},"message":"{text}"}}\n'
    )
    values = (
        {"day": 1 + n // 60_000 % 28, "minute": n // 1000 % 60, "n": n % 1_000_000, "host": n % 37, "pid": 1000 + n % 7919}
        | {"user": n % 211, "a": n // 251 % 251, "b": n % 251, "port": 1024 + n % 60_013, "text": text}
        for n in range(first, first + count)
    )
    return "".join(line.format_map(value) for value in values).encode()


def by_hand(node: Node, loader: Loader, lines: Path, connections: int) -> None:
    """The loader, in a process of its own."""
    index, server, cpu = node.fresh_index(), node.cpu(), cpu_of_ended()
    words = [sys.executable, str(LOADER), node.server.address, index, str(lines), str(connections)]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True)
    if node.documents(index) != DOCUMENTS:
        raise RuntimeError("the loader lost documents")
    loader.note(float(done.stdout), cpu_of_ended() - cpu, node.cpu() - server)
    node.drop(index)


def by_engine(node: Node, loader: Loader, folder: Path) -> None:
    """The engine, once it runs: from the moment when the file grows until the server has all."""
    index, file = node.fresh_index(), folder / "in.jsonl"
    file.write_bytes(json_lines(DOCUMENTS, WARM))
    with Command(argv(node, index, folder), folder, every=1.0) as command:
        until(lambda: node.documents(index), WARM, command)
        cpu, server, began = cpu_of(command.process.pid), node.cpu(), time.monotonic()
        with file.open("ab") as grown, (folder / "lines.jsonl").open("rb") as lines:
            grown.write(lines.read())
        until(lambda: node.documents(index), WARM + DOCUMENTS, command)
        loader.note(time.monotonic() - began, cpu_of(command.process.pid) - cpu, node.cpu() - server)
        command.terminate()
        if code := command.wait(60).code:
            raise RuntimeError(f"exit {code}; see {command.stderr}")
    node.drop(index)


def argv(node: Node, index: str, folder: Path) -> list[str]:
    """The command."""
    overrides = {"source.path": folder / "in.jsonl", "sink.urls": f'["{node.server.address}"]', "sink.index": index}
    options = [word for name, value in overrides.items() for word in ("--set", f"{name}={value}")]
    state = ["--master", "local[2]", "--state", str(folder / f"state-{index}")]
    return [sys.executable, "-m", "etl", "run", str(PIPELINES / "elasticsearch.yaml"), *options, *state]
