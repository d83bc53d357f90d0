"""The process of the JVM: its options, its start with output to the run's log, and its exit status."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etl.spark.jvm.scratch import scratch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from etl.spark.startup.archive import JvmLaunch

_OPTIONS = (
    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss1m -XX:ReservedCodeCacheSize=64m "
    "-Xms48m -XX:NewSize=24m -XX:MinHeapFreeRatio=25 -XX:MaxHeapFreeRatio=40 -XX:-UsePerfData "
    "-Djava.net.preferIPv6Addresses=false"
)
"""Serial GC and C1 only cut the CPU time of a small run by a quarter; a heap that begins small and grows when necessary saves
80 MB, and one whose old generation is a quarter to two fifths free, not two fifths or more, about 40 MB of a run that follows a
file; a smaller stack overflows in Spark's analyser."""

EXIT_SECONDS = 2.0
"""Seconds that a JVM may take to end after its connections broke."""


def java_options(log: Path, *further: str) -> str:
    """The options of the JVM of a run, which logs to ``log``, and ``further`` ones."""
    return " ".join([_OPTIONS, *_files(log), *further, _logging_option()])


def _files(log: Path) -> Iterator[str]:
    """Options for the crash report, which goes next to the log, and for the folder of unpacked native libraries."""
    yield _path_option("-XX:ErrorFile={}/hs_err_pid%p.log", str(log.absolute().parent).replace("%", "%%"))
    yield _path_option("-Djava.io.tmpdir={}", str(scratch()))


def _path_option(form: str, path: str) -> str:
    """An option with a path in quotes; none for a path that Spark's splitting of options would break."""
    return "" if set(path) & set("'\"\\\n") else f"'{form.format(path)}'"


def _logging_option() -> str:
    """The option with the logging configuration, as a URI because Spark splits options at blanks."""
    return f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"


def spark_jars() -> Path:
    """The folder of Spark's jars."""
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home()) / "jars"


@contextmanager
def starting_jvm(launch: JvmLaunch, log: Path) -> Iterator[None]:
    """Start the JVM of the body as ``launch`` says, its output to the log. It and its workers ignore SIGTERM.

    Service managers send SIGTERM to all processes of a run, but these must live until this process has finished its micro-batch.
    They end when it does.
    """
    from pyspark import java_gateway

    gateway: Any = java_gateway
    popen = gateway.Popen
    jvm: list[Any] = []

    def start(command: list[str], preexec_fn: Callable[[], None] | None = None, **options: Any) -> Any:
        def ignore_sigterm() -> None:
            if preexec_fn:
                preexec_fn()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

        with log.open("ab") as file:
            options |= {"stdout": file, "stderr": file, "pass_fds": launch.inherited}
            jvm.append(popen([*launch.wrapper, *command], preexec_fn=ignore_sigterm, **options))
        return jvm[0]

    gateway.Popen = start
    try:
        yield
    finally:
        gateway.Popen = popen
        launch.on_started(jvm[0].pid if jvm else None)


@contextmanager
def printing_to(log: Path) -> Iterator[None]:
    """Processes started inside the body write standard output and error to the log; this process does not."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    copies = {number: os.dup(number) for number in (1, 2)}
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    for number in copies:
        os.dup2(file, number)
    os.close(file)
    try:
        yield
    finally:
        for number, copy in copies.items():
            os.dup2(copy, number)
            os.close(copy)


def jvm_status(session: SparkSession, wait_seconds: float = 0.0) -> int | None:
    """The exit status of the session's JVM; None while it runs. The connection breaks shortly before the process ends."""
    gateway: Any = session.sparkContext._gateway
    try:
        return int(gateway.proc.wait(wait_seconds))
    except subprocess.TimeoutExpired:
        return None


def forget_ended_jvm() -> bool:
    """Let PySpark start another JVM if that of this process has ended, for example because it ran out of memory: PySpark would
    otherwise connect to the old one again and again. Returns whether it had ended."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context: Any = SparkContext
    session: Any = SparkSession
    process = getattr(context._gateway, "proc", None)
    if process is None or process.poll() is None:
        return False
    context._gateway = context._jvm = context._active_spark_context = None
    session._instantiatedSession = session._activeSession = None
    return True
