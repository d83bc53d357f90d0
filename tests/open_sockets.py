"""A socket that nobody closes says which test opened it.

Its warning is an error only when garbage is collected, often long after its test and in another one: without this it names two
port numbers.
"""

from __future__ import annotations

import _socket
import os
import socket
import sys
import warnings
from pathlib import Path
from typing import Any

FRAMES = 12
"""Callers that are kept of each socket, the nearest ones."""

_origins: dict[int, str] = {}
"""File descriptor → the test that opened it, and the callers."""


def record() -> None:
    """Record from now on where this process opens sockets."""
    open_socket = socket.socket.__init__

    def opened(self: socket.socket, *arguments: Any, **options: Any) -> None:
        open_socket(self, *arguments, **options)
        _origins[self.fileno()] = f"{os.environ.get('PYTEST_CURRENT_TEST', 'no test')}: {_callers()}"

    def collected(self: socket.socket) -> None:
        if (number := self.fileno()) == -1:
            return
        try:
            warnings.warn(f"unclosed {self!r}, opened by {_origins.get(number)}", ResourceWarning, stacklevel=2, source=self)
        finally:
            _socket.socket.close(self)

    socket.socket.__init__ = opened  # type: ignore[method-assign]
    socket.socket.__del__ = collected  # type: ignore[attr-defined]


def _callers() -> str:
    frame = sys._getframe(2)
    found: list[str] = []
    while frame is not None and len(found) < FRAMES:
        found.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back  # type: ignore[assignment]
    return " < ".join(found)
