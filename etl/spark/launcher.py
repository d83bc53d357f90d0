"""What Spark starts as Python on this machine: it asks the zygote to be the process that Spark wants, or becomes Python.

It runs without site-packages (``-I -S``) and imports only what is built in, so it starts in a hundredth of a second. Once it
has handed over its streams it becomes a shell of 0.2 MB, which lives as long as that process and ends as it does.
"""

import _socket
import marshal
import posix
import sys

READY_SECONDS = 5.0
"""How long the zygote may load modules, or fork others: Spark itself waits 10 s for a process."""

STREAMS = (0, 1, 2)
WAIT = "read -r code; exit ${code:-1}"


def main(zygote: str, python: str, arguments: list[str]) -> None:
    """Never returns."""
    if arguments[:1] == ["-m"]:
        try:
            asked = _asked(zygote, arguments)
        except OSError:
            asked = None  # it is gone, or busy: as without one
        if asked is not None:
            _wait(asked)
    posix.execv(python, [python, *arguments])


def _asked(zygote: str, arguments: list[str]) -> _socket.socket | None:
    """A connection to a zygote that was given our streams, arguments, variables and folder; None if it will not have them."""
    asked = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    asked.settimeout(READY_SECONDS)
    asked.connect(zygote)
    if not asked.recv(1):
        return None
    wanted = marshal.dumps((arguments, dict(posix.environ), posix.getcwd()))
    streams = b"".join(number.to_bytes(4, sys.byteorder) for number in STREAMS)
    asked.sendmsg([len(wanted).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    asked.settimeout(None)
    while wanted:
        wanted = wanted[asked.send(wanted) :]
    return asked


def _wait(asked: _socket.socket) -> None:
    """Hold nothing but the connection, whose other end tells the exit code."""
    nothing = posix.open("/dev/null", posix.O_WRONLY)
    for number, instead in zip(STREAMS, (asked.fileno(), nothing, nothing), strict=True):
        posix.dup2(instead, number)
    posix.execv("/bin/sh", ["sh", "-c", WAIT])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
