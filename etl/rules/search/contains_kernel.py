"""Kernels that search for single literals in chosen texts."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.kernels import kernel
from etl.rules.search.match_kernel import contains_literal

ONE = np.uint64(1)


@kernel
def find_in_rows(
    truth: Any, first: Any, entries: Any, address: Any, length: Any, literals: Any, owners: Any, bits: Any, hits: Any
) -> Any:
    """Search for the literals ``entries[first[r]:first[r + 1]]`` of rule r in the texts of the rows in which the rule may match.

    ``truth`` uint64[rules, words] has these rows. Literals that are found are set in ``bits`` and counted in ``hits``, under the
    number in ``owners``. Returns the number of searches.
    """
    searches = 0
    for rule in range(truth.shape[0]):
        if first[rule] == first[rule + 1]:
            continue
        for word in range(truth.shape[1]):
            value, bit = truth[rule, word], ONE
            row = 64 * word
            while value != 0:
                if value & ONE and length[row] >= 0:
                    for at in range(first[rule], first[rule + 1]):
                        literal = entries[at]
                        owner = owners[literal]
                        if bits[owner, word] & bit == 0:
                            searches += 1
                            if contains_literal(address[row], length[row], literal, literals):
                                bits[owner, word] |= bit
                                hits[owner] += 1
                value >>= ONE
                bit <<= ONE
                row += 1
    return searches


@kernel
def contain_all_sets(address: Any, length: Any, values: Any, literals: Any, sets: Any, found: Any) -> None:
    """``found`` bool[n]: whether each of the texts ``values`` int64[n] contains a literal of every set. Set s has the literals
    ``sets[s]`` to ``sets[s + 1]``."""
    for n in range(values.shape[0]):
        text = values[n]
        found[n] = True
        for some in range(sets.shape[0] - 1):
            one = False
            for literal in range(sets[some], sets[some + 1]):
                if contains_literal(address[text], length[text], literal, literals):
                    one = True
                    break
            if not one:
                found[n] = False
                break
