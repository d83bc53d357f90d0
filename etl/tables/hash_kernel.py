"""Kernels of the exact index: hashes of keys, and the rows of a key among those of its bucket."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.byte_runs import hash_bytes, same_bytes
from etl.columns.intrinsics import load_byte
from etl.columns.kernels import kernel, kernel_function

_ONE, _ZERO = np.uint64(1), np.uint64(0)
_FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
_THIRD = np.uint64(0x94D049BB133111EB)
_DOT = np.uint8(0x2E)
ABSENT = np.int64(-1)
"""Row number for a key that is not in the table."""

TAG = np.uint64(0xFFFF)
"""The bits of a hash that are stored for each text key."""


@kernel_function
def mix(value: Any) -> Any:
    """Mix the bits of a number: each result bit depends on all bits (Stafford's variant 13 of MurmurHash3's finalizer)."""
    value = (value ^ (value >> np.uint64(30))) * _SECOND
    value = (value ^ (value >> np.uint64(27))) * _THIRD
    return value ^ (value >> np.uint64(31))


@kernel
def hash_texts(address: Any, length: Any, hashes: Any) -> None:
    """uint64[n]: of each text; of a null, 0."""
    for row in range(address.shape[0]):
        hashes[row] = hash_bytes(address[row], length[row], _FIRST) if length[row] >= 0 else _ZERO


@kernel
def hash_numbers(numbers: Any, hashes: Any) -> None:
    """uint64[n]: of each whole number."""
    for row in range(numbers.shape[0]):
        hashes[row] = mix(np.uint64(numbers[row]) + _FIRST)


@kernel
def count_buckets(hashes: Any, shift: Any, counts: Any) -> None:
    """Add to ``counts[b + 1]`` how many hashes are in bucket b."""
    for row in range(hashes.shape[0]):
        counts[(hashes[row] >> shift) + _ONE] += np.uint32(1)


@kernel
def find_numbers(numbers: Any, valid: Any, firsts: Any, shift: Any, keys: Any, begins: Any, rows: Any) -> Any:
    """int64[n]: the row whose key is each number, or `ABSENT`. ``keys`` lie bucket by bucket, each once.

    One pass for each array, without branches that depend on memory, so that the processor runs many loads in parallel. ``begins``
    (uint32[n]) is working memory. The returned number has no meaning: it stops the compiler from removing the third pass, which
    prefetches the keys.
    """
    for row in range(numbers.shape[0]):
        begins[row] = mix(np.uint64(numbers[row]) + _FIRST) >> shift
    for row in range(numbers.shape[0]):
        bucket = np.uint64(begins[row])
        rows[row] = np.int64(firsts[bucket + _ONE]) if valid[row] else np.int64(0)
        begins[row] = firsts[bucket]
    last, near = keys.shape[0] - 1, np.int64(0)
    for row in range(numbers.shape[0] if last >= 0 else 0):
        near ^= np.int64(keys[min(np.int64(begins[row]), last)])
    for row in range(numbers.shape[0]):
        found = ABSENT
        for at in range(np.int64(begins[row]), rows[row]):
            found = np.int64(at) if np.int64(keys[at]) == numbers[row] else found
        rows[row] = found
    return near


@kernel_function
def _key(at: Any, size: Any, index: Any) -> Any:
    """The row of a text, or `ABSENT`."""
    firsts, shift, tags = index[0], index[1], index[2]
    hash_ = hash_bytes(at, size, _FIRST)
    bucket, tag = hash_ >> shift, np.uint16(hash_ & TAG)
    for row in range(firsts[bucket], firsts[bucket + _ONE]):
        if tags[row] == tag and _is_key(at, size, index, row):
            return np.int64(row)
    return ABSENT


@kernel_function
def _is_key(at: Any, size: Any, index: Any, row: Any) -> Any:
    """Whether a text is the key of a row."""
    ends, base = index[3], index[4]
    begin = ends[row]
    return np.int64(ends[row + 1] - begin) == size and same_bytes(at, base + np.uint64(begin), size)


@kernel
def find_texts(address: Any, length: Any, index: Any, scratch: Any, rows: Any) -> Any:
    """int64[n]: the row whose key is each text, or `ABSENT`; in passes, as `find_numbers` does.

    ``index`` holds the start of each bucket, the shift that turns a hash into a bucket number, 16 bits of each hash, the end
    of each key's bytes and the address of the first key. ``scratch`` is working memory, uint64[2, n].
    """
    firsts, shift, tags, ends, _ = index
    hashes, begins = scratch[0], scratch[1]
    for row in range(address.shape[0]):
        hashes[row] = hash_bytes(address[row], length[row], _FIRST) if length[row] >= 0 else _ZERO
    for row in range(address.shape[0]):
        bucket = hashes[row] >> shift
        rows[row] = np.int64(firsts[bucket + _ONE]) if length[row] >= 0 else np.int64(0)
        begins[row] = np.uint64(firsts[bucket])
    last, near = tags.shape[0] - 1, np.int64(0)
    for row in range(address.shape[0] if last >= 0 else 0):
        near ^= np.int64(tags[min(np.int64(begins[row]), last)])
    for row in range(address.shape[0]):
        found, tag = ABSENT, np.uint16(hashes[row] & TAG)
        for at in range(np.int64(begins[row]), rows[row]):
            found = np.int64(at) if found < 0 and tags[at] == tag else found
        rows[row] = found
    for row in range(address.shape[0]):
        near ^= np.int64(ends[max(rows[row], np.int64(0))])
    for row in range(address.shape[0]):
        if rows[row] >= 0 and not _is_key(address[row], length[row], index, rows[row]):
            rows[row] = _key(address[row], length[row], index)
    return near


@kernel
def find_beginnings(address: Any, length: Any, sizes: Any, index: Any, rows: Any) -> None:
    """int64[n]: the row of the longest key that each text begins with; ``sizes`` are those of keys, longest first."""
    for row in range(address.shape[0]):
        rows[row] = ABSENT
        for size in sizes:
            if size <= length[row] and rows[row] < 0:
                rows[row] = _key(address[row], size, index)


@kernel
def find_endings(address: Any, length: Any, longest: Any, index: Any, rows: Any) -> None:
    """int64[n]: the row of the longest key that each text ends with, where it begins at the text's beginning or at or after a
    dot; no key has more than ``longest`` bytes."""
    for row in range(address.shape[0]):
        rows[row] = ABSENT
        at = max(np.int64(0), length[row] - longest)
        while at < length[row] and rows[row] < 0:
            begin = address[row] + np.uint64(at)
            if at == 0 or load_byte(begin) == _DOT or load_byte(begin - _ONE) == _DOT:
                rows[row] = _key(begin, length[row] - at, index)
            at += 1


@kernel
def runs(rows: Any, firsts_of_keys: Any, counts: Any) -> Any:
    """int64[n]: how many rows have the key that was found; ``firsts_of_keys`` is where the rows of each key begin. Returns
    their sum."""
    total = 0
    for row in range(rows.shape[0]):
        counts[row] = firsts_of_keys[rows[row] + 1] - firsts_of_keys[rows[row]] if rows[row] >= 0 else 0
        total += counts[row]
    return total
