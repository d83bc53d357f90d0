"""Kernels of deferred predicates: where they have to be decided, and what was decided."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.kernels import kernel
from etl.rules.engine.program_kernel import ones_of

ONE = np.uint64(1)


@kernel
def wanted_rows(truth: Any, bits: Any, hits: Any, numbers: Any, first: Any, users: Any, rows: Any, counts: Any) -> None:
    """``rows`` uint64[deferred, words]: where a deferred predicate may hold and a rule that has it may be true.

    ``truth`` uint64[rules, words] says where rules may be true, ``users[first[n]:first[n + 1]]`` which of them have predicate n.
    ``counts`` int64[deferred], all 0, gets how many rows these are. The predicates' bits and hits become 0.
    """
    for n in range(numbers.shape[0]):
        number = numbers[n]
        for word in range(rows.shape[1]):
            rows[n, word] = 0
        if hits[number] == 0:
            continue
        hits[number] = 0
        for word in range(rows.shape[1]):
            may_hold = bits[number, word]
            if may_hold != 0:
                bits[number, word] = 0
                may_be_true = np.uint64(0)
                for at in range(first[n], first[n + 1]):
                    may_be_true |= truth[users[at], word]
                rows[n, word] = may_hold & may_be_true
                counts[n] += ones_of(rows[n, word])


@kernel
def listed(rows: Any, found: Any) -> None:
    """The numbers of the bits that are set, in order: ``found`` int64[as many]."""
    count = 0
    for word in range(rows.shape[0]):
        value, place = rows[word], 0
        while value != 0:
            if value & ONE:
                found[count] = 64 * word + place
                count += 1
            value >>= ONE
            place += 1


@kernel
def put_rows(rows: Any, bits: Any) -> Any:
    """Set the bits of rows. Returns how many rows are given."""
    for n in range(rows.shape[0]):
        bits[rows[n] >> 6] |= ONE << np.uint64(rows[n] & 63)
    return rows.shape[0]
