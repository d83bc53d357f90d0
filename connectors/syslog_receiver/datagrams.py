"""Datagrams, many with one call: recvmmsg(2) through ctypes into memory that numpy looks at.

The layout is that of ``struct mmsghdr`` of 64-bit Linux, which is what has this call. Each datagram has a slot, of which
only the pages are used that it fills; then the datagrams are laid side by side, at the cost of a slice each.
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

from connectors.syslog_receiver.block import Sender
from connectors.syslog_receiver.framing import SHOWN, TOO_LONG, Fault, Frames
from etl.api import ComponentError

SLOTS = 512
"""Datagrams received at once."""

LARGEST = 0xFFFF
"""Bytes of the longest datagram of UDP; those of Unix sockets may be longer, and are cut there."""

_NAME_BYTES = 28
"""struct sockaddr_in6, the longest there is here."""

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


class Datagrams:
    """Receives from datagram sockets, one after the other; ``most``: bytes of the longest message taken."""

    def __init__(self, most: int) -> None:
        import numpy as np

        if sys.platform != "linux":
            raise ComponentError("syslog: datagrams are received on Linux only; listen at tcp:// or unix:// here")
        self._most = most
        self._slot = min(max(most, SHOWN), LARGEST) + 1
        self._data = np.frombuffer(_memory(SLOTS * self._slot), np.uint8).reshape(SLOTS, self._slot)
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
        """Take what is there, up to `SLOTS` datagrams; how many."""
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
        """The senders of the datagrams taken, and which of them sent each."""
        import numpy as np

        names = self._names[:count]
        if (names == names[0]).all():
            return [_sender(names[0].tobytes())], np.zeros(count, np.int64)
        unique, numbers = np.unique(names, axis=0, return_inverse=True)
        return [_sender(name.tobytes()) for name in unique], numbers.reshape(-1)

    def frames(self, count: int, numbers: Any) -> Iterator[tuple[Frames, Any]]:
        """The datagrams taken, each a message, and their senders' ``numbers``; those with one below 0 are left out."""
        import numpy as np

        lengths = self._messages["length"][:count].astype(np.int64)
        fits = lengths <= min(self._most, self._slot)
        rows = np.flatnonzero(fits & (numbers >= 0))
        flat = self._data.data.cast("B")
        spans = zip((rows * self._slot).tolist(), lengths[rows].tolist(), strict=True)
        data = b"".join([flat[at : at + length] for at, length in spans])
        bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths[rows])])
        yield Frames(data, [np.stack([bounds[:-1], bounds[1:]])]), numbers[rows]
        for row in np.flatnonzero(~fits & (numbers >= 0)).tolist():
            shown = bytes(self._data[row, : min(int(lengths[row]), SHOWN)])
            yield Frames(shown, faults=[Fault(0, len(shown), TOO_LONG, int(lengths[row]))]), int(numbers[row])


def _memory(size: int) -> mmap.mmap:
    """Pages that are taken as they are used, each by itself: a large one would be taken for a datagram's first byte."""
    memory = mmap.mmap(-1, size)
    with suppress(OSError):  # a kernel without large ones
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    return memory


def _sender(name: bytes) -> Sender:
    """struct sockaddr_in or sockaddr_in6 → who that is."""
    family = int.from_bytes(name[:2], sys.byteorder)
    address = socket.inet_ntop(family, name[4:8] if family == socket.AF_INET else name[8:24])
    return Sender.of(address, int.from_bytes(name[2:4], "big"))
