"""Which texts are JSON objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from etl.scanner.texts import Texts

if TYPE_CHECKING:
    from parsers.timestamp.instants import Bools


def mark_invalid(texts: pa.StringArray, refused: Bools) -> None:
    """Mark the texts that are no JSON objects, or nested too deeply to tell."""
    import numpy as np

    from parsers.json import valid_kernel as kernel

    found, scratch = Texts.of(texts), np.empty(16, np.uint8)
    lists = np.zeros(kernel.MOST_DEEP, bool)
    kernel.mark_invalid(found.address, found.length, lists, np.uint64(scratch.ctypes.data), refused)
