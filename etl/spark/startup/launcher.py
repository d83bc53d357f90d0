"""The program that Spark starts as Python on this machine: it requests a fork from the zygote, or else executes Python.

It runs without site-packages (``-I -S``) and imports only built-in modules, so it starts in 10 ms. After its request it executes
a shell of 0.2 MB, which waits for the fork and ends with its exit code.
"""

import _socket
import marshal
import posix
import sys

READY_SECONDS = 5.0
"""Seconds that the zygote may take to accept a request; Spark waits 10 s for a process."""

STREAMS = (0, 1, 2)
WAIT = "read -r code; exit ${code:-1}"


def main(zygote: str, python: str, arguments: list[str]) -> None:
    """Never returns."""
    if arguments[:1] == ["-m"]:
        try:
            connection = _hand_over(zygote, arguments)
        except OSError:
            connection = None  # it has ended or is busy: start Python instead
        if connection is not None:
            _wait_for_exit(connection)
    posix.execv(python, [python, *arguments])


def _hand_over(zygote: str, arguments: list[str]) -> _socket.socket | None:
    """Send the zygote our streams, arguments, variables and folder. Returns the connection, None if it does not accept them."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.settimeout(READY_SECONDS)
    connection.connect(zygote)
    if not connection.recv(1):
        return None
    request = marshal.dumps((arguments, dict(posix.environ), posix.getcwd()))
    streams = b"".join(number.to_bytes(4, sys.byteorder) for number in STREAMS)
    connection.sendmsg([len(request).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    connection.settimeout(None)
    while request:
        request = request[connection.send(request) :]
    return connection


def _wait_for_exit(connection: _socket.socket) -> None:
    """Execute a shell that holds only the connection and ends with the exit code that it receives."""
    nothing = posix.open("/dev/null", posix.O_WRONLY)
    for number, instead in zip(STREAMS, (connection.fileno(), nothing, nothing), strict=True):
        posix.dup2(instead, number)
    posix.execv("/bin/sh", ["sh", "-c", WAIT])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
