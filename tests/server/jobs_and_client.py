"""A folder of jobs with a server and an engine without Spark, and requests to its API."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fake_engine import FakeEngine, FakeRun
from running import wait_for

from etl.running.metrics_server import ListenAddress
from etl.server.names import PipelineName
from etl.server.pipeline_server import PipelineServer

LOOPBACK = ListenAddress("127.0.0.1", 0)


@dataclass(frozen=True)
class Answer:
    """The answer to a request."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass(frozen=True)
class Client:
    """Sends requests to an address."""

    address: ListenAddress

    def __call__(self, method: str, path: str, body: str | bytes | None = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection(self.address.host, self.address.port, timeout=120)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, body.encode() if isinstance(body, str) else body, named)
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode())
        finally:
            connection.close()


@dataclass(frozen=True)
class Jobs:
    """The folder of jobs, the engine and the server."""

    folder: Path
    engine: FakeEngine
    server: PipelineServer

    def text(self, name: str = "a", more: str = "") -> str:
        """A pipeline that reads and writes files of its own."""
        here = self.folder.parent
        return (
            f'source: {{type: file, path: "{here}/{name}.log"}}\n{more}'
            f'steps:\n- {{type: filter, where: "message <> \'\'"}}\nsink: {{type: file, path: "{here}/{name}.jsonl"}}\n'
        )

    def put(self, name: str, text: str | None = None, suffix: str = ".yaml") -> None:
        """Write a file of the folder."""
        path = self.folder / f"{name}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.folder.parent / f"{path.name}.new"  # a half written file would be refused
        draft.write_text(self.text(path.stem) if text is None else text)
        draft.replace(path)

    def wait(self, name: str, status: str) -> None:
        """Wait for the status of a pipeline."""
        wait_for(lambda: self.status(name) == status, what=f"status {status} of {name}, which is {self.status(name)}")

    def status(self, name: str) -> str:
        found = {str(job.name): job.status for job in self.server.jobs()}
        return found.get(name, "none")

    def run(self, name: str) -> FakeRun:
        """The run of a pipeline."""
        run = self.server.job(PipelineName.parse(name)).run
        assert isinstance(run, FakeRun)
        return run
