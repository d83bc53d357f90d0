"""A forked process that replaces a Python process which Spark wants to start: the request for it, and its run."""

from __future__ import annotations

import atexit
import ctypes
import marshal
import os
import runpy
import socket
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

STREAMS = 3


@dataclass(frozen=True)
class ProcessRequest:
    """A request for a process: arguments, environment variables, working folder, and standard streams (file descriptors)."""

    arguments: list[str]
    variables: dict[bytes, bytes]
    folder: str
    streams: list[int]


def receive_request(line: socket.socket) -> ProcessRequest:
    """Receive a request over a socket. Raises OSError, EOFError, ValueError or TypeError for a broken one."""
    size, streams, _, _ = socket.recv_fds(line, 4, STREAMS)
    with line.makefile("rb") as file:
        arguments, variables, folder = marshal.loads(file.read(int.from_bytes(size, "big")))
    if len(streams) != STREAMS:
        raise ValueError(f"{len(streams)} streams")
    return ProcessRequest(arguments, variables, folder, streams)


def send_request(line: socket.socket, request: ProcessRequest) -> None:
    """Send a request over a socket. Raises OSError when the other end is closed."""
    text = marshal.dumps((request.arguments, request.variables, request.folder))
    socket.send_fds(line, [len(text).to_bytes(4, "big")], request.streams)
    line.sendall(text)


def run_and_exit(request: ProcessRequest) -> NoReturn:
    """Run the module of the requested process, and end this process as Python does after a module: wait for threads, call exit
    functions, return the exit code. But do not tear the interpreter down: that would write to each object that the process
    shares with the zygote, and so copy 60 MB, which takes 0.1 s of CPU time."""
    code = 1
    try:
        code = _run(request)
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def _run(request: ProcessRequest) -> int:
    """Run the module; its exit code."""
    try:
        _run_as(request)
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def _run_as(request: ProcessRequest) -> None:
    """Turn this process into the requested one: its streams, folder, variables and arguments; run its module to the end."""
    for number, stream in enumerate(request.streams):
        os.dup2(stream, number)
    for stream in request.streams:
        if stream >= STREAMS:
            os.close(stream)
    os.chdir(request.folder)
    os.environ.clear()
    os.environb.update(request.variables)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [path for path in paths if path and path not in sys.path]
    _, module, *arguments = request.arguments
    _set_process_title([sys.executable, *request.arguments])
    sys.argv = [module, *arguments]
    sys.modules.pop(module, None)  # it was loaded for its imports; it runs as a new module
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _set_process_title(arguments: list[str]) -> None:
    """Set what ``ps`` shows for this process, by overwriting its arguments; longer titles are cut."""
    with suppress(OSError, ValueError, IndexError):
        begin, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:47])
        room = end - begin
        name = b"".join(os.fsencode(argument) + b"\0" for argument in arguments)[: room - 1]
        if room > 1:
            ctypes.memmove(begin, name.ljust(room, b"\0"), room)
