"""Fixtures that every test may use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from etl.spark.totals import Totals

settings.register_profile("ci", derandomize=True)  # the same examples every time: a red run is a change's fault
if os.environ.get("CI"):
    settings.load_profile("ci")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def acceptance() -> Path:
    """The folder of acceptance data, which is never part of this repository."""
    folder = Path(os.environ.get("SLUICE_ACCEPTANCE", ROOT.parent / "shared" / "acceptance"))
    if not folder.is_dir():
        pytest.skip(f"acceptance data is not at {folder}; set SLUICE_ACCEPTANCE to its folder")
    return folder


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session a test run, started as a run starts it: two cores, two shuffle partitions, loopback only."""
    from etl.spark import session

    log = tmp_path_factory.mktemp("spark") / "spark.log"
    started = session.start("sluice-tests", "local[2]", {"spark.driver.memory": "1g"}, log)
    yield started
    started.stop()


@dataclass(frozen=True)
class Ran:
    """What a call of ``etl`` did."""

    status: int
    out: str
    err: str

    @property
    def done(self) -> dict[str, Any]:
        """The sums that a run with ``--log-format json`` reports at its end."""
        events = [json.loads(line) for line in self.err.splitlines() if line.startswith("{")]
        return next(event for event in events if event["event"] == "done")


class Etl:
    """The command, run as a user does, in a folder of the test's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def pipeline(self, text: str, name: str = "pipeline.yaml") -> Path:
        """Write a pipeline file; ``{here}`` is the test's folder."""
        path = self.folder / name
        path.write_text(textwrap.dedent(text).replace("{here}", str(self.folder)))
        return path

    def start(self, *words: object) -> subprocess.Popen[str]:
        """Start ``etl`` and do not wait."""
        line = [sys.executable, "-m", "etl", *map(str, words)]
        pipe = subprocess.PIPE
        return subprocess.Popen(line, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)

    def __call__(self, *words: object, stdin: str | None = None) -> Ran:
        """Run ``etl`` to its end."""
        line = [sys.executable, "-m", "etl", *map(str, words)]
        given = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
        ran = subprocess.run(line, cwd=self.folder, capture_output=True, text=True, timeout=300, check=False, **given)
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    def run(self, pipeline: Path, *words: object, stdin: str | None = None) -> Ran:
        """``etl run --once`` on two cores with a state folder of the test's."""
        base = ("run", pipeline, "--master", "local[2]", "--state", self.folder / "state", "--log-format", "json")
        return self(*base, *words, stdin=stdin)


class Engine:
    """A run inside the test's process, on the session that all tests share."""

    def __init__(self, session: SparkSession, etl: Etl) -> None:
        self.session = session
        self.etl = etl

    def __call__(self, text: str, once: bool = True, drain: bool = False, limit: int | None = None) -> Totals:
        """Run a pipeline to its end; raises what ``etl run`` would print."""
        from etl.cli.run import Options, planned_run
        from etl.config.loader import load

        options = Options(once, drain, limit, str(self.etl.folder / "state"), "local[2]", {}, "text", True, False)
        one = planned_run(load(self.etl.pipeline(text)), options, "local[2]")
        with one.prepared() as commits:
            one.work(self.session, commits)
        return one.totals


@pytest.fixture
def engine(spark: SparkSession, etl: Etl) -> Engine:
    """Run pipelines in this process."""
    return Engine(spark, etl)


@pytest.fixture
def etl(tmp_path: Path) -> Etl:
    """The command line."""
    return Etl(tmp_path)


def wait_for(condition: Callable[[], bool], seconds: float = 120, what: str = "the condition") -> None:
    """Return when the condition holds; fail after a limit."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not come true in {seconds} s"
        time.sleep(0.05)
