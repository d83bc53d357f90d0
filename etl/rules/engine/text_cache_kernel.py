"""Kernels that number the distinct texts of a column, and set the bits of rows by the predicates of their texts."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.byte_runs import PREFETCH_DISTANCE, hash_bytes, prefetch_text, same_bytes
from etl.columns.intrinsics import load_byte, load_long, store_byte, store_long
from etl.columns.kernels import kernel, kernel_function

EIGHT, ONE = np.uint64(8), np.uint64(1)
_SEED = np.uint64(0)


@kernel_function
def _copy(target: Any, source: Any, size: Any) -> None:
    end = source + np.uint64(size)
    while end - source >= EIGHT:
        store_long(target, load_long(source))
        source += EIGHT
        target += EIGHT
    while source < end:
        store_byte(target, load_byte(source))
        source += ONE
        target += ONE


@kernel
def number_texts(
    address: Any, length: Any, arena: Any, room: Any, table: Any, hashes: Any, ends: Any, known: Any, code: Any
) -> Any:  # fmt: skip
    """Set ``code`` (int32[n]) to the number of each text in the cache, -1 for null. New texts are copied to the arena.

    ``arena`` is the address of ``room`` bytes, ``table`` int32[power of two] (-1: free), ``hashes`` uint64[most] and ``ends``
    int32[most + 1] describe the ``known`` texts: text t is ``ends[t]`` to ``ends[t + 1]`` of the arena. Returns the number of
    texts in the cache, or -1 if one more does not fit.
    """
    mask = np.uint64(table.shape[0] - 1)
    texts = address.shape[0]
    for n in range(texts):
        if n + PREFETCH_DISTANCE < texts:
            prefetch_text(address[n + PREFETCH_DISTANCE], length[n + PREFETCH_DISTANCE])
        size = length[n]
        if size < 0:
            code[n] = -1
            continue
        hash_ = hash_bytes(address[n], size, _SEED)
        slot = hash_ & mask
        while True:
            text = table[slot]
            if text < 0:
                if known >= hashes.shape[0] or ends[known] + size > room:
                    return -1
                _copy(arena + np.uint64(ends[known]), address[n], size)
                ends[known + 1] = ends[known] + size
                table[slot], hashes[known], code[n] = known, hash_, known
                known += 1
                break
            alike = hashes[text] == hash_ and ends[text + 1] - ends[text] == size
            if alike and same_bytes(arena + np.uint64(ends[text]), address[n], size):
                code[n] = text
                break
            slot = (slot + ONE) & mask
    return known


@kernel
def group_by_text(text: Any, predicate: Any, first: Any, predicates: Any) -> None:
    """Group pairs of text and predicate by text: text t has ``predicates[first[t]:first[t + 1]]``.

    ``first`` (int64[texts + 2]) is all 0 at the call; its first texts + 1 values are the result.
    """
    for n in range(text.shape[0]):
        first[text[n] + 2] += 1
    for t in range(2, first.shape[0]):
        first[t] += first[t - 1]
    for n in range(text.shape[0]):
        predicates[first[text[n] + 1]] = predicate[n]
        first[text[n] + 1] += 1


@kernel
def set_row_bits(code: Any, row: Any, first: Any, predicates: Any, bits: Any, hits: Any) -> None:
    """Set the bits of rows by the predicates of texts: value n is text ``code[n]`` (negative: null), in row ``row[n]``."""
    for n in range(code.shape[0]):
        text = code[n]
        if text < 0:
            continue
        word, bit = row[n] >> 6, ONE << np.uint64(row[n] & 63)
        for at in range(first[text], first[text + 1]):
            predicate = predicates[at]
            bits[predicate, word] |= bit
            hits[predicate] += 1
