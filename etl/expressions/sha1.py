"""SHA-1 (FIPS 180-4) of many short messages at once, each of one block: the rounds run over columns of words."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

BLOCK, LONGEST = 64, 55
"""Bytes of a block, and of the longest message that fits into one beside its end mark and length."""

_START = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0)
_ROUND = (0x5A827999, 0x6ED9EBA1, 0x8F1BBCDC, 0xCA62C1D6)
_ROWS = 4096
"""Messages worked on together: their words stay in the cache of a core."""


def digests(messages: Array, sizes: Array) -> Array:
    """Rows of 64 bytes that hold messages of ``sizes`` bytes, zeros behind them → rows of 20 bytes. Changes ``messages``."""
    rows = np.arange(len(messages))
    messages[rows, sizes] = 0x80
    messages[:, 62:64] = (sizes * 8).astype(">u2").view(np.uint8).reshape(-1, 2)
    found = np.empty((len(messages), 5), ">u4")
    for first in range(0, len(messages), _ROWS):
        words = np.ascontiguousarray(messages[first : first + _ROWS]).view(">u4").astype(np.uint32).T
        found[first : first + _ROWS] = _block(np.ascontiguousarray(words)).T
    return found.view(np.uint8).reshape(-1, 20)


def _rotated(words: Array, bits: int) -> Array:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


def _block(first: Array) -> Array:
    """16 words of each message → the 5 words of its digest."""
    words = list(first)
    for t in range(16, 80):
        words.append(_rotated(words[t - 3] ^ words[t - 8] ^ words[t - 14] ^ words[t - 16], 1))
    start = [np.full(first.shape[1], word, np.uint32) for word in _START]
    a, b, c, d, e = start
    for t, word in enumerate(words):
        a, b, c, d, e = _rotated(a, 5) + _mixed(t, b, c, d) + e + np.uint32(_ROUND[t // 20]) + word, a, _rotated(b, 30), c, d
    return np.stack([one + other for one, other in zip(start, (a, b, c, d, e), strict=True)])


def _mixed(t: int, b: Array, c: Array, d: Array) -> Array:
    if t < 20:
        return d ^ (b & (c ^ d))
    return (b & c) | (d & (b | c)) if 40 <= t < 60 else b ^ c ^ d
