"""The part of kernels that looks for one literal in one text."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import equal_bytes, load_byte
from etl.columns.kernels import inlined
from etl.rules.search.literal_kernel import same

ONE, SIXTEEN = np.uint64(1), np.uint64(16)


@inlined
def contains(begin: Any, length: Any, needle: Any, needles: Any) -> Any:
    """Whether a literal is in a text: 16 places at once by the literal's first byte and its last."""
    size = np.uint64(needles[1][needle])
    if np.uint64(length) < size:
        return False
    data, cases, last = needles[2][needle], needles[3][needle], size - ONE
    low, high = load_byte(data), load_byte(data + last)
    other_low, other_high = low ^ load_byte(cases), high ^ load_byte(cases + last)
    at, end = begin, begin + np.uint64(length) - last  # no literal begins at ``end`` or behind
    if end - at < SIXTEEN:
        while at < end:
            if same(at, needle, needles):
                return True
            at += ONE
        return False
    while at < end:
        at = min(at, end - SIXTEEN)  # some places twice, instead of bytes behind the text
        first = equal_bytes(at, low) | equal_bytes(at, other_low)
        both = first & (equal_bytes(at + last, high) | equal_bytes(at + last, other_high))
        place = at
        while both != 0:
            if both & np.uint32(1) and same(place, needle, needles):
                return True
            both >>= np.uint32(1)
            place += ONE
        at += SIXTEEN
    return False
