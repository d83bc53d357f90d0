"""Indexing access logs by the steps of a recipe, with and without an index template, beside a bulk loader by hand."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.elasticsearch import LOADER, Loader, Node, started
from benchmarks.folders import ROOT, fresh
from benchmarks.measure import Command
from benchmarks.processes import cpu_of, cpu_of_ended, until
from benchmarks.results import Result
from benchmarks.settings import Settings

TITLE = "Indexing access logs into OpenSearch by a recipe"
ABOUT = (
    "Lines of an access log go through the steps of the recipe `rocketmq-to-elasticsearch` (a file stands for the topic): 17 "
    "fields and the original line, 700 bytes of JSON a document. *Guessed*: without `template`, the server guesses the types of "
    "a new index. *template: ecs* is the recipe as it is. The loader by hand sends the same documents, 5,000 at a time, into an "
    "index of the same template. One shard of OpenSearch 2.19 on the machine that runs the loaders, too."
)
DOCUMENTS = 400_000
WARM = 10_000
WARM_UPS = 2
"""Loads before anything is measured: the server's second load takes a fifth less CPU than its first."""

COUNT_SECONDS = 0.2
"""Between two counts: each is a request on a connection of its own, and 1.3 ms of the server's CPU."""

RECIPE = ROOT / "pipelines" / "rocketmq-to-elasticsearch.yaml"
_PATHS = ("/", "/img/logo.png", "/shop/cart?id=%d", "/api/v1/orders/%d", "/static/app.%d.js")
_AGENTS = ("Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0", "curl/8.5.0", "Googlebot/2.1")


@dataclass(frozen=True)
class Job:
    """A pipeline of the recipe's steps over a file."""

    folder: Path
    name: str
    node: Node
    template: str | None

    @property
    def log(self) -> Path:
        """What it reads."""
        return self.folder / f"{self.name}.log"

    def argv(self) -> list[str]:
        """The command, with its pipeline written."""
        recipe = yaml.safe_load(RECIPE.read_text())
        recipe.pop("tests")
        recipe["sources"]["access"] = {"type": "file", "path": str(self.log)}
        sink: dict[str, Any] = recipe["sinks"]["search"]
        sink |= {"urls": [self.node.server.address], "index": f"{self.name}-{{yyyy.MM.dd}}", "template": self.template}
        recipe["run"] = {"trigger": "200ms"}
        file = self.folder / f"{self.name}.yaml"
        file.write_text(yaml.safe_dump(recipe))
        state = ["--master", "local[2]", "--state", str(self.folder / f"state-{self.name}")]
        return [sys.executable, "-m", "etl", "run", str(file), *state]


def run(settings: Settings) -> Result:
    """All in turn, on one server."""
    folder = fresh("elasticsearch-recipe")
    lines = access_lines(0, DOCUMENTS)
    guessed, ecs, by_hand = map(
        Loader.called, ("etl run, guessed", "etl run, template: ecs", "by hand, template: ecs, two connections")
    )
    with started() as server:
        node = Node(server)
        documents = as_documents(folder, lines)
        for number in range(WARM_UPS):
            load(node, f"warm{number}", Loader.called("warming up"), documents)
        for number in range(settings.runs):
            by_engine(Job(folder, f"guessed{number}", node, None), guessed, lines)
            by_engine(Job(folder, f"ecs{number}", node, "ecs"), ecs, lines)
            load(node, f"ecs{number}-by-hand", by_hand, documents)
    loaders = (guessed, ecs, by_hand)
    return Result("elasticsearch-recipe", TITLE, ABOUT, [*(each.row for each in loaders), *(each.server for each in loaders)])


def by_engine(job: Job, loader: Loader, lines: bytes) -> None:
    """From the moment when the log grows until the server has all."""
    job.log.write_bytes(access_lines(DOCUMENTS, WARM))
    index = f"{job.name}-2026.11.20"
    with Command(job.argv(), job.folder, every=1.0) as command:
        until(lambda: count(job.node, index), WARM, command, pause=COUNT_SECONDS)
        cpu, server, began = cpu_of(command.process.pid), job.node.cpu(), time.monotonic()
        with job.log.open("ab") as log:
            log.write(lines)
        until(lambda: count(job.node, index), WARM + DOCUMENTS, command, pause=COUNT_SECONDS)
        loader.note_of(DOCUMENTS, time.monotonic() - began, cpu_of(command.process.pid) - cpu, job.node.cpu() - server)
        command.terminate()
        if code := command.wait(60).code:
            raise RuntimeError(f"exit {code}; see {command.stderr}")
    job.node.drop(index)


def load(node: Node, index: str, loader: Loader, documents: Path) -> None:
    """The loader, in a process of its own."""
    server, cpu = node.cpu(), cpu_of_ended()
    words = [sys.executable, str(LOADER), node.server.address, index, str(documents), "2"]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True)
    if node.documents(index) != DOCUMENTS:
        raise RuntimeError("the loader lost documents")
    loader.note_of(DOCUMENTS, float(done.stdout), cpu_of_ended() - cpu, node.cpu() - server)
    node.drop(index)


def count(node: Node, index: str) -> int:
    """Documents of an index that may not be there yet."""
    path = f"/{index}/_stats/indexing?filter_path=_all.primaries.indexing.index_total"
    status, answer = node.server.ask("GET", path)
    return int(json.loads(answer)["_all"]["primaries"]["indexing"]["index_total"]) if status == 200 else 0


def as_documents(folder: Path, lines: bytes) -> Path:
    """The documents that the recipe makes of the lines, a line each."""
    log, out = folder / "all.log", folder / "documents.jsonl"
    log.write_bytes(lines)
    recipe = yaml.safe_load(RECIPE.read_text())
    recipe.pop("tests")
    recipe["sources"]["access"] = {"type": "file", "path": str(log)}
    recipe["sinks"]["search"] = {"from": "documents", "type": "file", "path": str(out)}
    file = folder / "documents.yaml"
    file.write_text(yaml.safe_dump(recipe))
    state = ["--once", "--state", str(folder / "state-documents")]
    subprocess.run([sys.executable, "-m", "etl", "run", str(file), *state], check=True, capture_output=True)
    return out


def access_lines(first: int, number: int) -> bytes:
    """Lines of an access log (combined)."""
    return "".join(_line(n) for n in range(first, first + number)).encode()


def _line(n: int) -> str:
    path = _PATHS[n % len(_PATHS)]
    address = f"10.{n // 251 % 251}.{n % 251}.{n % 17}"
    time_ = f"20/Nov/2026:{n // 3600 % 24:02d}:{n // 60 % 60:02d}:{n % 60:02d} +0000"
    request = f"GET {path % (n % 5003) if '%' in path else path} HTTP/1.1"
    status, size = (200, 304, 404)[n % 3], n % 90_001
    return f'{address} - - [{time_}] "{request}" {status} {size} "https://example.org/" "{_AGENTS[n % 3]}"\n'
