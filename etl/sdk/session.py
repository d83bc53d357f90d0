"""The Spark session of this process: started by the first run that needs one, shared by all later ones."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from etl.api import EtlError
from etl.plan.query_plan import Plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from etl.running.shared_session import SharedSession

_lock = threading.RLock()
_current: dict[str, Any] = {}
"""The shared session and its settings, under ``session`` and ``settings``; empty before the first run."""


def shared_session(master: str = "local[*]", settings: Mapping[str, str] | None = None) -> SharedSession:
    """The session of this process; one with another master or other settings is ended first."""
    from etl.running.shared_session import SharedSession
    from etl.spark.masters import local_master

    requested = (local_master(master), dict(settings or {}))
    with _lock:
        _forget_ended()
        if _current and _current["settings"] != requested:
            if _at_work():
                raise EtlError("a run is using a session with another master or other settings: stop it first")
            stop_spark()
        if not _current:
            if _active_session() is not None:
                raise EtlError("this process has a SparkSession already: run on it with spark=session, or stop it first")
            _current["session"] = SharedSession("sluice", requested[0], _log_folder() / "spark.log", requested[1])
            _current["settings"] = requested
        return _current["session"]


class Stoppable(Protocol):
    """A run on the shared session."""

    @property
    def is_running(self) -> bool: ...
    def end(self) -> None:
        """Stop, and wait for the end."""


_runs: WeakSet[Stoppable] = WeakSet()


def register(run: Stoppable) -> None:
    """Note a run on the shared session, which ends before the session."""
    _runs.add(run)


def _at_work() -> list[Stoppable]:
    return [run for run in _runs if run.is_running]


def stop_spark() -> None:
    """Stop the runs on the session of this process, and end it, if there is one; the next run starts another."""
    for run in _at_work():
        run.end()
    with _lock:
        _forget_ended()
        if _current:
            session = _current.pop("session")
            _current.clear()
            session.stop()


atexit.register(stop_spark)


@cache
def _log_folder() -> Path:
    """A folder for the logs of this process, removed at its end, after the session."""
    folder = Path(tempfile.mkdtemp(prefix="sluice-"))
    atexit.unregister(stop_spark)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(stop_spark)
    return folder


def _forget_ended() -> None:
    """Forget a session whose JVM has been killed, so that the next run starts another."""
    if "pyspark.sql" not in sys.modules:
        return
    from etl.spark.jvm.process import forget_ended_jvm

    if forget_ended_jvm():
        _current.clear()


def _active_session() -> SparkSession | None:
    """A session that this process has, whoever started it."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def run_plan(plan: Plan, state: Path, drain: bool) -> None:
    """Run the queries of a test's plan that need Spark, on the session that this process has, or a new one."""
    from etl.testing.on_spark import run_on

    with _lock:
        _forget_ended()
        active = None if _current else _active_session()
        shared = _current["session"] if _current else shared_session() if active is None else wrap_session(active)
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


def is_stopped(session: SparkSession) -> bool:
    """Whether a session of the caller has been stopped."""
    context: Any = session.sparkContext
    return context._jsc is None


def wrap_session(session: SparkSession) -> SharedSession:
    """A session that the caller has started, with Spark's settings of ours that it can change without changing it."""
    from etl.running.shared_session import SharedSession
    from etl.spark.session import SETTINGS

    if not hasattr(session, "sparkContext"):
        raise EtlError(
            f"{type(session).__name__} is not a SparkSession of this process: a session of Spark Connect runs no pipelines"
        )
    if is_stopped(session):
        raise EtlError("this SparkSession has been stopped: start another one, with SparkSession.builder.getOrCreate()")
    _check_workers(session)
    own = session.newSession()
    for name, value in SETTINGS.items():
        if name.startswith("spark.sql.") and session.conf.isModifiable(name):
            own.conf.set(name, value)

    class GivenSession(SharedSession):
        """Runs on a session that is not ended."""

        def started(self) -> SparkSession:
            return own

        def stop(self) -> None:
            """Nothing: its owner ends it."""

    log = _log_folder() / "given.log"
    log.touch()
    return GivenSession("sluice", str(session.sparkContext.master), log)
