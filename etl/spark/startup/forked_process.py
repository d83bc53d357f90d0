"""A forked process that replaces a Python process which Spark wants to start: the request for it, and its run."""

from __future__ import annotations

import ctypes
import marshal
import os
import runpy
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

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


def run_as(request: ProcessRequest) -> None:
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
