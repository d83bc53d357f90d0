"""The fast start of Spark's processes, or the one of PySpark: no other module uses this package's modules.

With ``SLUICE_PLAIN_START=1`` Spark starts all of its processes itself. The results are the same; a run needs more CPU time and
memory. The switch is for debugging, and for systems on which the fast start fails.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from etl.spark.startup.archive import JvmLaunch, plan_launch
from etl.spark.startup.interpreter import interpreter, running_program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SWITCH = "SLUICE_PLAIN_START"
"""Environment variable: any value but an empty one or ``0`` turns the fast start off."""

JVM_OPTIONS = "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""Spark's own byte code is not verified, which saves a second of CPU time."""

NO_LOOKUP = "python-that-looks-for-no-data-sources"
"""The JVM asks the driver's Python for installed data sources, which costs 1.4 s of CPU and 80 MB, unless there is none."""

SOCKET_NAME, SOCKET_PATH = len("/.00000000-0000-0000-0000-000000000000.sock"), 107
"""Length of the name of Spark's sockets, and the system's limit for the path of a socket, in bytes."""

WAIT_SECONDS = 0.2
"""Seconds that each task of `start_workers` waits, so that every worker gets one."""


def is_enabled() -> bool:
    """Whether the switch leaves the fast start on."""
    return os.environ.get(SWITCH, "") in ("", "0")


def python_program(is_local: bool, compiled: bool) -> str:
    """The program that Spark is to run as Python; on this machine this starts the zygote.

    ``compiled``: all kernels that the run needs have been compiled.
    """
    return interpreter(compiled) if is_local and is_enabled() else sys.executable


def forking_program() -> str:
    """The program that runs a module as Python does; it forks the zygote if this process has one, and so starts at once."""
    return running_program() if is_enabled() else sys.executable


def settings(python: str) -> dict[str, str]:
    """Spark's settings for workers that are forked from a daemon with all modules, and for Unix sockets to them."""
    return {"spark.python.daemon.module": "etl.spark.startup.daemon", **socket_settings(python)} if is_enabled() else {}


def socket_settings(python: str) -> dict[str, str]:
    """Use Unix sockets between Spark's processes, in the interpreter's folder, which only this user can read.

    With TCP, anyone who connects to the JVM's port makes it allocate as much memory as the first four bytes say.
    """
    folder = os.path.dirname(python)
    if python == sys.executable or len(os.fsencode(folder)) + SOCKET_NAME > SOCKET_PATH:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": folder}


def jvm_launch(home: Path, jars: Path, user_settings: Mapping[str, str], is_local: bool) -> JvmLaunch:
    """How to start a JVM of this Java home with Spark's jars."""
    return plan_launch(home, jars, user_settings) if is_local and is_enabled() else JvmLaunch()


def prepare_environment() -> str:
    """Set the variables that the JVM reads, and return its options."""
    if is_enabled():
        os.environ["PYSPARK_DRIVER_PYTHON"] = NO_LOOKUP
        return JVM_OPTIONS
    if os.environ.get("PYSPARK_DRIVER_PYTHON") == NO_LOOKUP:  # of an earlier session of this process
        del os.environ["PYSPARK_DRIVER_PYTHON"]
    return ""


def start_workers(session: SparkSession, workers: int) -> None:
    """Start the worker daemon and its workers while Spark plans, in a thread: with tasks that only wait."""
    if not is_enabled():
        return
    tasks = session.sparkContext.parallelize(range(workers), workers)

    def run_tasks() -> None:
        with suppress(Exception):  # errors of workers are reported by the first real task
            tasks.foreach(_wait)

    threading.Thread(target=run_tasks, name="start-workers", daemon=True).start()


def _wait(_: int) -> None:
    time.sleep(WAIT_SECONDS)
