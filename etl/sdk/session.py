"""The Spark session of this process: started by the first run that needs one, shared by all later ones."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etl.api import EtlError
from etl.plan.query_plan import Plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from etl.running.shared_session import SharedSession

_lock = threading.RLock()
_current: dict[str, Any] = {}
"""The shared session, its settings and folder, under ``session``, ``settings`` and ``folder``; empty before the first run."""


def shared_session(master: str = "local[*]", settings: Mapping[str, str] | None = None) -> SharedSession:
    """The session of this process; one with another master or other settings is ended first."""
    from etl.running.shared_session import SharedSession
    from etl.spark.masters import local_master

    wanted = (local_master(master), dict(settings or {}))
    with _lock:
        if _current and _current["settings"] != wanted:
            stop_spark()
        if not _current:
            folder = Path(tempfile.mkdtemp(prefix="sluice-"))
            _current["session"] = SharedSession("sluice", wanted[0], folder / "spark.log", wanted[1])
            _current["settings"], _current["folder"] = wanted, folder
        return _current["session"]


def stop_spark() -> None:
    """End the session of this process, if there is one; the next run starts another."""
    with _lock:
        if _current:
            session, folder = _current["session"], _current["folder"]
            _current.clear()
            session.stop()
            shutil.rmtree(folder, ignore_errors=True)


atexit.register(stop_spark)


def run_plan(plan: Plan, state: Path, drain: bool) -> None:
    """Run the queries of a test's plan that need Spark, on the session that is there, or a new one."""
    from etl.testing.on_spark import run_on

    with _lock:
        shared = _current["session"] if _current else shared_session()
    run_on(shared, plan, state, drain)


def _check_workers(session: SparkSession) -> None:
    """Raises EtlError if Spark's Python processes do not run this interpreter, and so do not find this package."""
    jvm: Any = session.sparkContext._jvm
    python = jvm.java.lang.System.getenv("PYSPARK_PYTHON") or shutil.which("python3") or "python3"
    given = jvm.java.lang.System.getenv("PYSPARK_PYTHON") is not None
    if not given and Path(python).parent != Path(sys.executable).parent:
        raise EtlError(
            f"the workers of this session run {python}, and this program runs {sys.executable}: before the session starts, set "
            "os.environ['PYSPARK_PYTHON'] = sys.executable"
        )


def given_session(session: SparkSession) -> SharedSession:
    """A session that the caller has started, with Spark's settings of ours that it can change without changing it."""
    from etl.running.shared_session import SharedSession
    from etl.spark.session import SETTINGS

    if not hasattr(session, "sparkContext"):
        raise EtlError(
            f"{type(session).__name__} is no SparkSession of this process: a session of Spark Connect runs no pipelines"
        )
    _check_workers(session)
    own = session.newSession()
    for name, value in SETTINGS.items():
        if name.startswith("spark.sql.") and session.conf.isModifiable(name):
            own.conf.set(name, value)

    class Given(SharedSession):
        """Runs on a session that is not ended."""

        def started(self) -> SparkSession:
            return own

        def stop(self) -> None:
            """Nothing: its owner ends it."""

    log = Path(tempfile.mkdtemp(prefix="sluice-")) / "spark.log"
    log.touch()
    return Given("sluice", str(session.sparkContext.master), log)
