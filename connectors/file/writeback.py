"""Asking the kernel to write dirty pages early, so that the `fsync` of a commit finds little left to do."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

STRIDE = 8 << 20
"""Bytes after which a growing file is asked for: enough for a disk to work on, little to wait for."""

_WRITE = 2
"""SYNC_FILE_RANGE_WRITE of sync_file_range(2): begin to write, wait for nothing."""


def write_back(handle: int, before: int, after: int) -> None:
    """Begin to write what a file of ``after`` bytes has gained since it had ``before``, once a `STRIDE`.

    A hint: where the system has no such call, or refuses it, nothing happens.
    """
    start, end = before // STRIDE * STRIDE, after // STRIDE * STRIDE
    call = _sync_file_range()
    if call is not None and end > start:
        call(handle, start, end - start, _WRITE)


@cache
def _sync_file_range() -> Any:
    if os.uname().sysname != "Linux":
        return None
    call = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if call is not None:
        call.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return call
