"""Kernels over the rows of bit sets."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.kernels import kernel
from etl.rules.engine.program_kernel import ones_of

ONE = np.uint64(1)


@kernel
def rows_to_evaluate(truth: Any, bits: Any, hits: Any, numbers: Any, first: Any, users: Any, rows: Any, counts: Any) -> None:
    """``rows`` uint64[deferred, words]: where a deferred predicate may hold and a rule that uses it may match.

    ``truth`` uint64[rules, words] has the rows in which rules may match, ``users[first[n]:first[n + 1]]`` the rules that use
    predicate n. ``counts`` int64[deferred], all 0, gets the number of rows. The predicates' bits and hits become 0.
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
def list_rows(rows: Any, found: Any) -> None:
    """``found`` int64[n]: the numbers of the n bits that are set, in order."""
    count = 0
    for word in range(rows.shape[0]):
        value, bit = rows[word], 0
        while value != 0:
            if value & ONE:
                found[count] = 64 * word + bit
                count += 1
            value >>= ONE
            bit += 1


@kernel
def put_rows(rows: Any, bits: Any) -> Any:
    """Set the bits of rows. Returns the number of rows."""
    for n in range(rows.shape[0]):
        bits[rows[n] >> 6] |= ONE << np.uint64(rows[n] & 63)
    return rows.shape[0]
