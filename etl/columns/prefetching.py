"""Loads ahead of use: the texts of a column lie far apart, each in a line of the source's block, so each would be waited for."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import prefetch
from etl.columns.kernels import inlined

AHEAD = 6
"""Texts between the one that is read and the one that is loaded."""

_LINE, _MOST = np.uint64(64), np.int64(256)
"""Bytes of a line of the cache, and bytes of a text after which the processor has noticed by itself."""


@inlined
def prefetch_text(address: Any, length: Any) -> None:
    """Begin to load a text; nothing for null."""
    at, end = address, address + np.uint64(max(min(length, _MOST), np.int64(0)))
    while at < end:
        prefetch(at)
        at += _LINE
