"""Running pipelines in tests: the command as a user does, or inside the test's process."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from etl.spark.totals import Totals

ROOT = Path(__file__).resolve().parent.parent


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

    def start(self, *words: object, apart: bool = False) -> subprocess.Popen[str]:
        """Start ``etl`` and do not wait; ``apart``: in a process group of its own."""
        line = [sys.executable, "-m", "etl", *map(str, words)]
        pipe = subprocess.PIPE
        nothing = subprocess.DEVNULL
        return subprocess.Popen(
            line, cwd=self.folder, stdin=nothing, stdout=pipe, stderr=pipe, text=True, start_new_session=apart
        )

    def __call__(self, *words: object, stdin: str | None = None) -> Ran:
        """Run ``etl`` to its end."""
        line = [sys.executable, "-m", "etl", *map(str, words)]
        given = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
        ran = subprocess.run(line, cwd=self.folder, capture_output=True, text=True, timeout=300, check=False, **given)
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    def run(self, pipeline: Path, *words: object, stdin: str | None = None) -> Ran:
        """``etl run`` on two cores with a state folder of the test's; without ``--once`` it ends only if its sources do."""
        base = ("run", pipeline, "--master", "local[2]", "--state", self.folder / "state", "--log-format", "json")
        return self(*base, *words, stdin=stdin)


class Engine:
    """A run inside the test's process, on the session that all tests share."""

    def __init__(self, session: SparkSession, etl: Etl) -> None:
        self.session = session
        self.etl = etl

    def __call__(self, text: str, once: bool = True, drain: bool = False, limit: int | None = None) -> Totals:
        """Run a pipeline to its end; raises what ``etl run`` would print."""
        from etl.cli.planned import Options, planned_run
        from etl.config.loader import load

        options = Options(once, drain, limit, str(self.etl.folder / "state"), "local[2]", {}, "text", True, False)
        one = planned_run(load(self.etl.pipeline(text)), options, "local[2]")
        with one.prepared() as commits:
            one.work(self.session, commits)
        return one.totals


def wait_for(condition: Callable[[], bool], seconds: float = 120, what: str = "the condition") -> None:
    """Return when the condition holds; fail after a limit."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not come true in {seconds} s"
        time.sleep(0.05)
