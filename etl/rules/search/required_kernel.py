"""The kernel that says which texts have one literal of each of several sets."""

from __future__ import annotations

from typing import Any

from etl.columns.kernels import kernel
from etl.rules.search.contains_kernel import contains


@kernel
def have_all(address: Any, length: Any, values: Any, needles: Any, sets: Any, found: Any) -> None:
    """``found`` bool[n]: whether each of the texts ``values`` int64[n] has a literal of every set. Set s has the literals
    ``sets[s]`` to ``sets[s + 1]``."""
    for n in range(values.shape[0]):
        text = values[n]
        found[n] = True
        for some in range(sets.shape[0] - 1):
            one = False
            for literal in range(sets[some], sets[some + 1]):
                if contains(address[text], length[text], literal, needles):
                    one = True
                    break
            if not one:
                found[n] = False
                break
