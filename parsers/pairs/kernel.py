"""Kernels over pairs: number equal keys, assign pairs to slots, and pick values."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.byte_runs import hash_bytes, same_bytes
from etl.columns.kernels import kernel
from etl.columns.views import put_view

_EIGHT = np.uint64(8)
_INLINE = np.int64(12)

_DROPPED = np.int32(-1)
_NOT_FIRST = np.int32(-2)
"""The slot of a pair whose key occurs earlier in the row: the earlier pair leads to it."""

_FIRST, _LAST, _ALL = np.uint8(0), np.uint8(1), np.uint8(2)
_NOTHING: Any = np.int64(0)
_TRUE_BYTES: Any = np.int64(4)
_TRUE = np.frombuffer(b"true" + bytes(12), np.uint8).copy()


# ── Equal texts ───────────────────────────────────────────────────────────────────────────────────


@kernel
def number_texts(address: Any, length: Any, seed: Any, table: Any, first: Any, numbers: Any) -> Any:
    """Give equal texts the same number; ``first`` gets the first row of each number. Returns the number of distinct texts.

    ``table`` is a hash table of zeros: a power of two of entries, at most half of which are used.
    """
    count, mask = np.int32(0), np.uint64(table.shape[0] - 1)
    for pair in range(address.shape[0]):
        size = length[pair]
        index = hash_bytes(address[pair], size, seed) & mask
        while True:
            known = table[index]
            if known == 0:
                first[count] = pair
                count += np.int32(1)
                table[index] = known = count
                break
            earlier = first[known - 1]
            if length[earlier] == size and same_bytes(address[earlier], address[pair], size):
                break
            index = (index + np.uint64(1)) & mask
        numbers[pair] = known - np.int32(1)
    return count


# ── Slots ─────────────────────────────────────────────────────────────────────────────────────────


@kernel
def assign_pairs(
    bounds: Any, modes: Any, length: Any, last_row: Any, last_pair: Any, field_pairs: Any, slots: Any, next_pairs: Any
) -> None:
    """Assign pairs to slots: in ``slots``, replace each key's slot by the pair's, according to the slot's mode.

    ``last_row`` (-1) and ``last_pair`` are working memory: the latest row with a pair of each slot, and that pair. A key without
    a value is dropped if the row also has the key with a value.
    """
    for row in range(bounds.shape[0] - 1):
        for pair in range(bounds[row], bounds[row + 1]):
            slot = slots[pair]
            next_pairs[pair] = -1
            if slot < 0:
                continue
            if last_row[slot] == row:
                earlier = last_pair[slot]
                if length[pair] < 0 or (modes[slot] == _FIRST and length[earlier] >= 0):
                    slots[pair] = _DROPPED
                    continue
                if modes[slot] == _ALL and length[earlier] >= 0:
                    next_pairs[earlier], last_pair[slot], slots[pair] = pair, pair, _NOT_FIRST
                    continue
                slots[earlier] = _DROPPED
            last_row[slot] = row
            last_pair[slot] = pair
            if slot < field_pairs.shape[0]:
                field_pairs[slot, row] = pair


@kernel
def list_members(field_pairs: Any, next_pairs: Any, offsets: Any, members: Any) -> Any:
    """List the pairs of each row's first pair and all that follow it in ``next_pairs``. Returns the number of pairs."""
    count = 0
    offsets[0] = 0
    for row in range(field_pairs.shape[0]):
        pair = field_pairs[row]
        while pair >= 0:
            members[count] = pair
            count += 1
            pair = next_pairs[pair]
        offsets[row + 1] = count
    return count


# ── Values ────────────────────────────────────────────────────────────────────────────────────────


@kernel
def pick_views(indexes: Any, address: Any, length: Any, base: Any, size: Any, views: Any, valid: Any) -> Any:
    """Views of the picked texts; returns how many are null, and how many lie outside the ``size`` bytes at ``base``."""
    nulls, outside = 0, 0
    true = np.uint64(_TRUE.ctypes.data)
    for row in range(indexes.shape[0]):
        pair = indexes[row]
        valid[row] = pair >= 0
        nulls += pair < 0
        source, many = true, _NOTHING
        if pair >= 0:
            alone = length[pair] < 0
            many = _TRUE_BYTES if alone else length[pair]
            source = true if alone else address[pair]
        outside += many > _INLINE and not (base <= source and source + np.uint64(many) <= base + size)
        put_view(views + np.uint64(16) * np.uint64(row), source, many, source - base)
    return nulls, outside


@kernel
def pick_texts(indexes: Any, address: Any, length: Any, to: Any, many: Any) -> None:
    """Addresses and lengths of the picked texts; -1 for none."""
    true = np.uint64(_TRUE.ctypes.data)
    for row in range(indexes.shape[0]):
        pair = indexes[row]
        to[row], many[row] = true, _TRUE_BYTES
        if pair < 0:
            many[row] = -1
        elif length[pair] >= 0:
            to[row], many[row] = address[pair], length[pair]
