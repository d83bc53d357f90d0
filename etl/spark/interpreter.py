"""The Python that Spark starts on this machine: a launcher of processes that one process forks, see `etl.spark.zygote`."""

from __future__ import annotations

import atexit
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

_PACKAGES = {"connectors", "etl", "parsers", "sqlglot"}
"""What this process has loaded of these, the components of its pipelines and how they read expressions, forks load."""

_OURS = ("etl.cli", "etl.__main__")
"""But not what only a driver uses."""

_PREFIX = "python-"
_ZYGOTE = "zygote"
_ROOM = " " * 160
"""An argument in whose place a fork of the zygote writes what it is."""


@cache
def interpreter(compiled: bool = False) -> str:
    """The path of what Spark is to start: a program that asks a zygote, which is started here and lives as long as this
    process; or Python itself where the system cannot do that, or does not execute what lies in the cache folder.

    With ``compiled`` the zygote loads the kernels, too: nothing that the run needs has yet to be compiled.
    """
    if not hasattr(os, "pidfd_open"):
        return sys.executable
    _forget()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=cache_folder()))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # the zygote does that, too, should this process be killed
    try:
        os.close(os.pidfd_open(os.getpid()))
        program = _written(folder)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(folder / "new"))
            listener.listen()
            (folder / "new").rename(folder / _ZYGOTE)
            _start(listener, compiled)
    except OSError:  # an old kernel, a folder with a long name or one without execution
        shutil.rmtree(folder, ignore_errors=True)
        return sys.executable
    return str(program)


def _forget() -> None:
    """Remove what runs left that were killed together with their zygotes."""
    for old in cache_folder().glob(f"{_PREFIX}*"):
        with socket.socket(socket.AF_UNIX) as asked, suppress(OSError):
            try:
                asked.connect(str(old / _ZYGOTE))
            except ConnectionRefusedError:
                shutil.rmtree(old, ignore_errors=True)


def _written(folder: Path) -> Path:
    """The program. Raises OSError where it cannot be executed."""
    program, launcher = folder / "python", Path(__file__).with_name("launcher.py")
    words = {"python": sys.executable, "launcher": str(launcher), "zygote": str(folder / _ZYGOTE)}
    program.write_text(_PROGRAM.format(**{name: shlex.quote(word) for name, word in words.items()}))
    program.chmod(0o700)
    if not os.access(program, os.X_OK):
        raise PermissionError(f"{program} cannot be executed")
    return program


def _start(listener: socket.socket, compiled: bool) -> None:
    number = listener.fileno()
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "etl.spark.zygote", str(number), "compiled" if compiled else "", _ROOM],
        stdin=subprocess.PIPE,
        pass_fds=[number],
        preexec_fn=_ignore,
        env={"PYTHONHASHSEED": "0", **os.environ},  # as Spark starts workers: they agree on hashes
    )
    assert process.stdin is not None
    further = (name for name in list(sys.modules) if name.partition(".")[0] in _PACKAGES and not name.startswith(_OURS))
    process.stdin.write(f"{' '.join(further)}\n".encode())
    process.stdin.flush()
    _LIFELINES.append(process)


def _ignore() -> None:
    """The run ends after its micro-batch, and this process with it: signals to all processes of a run are for the driver."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


_LIFELINES: list[subprocess.Popen[bytes]] = []
"""Their pipes break when this process ends, however it does."""
