"""Java's hash codes of texts, so that a key goes to the queue that Java's ``SelectMessageQueueByHash`` chooses."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import load_byte
from etl.columns.kernels import kernel

_FACTOR = np.uint32(31)


@kernel
def hash_codes(address: Any, length: Any, codes: Any) -> None:
    """Write ``String.hashCode`` of UTF-8 texts to ``codes`` (int32[n]), computed over their UTF-16 code units; 0 for null."""
    for row in range(address.shape[0]):
        code, at, end = np.uint32(0), address[row], address[row] + np.uint64(max(length[row], 0))
        while at < end:
            first = np.uint32(load_byte(at))
            more = 0 if first < 0x80 else 1 if first < 0xE0 else 2 if first < 0xF0 else 3
            point = first if more == 0 else first & np.uint32(0x3F >> more)
            for step in range(1, more + 1):
                point = (point << np.uint32(6)) | (np.uint32(load_byte(at + np.uint64(step))) & np.uint32(0x3F))
            if point > 0xFFFF:
                point -= np.uint32(0x10000)
                code = code * _FACTOR + (np.uint32(0xD800) + (point >> np.uint32(10)))
                point = np.uint32(0xDC00) + (point & np.uint32(0x3FF))
            code = code * _FACTOR + point
            at += np.uint64(more + 1)
        codes[row] = np.int32(code)
