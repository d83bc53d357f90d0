"""SHA-1 (FIPS 180-4) of many short messages at once, each of one block: the rounds run over columns of words."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

BLOCK, LONGEST = 64, 55
"""Bytes of a block, and of the longest message that fits into one beside its end mark and length."""

_START = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0)
_ROUND = (0x5A827999, 0x6ED9EBA1, 0x8F1BBCDC, 0xCA62C1D6)
_ROWS = 8192
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


def _block(first: Array) -> Array:
    """16 words of each message → the 5 words of its digest. All rounds work in the same few arrays, without new ones."""
    words, start = list(first.copy()), [np.full(first.shape[1], word, np.uint32) for word in _START]
    a, b, c, d, e = (word.copy() for word in start)
    some, more = np.empty_like(a), np.empty_like(a)
    for t in range(80):
        if t > 15:
            _schedule(words, t, some, more)
        _mix(t, b, c, d, some, more)
        for part in (some, words[t % 16], np.uint32(_ROUND[t // 20])):
            e += part
        e += _rotate(a, 5, some, more)
        b, some = _rotate(b, 30, some, more), b
        a, b, c, d, e = e, a, b, c, d
    return np.stack([one + other for one, other in zip(start, (a, b, c, d, e), strict=True)])


def _rotate(words: Array, bits: int, out: Array, spare: Array) -> Array:
    np.left_shift(words, np.uint32(bits), out=out)
    np.right_shift(words, np.uint32(32 - bits), out=spare)
    return np.bitwise_or(out, spare, out=out)


def _schedule(words: list[Array], t: int, some: Array, more: Array) -> None:
    """Word t takes the place of word t - 16."""
    word = words[t % 16]
    for before in (3, 8, 14):
        word ^= words[(t - before) % 16]
    word[:] = _rotate(word, 1, some, more)


def _mix(t: int, b: Array, c: Array, d: Array, out: Array, spare: Array) -> None:
    """The function of the round of b, c and d: choice, parity, majority, parity."""
    if t < 20:
        np.bitwise_xor(c, d, out=out)
        out &= b
        out ^= d
    elif 40 <= t < 60:
        np.bitwise_or(b, c, out=out)
        out &= d
        np.bitwise_and(b, c, out=spare)
        out |= spare
    else:
        np.bitwise_xor(b, c, out=out)
        out ^= d
