"""Prefetches texts: those of a column are far apart in memory, so that a kernel would wait for each of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import prefetch
from etl.columns.kernels import inlined

AHEAD = 6
"""Texts between the one that is read and the one that is prefetched."""

_LINE, _MOST = np.uint64(64), np.int64(256)
"""Bytes of a cache line, and bytes of a text after which the CPU prefetches by itself."""


@inlined
def prefetch_text(address: Any, length: Any) -> None:
    """Prefetch a text; does nothing for null."""
    at, end = address, address + np.uint64(max(min(length, _MOST), np.int64(0)))
    while at < end:
        prefetch(at)
        at += _LINE
