"""A fork of the zygote becomes the process that somebody asks for: how that is told, and how it is done."""

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
class Wanted:
    """What a fork is to be."""

    arguments: list[str]
    variables: dict[bytes, bytes]
    folder: str
    streams: list[int]


def received(line: socket.socket) -> Wanted:
    """What the other end sends. Raises OSError, EOFError, ValueError or TypeError when it breaks off."""
    size, streams, _, _ = socket.recv_fds(line, 4, STREAMS)
    with line.makefile("rb") as file:
        arguments, variables, folder = marshal.loads(file.read(int.from_bytes(size, "big")))
    if len(streams) != STREAMS:
        raise ValueError(f"{len(streams)} streams")
    return Wanted(arguments, variables, folder, streams)


def send(line: socket.socket, wanted: Wanted) -> None:
    """Tell the other end. Raises OSError when it is gone."""
    text = marshal.dumps((wanted.arguments, wanted.variables, wanted.folder))
    socket.send_fds(line, [len(text).to_bytes(4, "big")], wanted.streams)
    line.sendall(text)


def become(wanted: Wanted) -> None:
    """Be that process, to its end."""
    for number, stream in enumerate(wanted.streams):
        os.dup2(stream, number)
    for stream in wanted.streams:
        if stream >= STREAMS:
            os.close(stream)
    os.chdir(wanted.folder)
    os.environ.clear()
    os.environb.update(wanted.variables)
    places = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [place for place in places if place and place not in sys.path]
    _, module, *words = wanted.arguments
    _call_it([sys.executable, *wanted.arguments])
    sys.argv = [module, *words]
    sys.modules.pop(module, None)  # loaded for its imports; what runs is a fresh one
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _call_it(words: list[str]) -> None:
    """What ``ps`` shows of this process, in the place of its own arguments, as far as they have room."""
    with suppress(OSError, ValueError, IndexError):
        begin, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:47])
        room = end - begin
        name = b"".join(os.fsencode(word) + b"\0" for word in words)[: room - 1]
        if room > 1:
            ctypes.memmove(begin, name.ljust(room, b"\0"), room)
