"""Starts the kernel's write-back of dirty pages early, so that the `fsync` of a commit has little left to do."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

WRITE_BACK_BYTES = 8 << 20
"""Write-back is started each time a file has grown by this many bytes."""

_WRITE = 2
"""SYNC_FILE_RANGE_WRITE of sync_file_range(2): start writing without waiting."""


def write_back(handle: int, before: int, after: int) -> None:
    """Start writing what a file of ``after`` bytes gained since it had ``before``, once every `WRITE_BACK_BYTES`.

    A hint: does nothing if the system has no such call or refuses it.
    """
    start, end = before // WRITE_BACK_BYTES * WRITE_BACK_BYTES, after // WRITE_BACK_BYTES * WRITE_BACK_BYTES
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
