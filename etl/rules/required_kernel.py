"""The kernel that says which texts have one literal of each of several sets."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import load_byte
from etl.columns.kernels import inlined, kernel
from etl.rules.needle_kernel import FOLD

ONE = np.uint64(1)


@inlined
def _has(begin: Any, length: Any, data: Any, first: Any, behind: Any) -> Any:
    """Whether a literal, ``data[first:behind]``, is in a text."""
    size = behind - first
    for start in range(length - size + 1):
        at = begin + np.uint64(start)
        place = 0
        while place < size and FOLD[load_byte(at + np.uint64(place))] == data[first + place]:
            place += 1
        if place == size:
            return True
    return False


@kernel
def have_all(address: Any, length: Any, values: Any, data: Any, first: Any, sets: Any, found: Any) -> None:
    """``found`` bool[n]: whether each of the texts ``values`` int64[n] has a literal of every set. Literal i is
    ``data[first[i]:first[i + 1]]``, letters small; set s has the literals ``sets[s]`` to ``sets[s + 1]``."""
    for n in range(values.shape[0]):
        text = values[n]
        found[n] = True
        for some in range(sets.shape[0] - 1):
            one = False
            for literal in range(sets[some], sets[some + 1]):
                if _has(address[text], length[text], data, first[literal], first[literal + 1]):
                    one = True
                    break
            if not one:
                found[n] = False
                break
