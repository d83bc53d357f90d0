"""Starting a Spark session: small, quiet and on loopback, or on a cluster if ``--master`` names one."""

from __future__ import annotations

import logging
import os
import pwd
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etl.api import EtlError
from etl.spark.archive import Launch, launch
from etl.spark.errors import not_started
from etl.spark.interpreter import interpreter
from etl.spark.java import home_for_spark, java_home
from etl.spark.scratch import scratch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JVM = (
    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss1m -XX:ReservedCodeCacheSize=64m "
    "-Xms48m -XX:NewSize=24m -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote "
    "-XX:-UsePerfData -Djava.net.preferIPv6Addresses=false"
)
"""Serial GC and C1 only cut the CPU of a small run by a quarter; a heap that begins small and grows when it must
saves 80 MB; not verifying Spark's own byte code saves a second of CPU; a smaller stack overflows in Spark's analyser."""

WORKER_ENVIRONMENT = {
    "POLARS_MAX_THREADS": "1",  # one task is one core
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "ARROW_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # a pool that gives memory back
    "MALLOC_ARENA_MAX": "2",
    # keep freed memory for the next batch: returning it to the system causes page faults, a third of the work
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(32 << 20),
    "MALLOC_TOP_PAD_": str(4 << 20),
    "NUMBA_NUM_THREADS": "1",
}

MASTER = re.compile(r"local(\[([1-9]\d*|\*)(,\d+)?\])?|local-cluster\[\d+,\d+,\d+\]|spark://.+|yarn|k8s://.+")
"""Valid values of ``--master``."""

NO_LOOKUP = "python-that-looks-for-no-data-sources"
"""The JVM asks the driver's Python for installed data sources, which costs 1.4 s of CPU and 80 MB, unless there is none."""

QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}

ENGINE = {
    "spark.sql.session.timeZone": "UTC",
    "spark.python.authenticate.socketTimeout": "60s",
    "spark.python.daemon.module": "etl.spark.daemon",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # our own messages replace tracebacks, and workers of SQL and of `warm` are of one kind only without this
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.sql.streaming.stopTimeout": "30s",
    "spark.sql.streaming.numRecentProgressUpdates": "16",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.ui.retainedExecutions": "2",
    "spark.driver.memory": "512m",
    "spark.hadoop.fs.permissions.umask-mode": "077",  # of checkpoints; where the file system is local, Hadoop asks no umask
}

_LOG = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
LOCAL_FILES = {"spark.sql.streaming.checkpointFileManagerClass": _LOG}
"""How checkpoints are written on this machine: to rename a file, Spark's other way starts ``readlink`` eight times, which
takes 20 ms. Both write the same files."""


def is_local(master: str) -> bool:
    """Whether all tasks of this master run on this host."""
    return master.startswith("local") and not master.startswith("local-cluster")


def cores(master: str) -> int:
    """The tasks that ``local[n]`` runs at once, or this machine's cores."""
    if master == "local":
        return 1
    inside = master.removeprefix("local").strip("[]").split(",")[0]
    return int(inside) if inside.isdigit() else len(os.sched_getaffinity(0))


def local_master(master: str) -> str:
    """``local`` and ``local[*]`` with their number of tasks written out; any other master as it is."""
    return f"local[{cores(master)}]" if master in ("local[*]", "local") else master


def start(name: str, master: str, options: Mapping[str, str], log: Path, compiled: bool = False) -> SparkSession:
    """Start a session, which takes two seconds. The output of the JVM and its workers goes to ``log``.

    ``compiled``: all kernels that its tasks need have been compiled on this machine.
    """
    _check_user_name()
    os.environ.update({key: value for key, value in WORKER_ENVIRONMENT.items() if key not in os.environ})
    if sys.flags.utf8_mode:
        os.environ["LC_ALL"] = "C.UTF-8"  # else Java knows only names of ASCII letters, and does not start in another folder
    with _printing_to(log):
        python = interpreter(compiled) if is_local(master) else sys.executable
    os.environ["PYSPARK_PYTHON"] = python
    try:
        session = _started(name, master, {**_socket_settings(python), **options}, log)
    except EtlError:
        raise
    except Exception as error:
        raise not_started(error, log) from error
    _log_in(log)
    _shorten_analysis_errors()
    return session


def _shorten_analysis_errors() -> None:
    """Stop PySpark from printing the stack traces of rejected queries; the run reports them in one line."""
    from pyspark.logger import PySparkLogger

    for logger in map(PySparkLogger.getLogger, ("SQLQueryContextLogger", "DataFrameQueryContextLogger")):
        logger.setLevel("CRITICAL")


def _check_user_name() -> None:
    """Raises EtlError if the user has no name, as in some containers: Spark would fail with a NullPointerException."""
    number = os.getuid()
    try:
        pwd.getpwuid(number)
    except KeyError:
        line = f"sluice:x:{number}:{os.getgid()}::/tmp:/bin/sh"
        raise EtlError(
            f"Spark does not run as a user without a name, and the system knows none of user {number}: add the line {line!r} to "
            "/etc/passwd, or run as another user"
        ) from None


