"""The kernel that compares the texts of two columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.byte_runs import same_bytes
from etl.columns.kernels import kernel


@kernel
def compare_texts(left: Any, left_size: Any, right: Any, right_size: Any, kind: Any, result: Any) -> None:
    """``result`` bool[n]: whether the left text equals (0), contains (1), begins with (2) or ends with (3) the right one."""
    for row in range(left.shape[0]):
        size, inner = left_size[row], right_size[row]
        if size < 0 or inner < 0 or inner > size or (kind == 0 and inner != size):
            continue
        first = size - inner if kind == 3 else np.int64(0)
        last = size - inner if kind in (1, 3) else np.int64(0)
        while first <= last and not result[row]:
            result[row] = same_bytes(left[row] + np.uint64(first), right[row], inner)
            first += 1
