"""Receives many datagrams with one call: recvmmsg(2) through ctypes, into memory shared with numpy.

The layout is ``struct mmsghdr`` of 64-bit Linux, the only system with this call. Each datagram has a slot, of which only the
used pages are allocated; the datagrams are then concatenated, at the cost of one slice each.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from connectors.shared.journal.event_blocks import Frames, RejectedMessage, Sender
from connectors.syslog.framing import REJECT_SAMPLE_BYTES, TOO_LONG
from etl.api import ComponentError

SLOTS = 512
"""Maximum number of datagrams of one call."""

MAX_DATAGRAM_BYTES = 0xFFFF
"""Longest UDP datagram, in bytes; longer ones of Unix sockets are truncated."""

_NAME_BYTES = 28
"""Size of struct sockaddr_in6, the longest address used here."""

_DONT_WAIT, _REAL_LENGTH = 0x40, 0x20
"""MSG_DONTWAIT and MSG_TRUNC of recv(2)."""

_MESSAGE = [
    ("name", "<u8"),
    ("name_bytes", "<u4"),
    ("_1", "<u4"),
    ("parts", "<u8"),
    ("parts_count", "<u8"),
    ("control", "<u8"),
    ("control_bytes", "<u8"),
    ("flags", "<i4"),
    ("_2", "<i4"),
    ("length", "<u4"),
    ("_3", "<u4"),
]
_PART = [("base", "<u8"), ("bytes", "<u8")]


class DatagramReceiver:
    """Receives from datagram sockets; ``max_bytes`` is the longest accepted message."""

    def __init__(self, max_bytes: int) -> None:
        import numpy as np

        if sys.platform != "linux":
            raise ComponentError("syslog: datagrams are received on Linux only; listen at tcp:// or unix:// here")
        self._max_bytes = max_bytes
        self._slot = min(max(max_bytes, REJECT_SAMPLE_BYTES), MAX_DATAGRAM_BYTES) + 1
        self._data = np.frombuffer(_allocate(SLOTS * self._slot), np.uint8).reshape(SLOTS, self._slot)
        self._names = np.zeros((SLOTS, _NAME_BYTES), np.uint8)
        self._parts = np.zeros(SLOTS, np.dtype(_PART))
        self._parts["base"] = self._data.ctypes.data + np.arange(SLOTS) * self._slot
        self._parts["bytes"] = self._slot
        self._messages = np.zeros(SLOTS, np.dtype(_MESSAGE))
        self._messages["name"] = self._names.ctypes.data + np.arange(SLOTS) * _NAME_BYTES
        self._messages["parts"] = self._parts.ctypes.data + np.arange(SLOTS) * self._parts.itemsize
        self._messages["parts_count"] = 1
        self._call = ctypes.CDLL(None, use_errno=True).recvmmsg
        self._call.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_void_p)

    def receive(self, sock: socket.socket) -> int:
        """Receive the available datagrams, at most `SLOTS`; returns their number."""
        self._names[:] = 0
        self._messages["name_bytes"] = _NAME_BYTES
        got = self._call(sock.fileno(), self._messages.ctypes.data, SLOTS, _DONT_WAIT | _REAL_LENGTH, None)
        if got >= 0:
            return int(got)
        number = ctypes.get_errno()
        if number in (errno.EAGAIN, errno.EINTR):
            return 0
        raise OSError(number, os.strerror(number))

    def senders(self, count: int) -> tuple[list[Sender], Any]:
        """Return the distinct senders of the received datagrams, and for each datagram the index of its sender."""
        import numpy as np

        names = self._names[:count]
        if (names == names[0]).all():
            return [_parse_socket_name(names[0].tobytes())], np.zeros(count, np.int64)
        unique, numbers = np.unique(names, axis=0, return_inverse=True)
        return [_parse_socket_name(name.tobytes()) for name in unique], numbers.reshape(-1)

    def frames(self, count: int, numbers: Any) -> Iterator[tuple[Frames, Any]]:
        """Yield the received datagrams as messages with the ``numbers`` of their senders; skips those with a number below 0."""
        import numpy as np

        lengths = self._messages["length"][:count].astype(np.int64)
        fits = lengths <= min(self._max_bytes, self._slot)
        rows = np.flatnonzero(fits & (numbers >= 0))
        flat = self._data.data.cast("B")
        spans = zip((rows * self._slot).tolist(), lengths[rows].tolist(), strict=True)
        data = b"".join([flat[at : at + length] for at, length in spans])
        bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths[rows])])
        yield Frames(data, [np.stack([bounds[:-1], bounds[1:]])]), numbers[rows]
        for row in np.flatnonzero(~fits & (numbers >= 0)).tolist():
            shown = bytes(self._data[row, : min(int(lengths[row]), REJECT_SAMPLE_BYTES)])
            yield Frames(shown, rejects=[RejectedMessage(0, len(shown), TOO_LONG, int(lengths[row]))]), int(numbers[row])


def _allocate(size: int) -> mmap.mmap:
    """Allocate memory in small pages: with huge pages, the first byte of a datagram would allocate a huge page."""
    memory = mmap.mmap(-1, size)
    with suppress(OSError):  # a kernel without huge pages
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    return memory


def _parse_socket_name(name: bytes) -> Sender:
    """Parse struct sockaddr_in or sockaddr_in6."""
    family = int.from_bytes(name[:2], sys.byteorder)
    address = socket.inet_ntop(family, name[4:8] if family == socket.AF_INET else name[8:24])
    return Sender.from_socket_name(address, int.from_bytes(name[2:4], "big"))
