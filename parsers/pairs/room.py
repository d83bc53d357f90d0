"""Room for the pairs that a kernel finds, and the pairs in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from etl.columns.texts import Texts
from parsers.common.escapes import resolved
from parsers.common.failures import Failures
from parsers.pairs.pairs import Pairs

KEY_ESCAPES, VALUE_ESCAPES = np.uint8(1), np.uint8(2)
"""Which text of a pair has escapes in it."""


class Found(NamedTuple):
    """Addresses of the room: int64 or uint64 for each pair, and ``escaped``, a byte for each.

    Numba counts the users of an array wherever a tuple of arrays is looked at; numbers are free.
    """

    key_address: Any
    key_length: Any
    value_address: Any
    value_length: Any
    escaped: Any


class Room:
    """Arrays for so many pairs and rows; pages that are not written to cost nothing."""

    def __init__(self, rows: int, pairs: int, outcomes: Any = None) -> None:
        self._keys, self._values = np.empty((2, pairs), np.uint64), np.empty((2, pairs), np.uint64)
        self._escaped = np.empty(pairs, np.uint8)
        self.bounds = np.empty(rows + 1, np.int64)
        self.outcomes = np.empty(rows, np.uint8) if outcomes is None else outcomes
        """What became of each row; 0 is success."""

    @classmethod
    def of(cls, texts: Texts, outcomes: Any = None) -> Room:
        """Enough for the texts: a pair takes two bytes at least, its separator included. ``outcomes`` are those so far."""
        rows = len(texts.length)
        return cls(rows, (int(np.maximum(texts.length, 0).sum()) + rows) // 2 + 1, outcomes)

    def found(self) -> Found:
        """What kernels write to."""
        arrays = (*self._keys, *self._values, self._escaped)
        return Found(*[np.uint64(array.ctypes.data) for array in arrays])

    def pairs(self, texts: Texts, meanings: Mapping[str, str], unicode: bool = False) -> Pairs:
        """The pairs that were found in the texts, without their escapes."""
        many = int(self.bounds[-1])
        keys, values = (
            texts._replace(address=address[:many], length=length[:many].view(np.int64))
            for address, length in (self._keys, self._values)
        )
        escaped = self._escaped[:many]
        if escaped.any():
            keys = resolved(keys, np.flatnonzero(escaped & KEY_ESCAPES), meanings, unicode)
            values = resolved(values, np.flatnonzero(escaped & VALUE_ESCAPES), meanings, unicode)
        return Pairs(self.bounds, keys, values)

    def failures(self, reasons: Mapping[int, str]) -> Failures:
        """Why rows have failed."""
        failures = Failures(None, "")
        failed = self.outcomes != 0
        if failed.any():
            texts = pa.array([reasons.get(number) for number in range(max(reasons) + 1)], pa.string())
            failures.add(failed, texts.take(pa.array(self.outcomes)))
        return failures
