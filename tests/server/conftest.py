"""A server of pipelines without Spark, and its API over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_engine import FakeEngine
from jobs_and_client import LOOPBACK, Client, Jobs

from etl.server.app import create_app
from etl.server.jobs_folder import JobsFolder
from etl.server.listening import listening
from etl.server.pipeline_server import PipelineServer


@pytest.fixture
def engine(tmp_path: Path) -> FakeEngine:
    return FakeEngine(tmp_path / "state")


@pytest.fixture
def jobs(tmp_path: Path, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jobs]:
    """A server that has not started."""
    monkeypatch.setattr("etl.server.pipeline_server.WATCH_SECONDS", 0.02)
    monkeypatch.setattr("etl.server.job.FIRST_WAIT_SECONDS", 0.02)
    folder = tmp_path / "jobs"
    folder.mkdir()
    server = PipelineServer(JobsFolder(folder), engine.root, engine)
    yield Jobs(folder, engine, server)
    assert server.stop(20) == []


@pytest.fixture
def client(jobs: Jobs) -> Iterator[Client]:
    """The API of the server, which has started."""
    jobs.server.start()
    with listening(create_app(jobs.server), LOOPBACK) as address:
        yield Client(address)