def _started(name: str, master: str, options: Mapping[str, str], log: Path) -> SparkSession:
    home = java_home()
    os.environ["JAVA_HOME"] = str(home_for_spark(home, log.parent / "java"))
    os.environ["PYSPARK_DRIVER_PYTHON"] = NO_LOOKUP
    settings = {**QUIET, **ENGINE, "spark.sql.shuffle.partitions": str(cores(master)), **_network_settings(master), **options}
    jvm = settings.pop("spark.driver.extraJavaOptions", "")
    how = launch(home, _jars(), options) if is_local(master) else Launch()
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        f'--driver-java-options "{JVM} {_crash_report(log)} {_temporary_option()} {how.options} {jvm} {_logging()}" pyspark-shell'
    )
    with _launch_jvm(how, log):
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(master).appName(name)
        for key, value in settings.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()


def jvm_status(session: SparkSession, wait_seconds: float = 0.0) -> int | None:
    """The exit status of the session's JVM; None while it runs. The connection breaks shortly before the process ends."""
    gateway: Any = session.sparkContext._gateway
    try:
        return int(gateway.proc.wait(wait_seconds))
    except subprocess.TimeoutExpired:
        return None


def stop(session: SparkSession) -> None:
    """Stop a session, also if its JVM has ended."""
    try:
        session.stop()
    except Exception:
        if jvm_status(session, GONE_SECONDS) is None:
            raise


GONE_SECONDS = 2.0
"""Seconds that a JVM may take to end after its connections broke."""


def _log_in(file: Path) -> None:
    """Send what Spark's Python libraries log and print about broken connections to the log; the run reports the cause."""
    from pyspark.accumulators import AccumulatorTCPServer, AccumulatorUnixServer

    root = logging.root
    for handler in [one for one in root.handlers if isinstance(one, _LibraryLog)]:
        root.removeHandler(handler)
    root.addHandler(_LibraryLog(file, delay=True))
    servers: tuple[Any, ...] = (AccumulatorTCPServer, AccumulatorUnixServer)
    for server in servers:
        server.handle_error = lambda *_: root.debug("a connection of Spark's broke", exc_info=True)


class _LibraryLog(logging.FileHandler):
    """Writes to the log of the session started last."""


def warm(session: SparkSession, workers: int) -> None:
    """Start the worker daemon and its workers while Spark plans, in a thread: with tasks that only wait."""
    tasks = session.sparkContext.parallelize(range(workers), workers)

    def work() -> None:
        with suppress(Exception):  # errors of workers are reported by the first real task
            tasks.foreach(_wait)

    threading.Thread(target=work, name="warm", daemon=True).start()


def _wait(_: int) -> None:
    time.sleep(WARM_SECONDS)


WARM_SECONDS = 0.2
"""Seconds that each task waits, so that every worker gets one."""


def _network_settings(master: str) -> dict[str, str]:
    if not is_local(master):
        return {f"spark.executorEnv.{key}": value for key, value in WORKER_ENVIRONMENT.items()}
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"  # it otherwise listens on every interface
    local = {"spark.local.dir": str(scratch())} if "," not in str(scratch()) else {}  # Spark takes it as a list
    return {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", **LOCAL_FILES, **local}


def _socket_settings(python: str) -> dict[str, str]:
    """Use Unix sockets between Spark's processes, in the interpreter's folder, which only this user can read.

    With TCP, anyone who connects to the JVM's port makes it allocate as much memory as the first four bytes say.
    """
    folder = os.path.dirname(python)
    if python == sys.executable or len(os.fsencode(folder)) + SOCKET_NAME > SOCKET_PATH:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": folder}


SOCKET_NAME, SOCKET_PATH = len("/.00000000-0000-0000-0000-000000000000.sock"), 107
"""Length of the name of Spark's sockets, and the system's limit for the path of a socket, in bytes."""


def _logging() -> str:
    """The option with the logging configuration, as a URI because Spark splits options at blanks."""
    return f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"


def _crash_report(log: Path) -> str:
    """The option for the crash report of the JVM: next to the log instead of in the working folder."""
    return _option("-XX:ErrorFile={}/hs_err_pid%p.log", str(log.absolute().parent).replace("%", "%%"))


def _temporary_option() -> str:
    """The option for the folder of unpacked native libraries."""
    return _option("-Djava.io.tmpdir={}", str(scratch()))


def _option(form: str, place: str) -> str:
    return "" if set(place) & set("'\"\\\n") else f"'{form.format(place)}'"


def _jars() -> Path:
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home()) / "jars"


@contextmanager
def _launch_jvm(how: Launch, log: Path) -> Iterator[None]:
    """Start a JVM inside the body with these options, its output to the log, and SIGTERM ignored, also by its workers.

    Service managers send SIGTERM to all processes of a run, but these must live until this process has finished its micro-batch.
    They end when it does.
    """
    from pyspark import java_gateway

    gateway: Any = java_gateway
    popen = gateway.Popen
    jvm: list[Any] = []

    def started(command: list[str], preexec_fn: Callable[[], None] | None = None, **more: Any) -> Any:
        def before() -> None:
            if preexec_fn:
                preexec_fn()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

        with log.open("ab") as file:
            more |= {"stdout": file, "stderr": file, "pass_fds": how.held}
            jvm.append(popen([*how.wrapper, *command], preexec_fn=before, **more))
        return jvm[0]

    gateway.Popen = started
    try:
        yield
    finally:
        gateway.Popen = popen
        how.ended(jvm[0].pid if jvm else None)


@contextmanager
def _printing_to(log: Path) -> Iterator[None]:
    """Processes started inside the body write standard output and error to the log; this process does not."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    kept = {number: os.dup(number) for number in (1, 2)}
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    for number in kept:
        os.dup2(file, number)
    os.close(file)
    try:
        yield
    finally:
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)
