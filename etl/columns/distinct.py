"""The kernel that deduplicates the texts of each row of list columns."""

from __future__ import annotations

from typing import Any

from etl.columns.byte_runs import same_bytes
from etl.columns.kernels import kernel


@kernel
def distinct(address: Any, length: Any, first: Any, ends: Any, found_address: Any, found_length: Any, offsets: Any) -> Any:
    """Write the distinct texts of each row to ``found_address`` and ``found_length``, without null and empty ones; returns their
    number.

    ``address`` and ``length`` have the texts of all columns, those of column c from ``first[c]`` on; row r has those from
    ``ends[c, r]`` to ``ends[c, r + 1]``. ``offsets`` (int32[rows + 1]) are the offsets of the rows in the result.
    """
    count = 0
    offsets[0] = 0
    for row in range(offsets.shape[0] - 1):
        begin = count
        for column in range(first.shape[0]):
            for at in range(first[column] + ends[column, row], first[column] + ends[column, row + 1]):
                if length[at] <= 0:
                    continue
                known = False
                for other in range(begin, count):
                    if found_length[other] == length[at] and same_bytes(found_address[other], address[at], length[at]):
                        known = True
                        break
                if not known:
                    found_address[count], found_length[count] = address[at], length[at]
                    count += 1
        offsets[row + 1] = count
    return count
