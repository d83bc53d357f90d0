"""Starting and stopping a Spark session: small, quiet and on loopback, or on a cluster if ``--master`` names one."""

from __future__ import annotations

import logging
import os
import pwd
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etl.api import EtlError
from etl.spark.jvm.java import home_for_spark, java_home
from etl.spark.jvm.process import EXIT_SECONDS, java_options, jvm_status, printing_to, spark_jars, starting_jvm
from etl.spark.jvm.scratch import scratch
from etl.spark.masters import cores, is_local
from etl.spark.reports.errors import explain_failed_start
from etl.spark.startup import fast_start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORKER_ENVIRONMENT = {
    "POLARS_MAX_THREADS": "1",  # one task is one core
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "ARROW_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # a pool that returns memory to the system
    "MALLOC_ARENA_MAX": "2",
    # keep freed memory for the next batch: returning it to the system causes page faults, a third of the work
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(32 << 20),
    "MALLOC_TOP_PAD_": str(4 << 20),
    "NUMBA_NUM_THREADS": "1",
}

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.authenticate.socketTimeout": "60s",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # our own messages replace tracebacks, and workers of SQL and of RDDs are of one kind only without this
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.sql.streaming.stopTimeout": "30s",
    "spark.sql.streaming.numRecentProgressUpdates": "16",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.ui.retainedExecutions": "2",
    "spark.driver.memory": "512m",
    "spark.hadoop.fs.permissions.umask-mode": "077",  # of checkpoints; for a local file system Hadoop ignores the umask
}

LOCAL_FILES = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}
"""How checkpoints are written on this machine. Spark's usual manager (`FileContextBasedCheckpointFileManager`) starts the program
``readlink`` eight times to rename a file, which takes 20 ms. Without Hadoop's native library, `RawLocalFileSystem.setPermission`
starts ``chmod`` for each file that it makes: two in a micro-batch, of offsets and of the commit; the usual `LocalFileSystem`
starts four, with those of checksums, which take 10 ms of CPU and 40 ms of time. No setting turns it off: only a subclass in Java
could. `etl.spark.state.checkpoint.write_checksum` writes the checksums of offsets."""


def start(name: str, master: str, options: Mapping[str, str], log: Path, compiled: bool = False) -> SparkSession:
    """Start a session, which takes two seconds. The output of the JVM and its workers goes to ``log``.

    ``compiled``: all kernels that its tasks need have been compiled on this machine.
    """
    _check_user_name()
    os.environ.update({key: value for key, value in WORKER_ENVIRONMENT.items() if key not in os.environ})
    if sys.flags.utf8_mode:
        os.environ["LC_ALL"] = "C.UTF-8"  # else Java knows only names of ASCII letters, and does not start in another folder
    with printing_to(log):
        python = fast_start.python_program(is_local(master), compiled)
    _set_python(python, None if is_local(master) else options.get("spark.pyspark.python"))
    try:
        session = _start(name, master, {**fast_start.settings(python), **options}, log)
    except EtlError:
        raise
    except Exception as error:
        raise explain_failed_start(error, log) from error
    _log_to(log)
    _shorten_analysis_errors()
    return session


def _set_python(python: str, of_executors: str | None) -> None:
    """Set the program that Spark runs as Python. The driver runs the same program as executors, where it plans: a name without a
    folder is to be this Python here, so its folder comes first on the path."""
    os.environ["PYSPARK_PYTHON"] = of_executors or python
    os.environ["PYSPARK_DRIVER_PYTHON"] = python
    if of_executors and "/" not in of_executors:
        os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])


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


def _start(name: str, master: str, options: Mapping[str, str], log: Path) -> SparkSession:
    home = java_home()
    os.environ["JAVA_HOME"] = str(home_for_spark(home, log.parent / "java"))
    fast_options = fast_start.prepare_environment()
    settings = {**SETTINGS, "spark.sql.shuffle.partitions": str(cores(master)), **_network_settings(master), **options}
    user_options = settings.pop("spark.driver.extraJavaOptions", "")
    launch = fast_start.jvm_launch(home, spark_jars(), options, is_local(master))
    java = java_options(log, fast_options, launch.options, user_options)
    os.environ["PYSPARK_SUBMIT_ARGS"] = f'--driver-java-options "{java}" pyspark-shell'
    with starting_jvm(launch, log):
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(master).appName(name)
        for key, value in settings.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()


def _network_settings(master: str) -> dict[str, str]:
    if not is_local(master):
        return {f"spark.executorEnv.{key}": value for key, value in WORKER_ENVIRONMENT.items()}
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"  # it otherwise listens on every interface
    local = {"spark.local.dir": str(scratch())} if "," not in str(scratch()) else {}  # Spark takes it as a list
    return {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", **LOCAL_FILES, **local}


def _log_to(file: Path) -> None:
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


def _shorten_analysis_errors() -> None:
    """Stop PySpark from printing the stack traces of rejected queries; the run reports them in one line."""
    from pyspark.logger import PySparkLogger

    for logger in map(PySparkLogger.getLogger, ("SQLQueryContextLogger", "DataFrameQueryContextLogger")):
        logger.setLevel("CRITICAL")


def stop(session: SparkSession) -> None:
    """Stop a session, also if its JVM has ended."""
    try:
        session.stop()
    except Exception:
        if jvm_status(session, EXIT_SECONDS) is None:
            raise
