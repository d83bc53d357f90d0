"""The process in which the studio runs pipelines: user code and patterns cannot stop the server, and a limit ends them."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

from etl.api import EtlError

MAX_SECONDS = 20.0
"""Longest time for one request; most take milliseconds."""

MAX_FIRST_SECONDS = 120.0
"""The same for the first request of a process, which imports the engine and compiles kernels."""

MAX_WAITING = 8
"""Maximum number of requests that wait for the process; each holds a thread of the server."""

MAX_MEMORY_BYTES = 4 << 30
"""Maximum memory of the process: a step that makes a million events of one ends here."""


class StudioError(EtlError):
    """A request that the studio could not answer; the message is for its user."""


_Answer: TypeAlias = tuple[Any, str | None]
"""A value, or the message of an error."""


class WorkerProcess:
    """Answers requests one after the other in a process of its own, which starts with the first and is replaced when it ends."""

    def __init__(self, max_seconds: float = MAX_SECONDS) -> None:
        self._max_seconds = max_seconds
        self._answered = False
        self._waiting = 0
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def call(self, name: str, /, **arguments: Any) -> Any:
        """The value of one of the functions below. Raises StudioError for errors of the request, after `MAX_SECONDS`, and when
        `MAX_WAITING` other requests wait."""
        if self._waiting >= MAX_WAITING:
            raise StudioError("too many people use the studio of this server at the moment; try again")
        self._waiting += 1
        try:
            return self._call(name, arguments)
        finally:
            self._waiting -= 1

    def _call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        with self._lock:
            connection = self._running()
            try:
                connection.send((name, arguments))
                limit = self._max_seconds if self._answered else MAX_FIRST_SECONDS
                if not connection.poll(limit):
                    self._end()
                    raise StudioError(f"this took longer than {limit:g} s and was ended; try fewer lines")
                value, error = connection.recv()
                self._answered = True
            except (EOFError, OSError) as ended:
                self._end()
                raise StudioError("the process that runs the steps ended, perhaps for lack of memory; try fewer lines") from ended
        if error is not None:
            raise StudioError(error)
        return value

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _running(self) -> Connection:
        if self._connection is None or self._process is None or self._process.poll() is not None:
            self._end()
            ours, theirs = socket.socketpair()
            command = [sys.executable, "-m", __name__, str(theirs.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=sys.stderr)
            theirs.close()
            self._connection = Connection(ours.detach())
        return self._connection

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._connection is not None:
            self._connection.close()
        self._process = self._connection = None
        self._answered = False


def serve_requests(connection: Connection) -> None:
    """Answer requests until the other end closes, in at most `MAX_MEMORY_BYTES` of memory."""
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    while True:
        try:
            name, arguments = connection.recv()
        except (EOFError, OSError, KeyboardInterrupt):
            return
        connection.send(_answer(name, arguments))


def _answer(name: str, arguments: Mapping[str, Any]) -> _Answer:
    try:
        return _functions()[name](**arguments), None
    except (EtlError, OSError) as error:
        return (None, str(error))
    except MemoryError:
        return (None, "this needs more memory than the studio has; try fewer lines")
    except Exception as error:  # an error of a component or of user code is shown, and the process goes on
        return (None, f"{type(error).__name__}: {error}")


def _functions() -> Mapping[str, Callable[..., Any]]:
    """What the process can do; imported there, as the server needs none of it."""
    from etl.server.studio.drafted_test import draft_test
    from etl.server.studio.format_search import find_format, open_file
    from etl.server.studio.rule_trial import try_rules
    from etl.server.studio.step_trial import TrialRequest, try_pipeline

    return {
        "infer": find_format,
        "open": open_file,
        "try": lambda **request: try_pipeline(TrialRequest(**request)),
        "test": draft_test,
        "rules": try_rules,
        "warm": lambda: None,
    }


if __name__ == "__main__":
    from etl.lean import forbid

    forbid("pandas")
    serve_requests(Connection(int(sys.argv[1])))
