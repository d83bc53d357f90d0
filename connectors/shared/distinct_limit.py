"""A limit on the number of different names, such as indices or streams, of the events of one split."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


class DistinctLimit:
    """Counts the different names of the events of one split, in the order of the events: a repeated split exceeds the limit
    with the same ones.
    """

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self._known: set[str] = set()

    def find_beyond(self, names: pa.Array) -> pa.Array | None:
        """Return which events have names beyond the limit; None if there are none."""
        new = [name for name in pc.unique(names).to_pylist() if name not in self._known]
        free = self.maximum - len(self._known)
        self._known.update(new[:free])
        return pc.is_in(names, value_set=pa.array(new[free:], names.type)) if new[free:] else None
