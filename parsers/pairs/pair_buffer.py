"""The buffer that kernels write pairs to, and the pairs in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from etl.columns.intrinsics import store_byte, store_long
from etl.columns.kernels import kernel_function
from etl.columns.texts import Texts
from parsers.common.escapes import resolve_escapes
from parsers.common.failures import Failures
from parsers.pairs.pair_columns import Pairs

KEY_ESCAPES, VALUE_ESCAPES = np.uint8(1), np.uint8(2)
"""Flags of a pair: its key has escapes, its value has."""

_EIGHT = np.uint64(8)


class PairAddresses(NamedTuple):
    """Addresses of a buffer's arrays: int64 or uint64 for each pair, and ``escaped``, a byte for each.

    Numba counts the users of an array each time that a kernel reads it out of a tuple; addresses are plain numbers.
    """

    key_address: Any
    key_length: Any
    value_address: Any
    value_length: Any
    escaped: Any


class PairBuffer:
    """Arrays for a number of pairs and rows; pages that no kernel writes to take no memory."""

    def __init__(self, rows: int, pairs: int, outcomes: Any = None) -> None:
        self._keys, self._values = np.empty((2, pairs), np.uint64), np.empty((2, pairs), np.uint64)
        self._escaped = np.empty(pairs, np.uint8)
        self.bounds = np.empty(rows + 1, np.int64)
        self.outcomes = np.empty(rows, np.uint8) if outcomes is None else outcomes
        """How each row ended; 0 is success."""

    @classmethod
    def of(cls, texts: Texts, outcomes: Any = None) -> PairBuffer:
        """Enough for the texts: a pair takes two bytes at least, its separator included. ``outcomes`` are those so far."""
        rows = len(texts.length)
        return cls(rows, (int(np.maximum(texts.length, 0).sum()) + rows) // 2 + 1, outcomes)

    def addresses(self) -> PairAddresses:
        """Where kernels write to."""
        arrays = (*self._keys, *self._values, self._escaped)
        return PairAddresses(*[np.uint64(array.ctypes.data) for array in arrays])

    def pairs(self, texts: Texts, meanings: Mapping[str, str], unicode: bool = False) -> Pairs:
        """The pairs of the texts with their escapes resolved (`resolve_escapes`)."""
        many = int(self.bounds[-1])
        keys, values = (
            texts._replace(address=address[:many], length=length[:many].view(np.int64))
            for address, length in (self._keys, self._values)
        )
        escaped = self._escaped[:many]
        if escaped.any():
            keys = resolve_escapes(keys, np.flatnonzero(escaped & KEY_ESCAPES), meanings, unicode)
            values = resolve_escapes(values, np.flatnonzero(escaped & VALUE_ESCAPES), meanings, unicode)
        return Pairs(self.bounds, keys, values)

    def failures(self, reasons: Mapping[int, str]) -> Failures:
        """The rows that failed, with the reasons of their outcomes."""
        failures = Failures(None, "")
        failed = self.outcomes != 0
        if failed.any():
            texts = pa.array([reasons.get(number) for number in range(max(reasons) + 1)], pa.string())
            failures.add(failed, texts.take(pa.array(self.outcomes)))
        return failures


@kernel_function
def put_pair(buffer: Any, pair: Any, key: Any, key_end: Any, value: Any, value_length: Any, escaped: Any) -> None:
    """Write a pair of `PairAddresses` as number ``pair``; a value of length -1 is a key that stands alone."""
    at = np.uint64(pair) * _EIGHT
    store_long(buffer.key_address + at, key)
    store_long(buffer.key_length + at, key_end - key)
    store_long(buffer.value_address + at, value)
    store_long(buffer.value_length + at, np.uint64(value_length))
    store_byte(buffer.escaped + np.uint64(pair), np.uint8(escaped))
