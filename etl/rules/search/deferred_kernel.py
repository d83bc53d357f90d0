"""The kernel that looks for single literals in the texts of those rows in which a rule asks for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.kernels import kernel
from etl.rules.search.contains_kernel import contains

ONE = np.uint64(1)


@kernel
def look_up(
    truth: Any, first: Any, entries: Any, address: Any, length: Any, needles: Any, predicates: Any, bits: Any, hits: Any
) -> Any:
    """Look for the literals ``entries[first[r]:first[r + 1]]`` in the texts of the rows of ``truth`` uint64[rules, words] in
    which rule r may be true. Those found are set in ``bits`` and counted in ``hits``. Returns how many were looked for."""
    looked = 0
    for rule in range(truth.shape[0]):
        if first[rule] == first[rule + 1]:
            continue
        for word in range(truth.shape[1]):
            value, bit = truth[rule, word], ONE
            row = 64 * word
            while value != 0:
                if value & ONE and length[row] >= 0:
                    for at in range(first[rule], first[rule + 1]):
                        needle = entries[at]
                        predicate = predicates[needle]
                        if bits[predicate, word] & bit == 0:
                            looked += 1
                            if contains(address[row], length[row], needle, needles):
                                bits[predicate, word] |= bit
                                hits[predicate] += 1
                value >>= ONE
                bit <<= ONE
                row += 1
    return looked
