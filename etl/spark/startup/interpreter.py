"""The program that Spark starts as Python on this machine: a script that runs `launcher` and so requests a fork from `zygote`.

Its folder, in which are also the sockets of Spark's processes, is not in the cache folder, which users empty while runs go on.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from etl.columns.cache_folder import folder as cache_folder

_PROGRAM = """#!/bin/sh
# Python as Spark starts it: {launcher} asks a process that has loaded everything
exec {python} -I -S {launcher} {zygote} {python} "$@"
"""

_PRELOADED_PACKAGES = {"connectors", "etl", "parsers", "sqlglot"}
"""Modules of these packages that this process has loaded, such as the pipelines' components, are loaded by the zygote too."""

_DRIVER_ONLY = ("etl.cli", "etl.__main__")
"""Packages that only a driver uses, which the zygote does not load."""

_PREFIX = "sluice-python-"
_ZYGOTE = "zygote"
_DRIVER = "driver"
"""File that the driver has locked while it runs."""
_TITLE_SPACE = " " * 160
"""An argument that reserves space for the title of a forked process."""


@cache
def interpreter(compiled: bool = False) -> str:
    """Start the zygote and return the path of the script that Spark is to run as Python.

    Returns Python's own path where the system does not support this, or executes files neither in the temporary folder nor in
    the cache folder. With ``compiled``, when all kernels of the run are compiled, the zygote loads them too.
    """
    if not hasattr(os, "pidfd_open"):
        return sys.executable
    parents = [Path(tempfile.gettempdir()), cache_folder()]
    for parent in parents:
        _remove_stale_folders(parent)
    program = next(filter(None, (_create_program(parent, compiled) for parent in parents)), sys.executable)
    if program != sys.executable:
        _PROGRAMS.append(program)
    return program


def _create_program(parent: Path, compiled: bool) -> str | None:
    """Start the zygote and return the path of the script, in a new folder; None where that is not possible."""
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # the zygote does that, too, should this process be killed
    try:
        _lock(folder)
        os.close(os.pidfd_open(os.getpid()))
        program = _write_program(folder)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(folder / "new"))
            listener.listen()
            (folder / "new").rename(folder / _ZYGOTE)
            _start_zygote(listener, compiled)
    except OSError:  # an old kernel, a folder with a long name or one without execution
        shutil.rmtree(folder, ignore_errors=True)
        return None
    return str(program)


def running_program() -> str:
    """The script of the zygote that this process has started; Python's own path if it has started none."""
    return next((program for program in reversed(_PROGRAMS) if os.access(program, os.X_OK)), sys.executable)


def _remove_stale_folders(parent: Path) -> None:
    """Remove the folders of runs that were killed together with their zygotes. A run goes on without its zygote."""
    for old in parent.glob(f"{_PREFIX}*"):
        with socket.socket(socket.AF_UNIX) as probe, suppress(OSError):
            try:
                probe.connect(str(old / _ZYGOTE))
            except ConnectionRefusedError:
                os.close(_lock_file(old))
                shutil.rmtree(old, ignore_errors=True)


def _lock(folder: Path) -> None:
    """Hold the lock of a folder until this process ends in any way."""
    _LOCKS.append(_lock_file(folder))


def _lock_file(folder: Path) -> int:
    """Lock a folder's file and return its descriptor. Raises OSError if another process holds the lock."""
    number = os.open(folder / _DRIVER, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(number)
        raise
    return number


_LOCKS: list[int] = []
"""Descriptors of the locks that this process holds."""


def _write_program(folder: Path) -> Path:
    """Write the script. Raises OSError if it cannot be executed."""
    program, launcher = folder / "python", Path(__file__).with_name("launcher.py")
    values = {"python": sys.executable, "launcher": str(launcher), "zygote": str(folder / _ZYGOTE)}
    program.write_text(_PROGRAM.format(**{name: shlex.quote(value) for name, value in values.items()}))
    program.chmod(0o700)
    if not os.access(program, os.X_OK):
        raise PermissionError(f"{program} cannot be executed")
    return program


def _start_zygote(listener: socket.socket, compiled: bool) -> None:
    number = listener.fileno()
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "etl.spark.startup.zygote", str(number), "compiled" if compiled else "", _TITLE_SPACE],
        stdin=subprocess.PIPE,
        pass_fds=[number],
        preexec_fn=_ignore_interrupts,
        env={"PYTHONHASHSEED": "0", **os.environ},  # as Spark starts workers: they agree on hashes
    )
    assert process.stdin is not None
    modules = (
        name for name in list(sys.modules) if name.partition(".")[0] in _PRELOADED_PACKAGES and not name.startswith(_DRIVER_ONLY)
    )
    process.stdin.write(f"{' '.join(modules)}\n".encode())
    process.stdin.flush()
    _LIFELINES.append(process)


def _ignore_interrupts() -> None:
    """Ignore interrupts: the driver handles them, ends the run after its micro-batch, and this process with it."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


_PROGRAMS: list[str] = []
"""The scripts of this process's zygotes."""

_LIFELINES: list[subprocess.Popen[bytes]] = []
"""Zygotes of this process; their pipes close when this process ends in any way."""
