"""Choosing the bytes of each literal by which it is found.

A text is looked up at each position for the chosen four bytes of any literal (its *gram*), so a gram should be in few texts.
Where a gram is, all literals that share it are compared, so few literals should share it. With 100,000 literals made of the same
words, 9 to 17 literals shared the gram that was found, on average, as long as only texts decided, and comparing them took most
of the time. Now, of grams that are equally rare in texts, the one that the fewest literals have is chosen: a tenth of the
comparisons; wide keys leave another tenth.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from etl.columns.texts import Texts
from etl.rules.search.edge_kernel import LOW_CASES
from etl.rules.search.literal_arrays import LiteralArrays
from etl.rules.search.literal_kernel import LOW_CASE, MIX, gram_counts
from etl.rules.search.literals import ANYWHERE

GRAM, WIDE = 4, 8
"""Bytes of a gram, and of a wide key: the gram and the bytes after it."""

WIDE_FROM = 4096
"""Number of literals from which on those of eight bytes or more are found by a wide key if there are texts to choose by. Fewer
hardly share grams, and are found by the rarest of all their grams, not only of those with four bytes after them."""

SAMPLE = 512
"""Texts of the first batch by which the rarest gram of each literal is chosen."""

_HASHES = 1 << 16


class LiteralGrams(NamedTuple):
    """The key bytes of literals that may be anywhere in a text, with one value for a literal."""

    words: Any
    """uint32: the first four bytes, or fewer, as a number; letters folded."""
    keys: Any
    """uint64: all key bytes."""
    literals: Any
    """uint32: the literal's number."""
    offsets: Any
    """uint32: where in the literal its key bytes are."""

    def only(self, chosen: Any) -> LiteralGrams:
        """Some of them (bool[n])."""
        return LiteralGrams(*(part[chosen] for part in self))


def gram_frequencies(texts: Texts) -> Any:
    """int64[65536]: how often four bytes, by their hash, are in some of the texts."""
    counts = np.zeros(_HASHES, np.int64)
    step = max(1, len(texts.address) // SAMPLE)
    gram_counts(np.ascontiguousarray(texts.address[::step]), np.ascontiguousarray(texts.length[::step]), counts)
    return counts


def choose_grams(
    literals: LiteralArrays, frequencies: Any = None
) -> tuple[LiteralGrams, LiteralGrams, LiteralGrams, LiteralGrams]:
    """Of each literal of four or more bytes the gram that is rarest in texts (by `gram_frequencies`, if there are texts) and then
    in the literals; all bytes of those of three and two. Returns those with keys of eight, four, three and two bytes.

    Without texts, a gram may be in many of them: all literals that are long enough have wide keys, which rule out most of these
    positions.
    """
    anywhere = literals.kinds == ANYWHERE
    long = np.flatnonzero(anywhere & (literals.sizes >= GRAM))
    wide = (literals.sizes[long] >= WIDE) & (frequencies is None or len(long) >= WIDE_FROM)
    firsts = np.concatenate([[0], np.cumsum(literals.sizes)])[:-1]
    words = fold_words(literals.data, GRAM)
    offsets = _rarest(words, firsts[long], literals.sizes[long] - np.where(wide, WIDE, GRAM) + 1, frequencies)
    at = firsts[long] + offsets
    four = LiteralGrams(words[at], words[at].astype(np.uint64), long.astype(np.uint32), offsets.astype(np.uint32))
    grams = [four.only(wide)._replace(keys=_wide_keys(literals.data, at[wide])), four.only(~wide)]
    for size in (3, 2):
        some = np.flatnonzero(anywhere & (literals.sizes == size))
        short = fold_words(literals.data, size)[firsts[some]]
        grams.append(LiteralGrams(short, short.astype(np.uint64), some.astype(np.uint32), np.zeros(len(some), np.uint32)))
    return grams[0], grams[1], grams[2], grams[3]


def _rarest(words: Any, firsts: Any, counts: Any, frequencies: Any) -> Any:
    """int64[n]: the offset of each literal's rarest gram; ``counts`` are the numbers of offsets at which one may begin."""
    ends = np.cumsum(counts)
    of = np.repeat(np.arange(len(counts)), counts)
    offsets = np.arange(len(of)) - np.repeat(ends - counts, counts)
    found = words[firsts[of] + offsets]
    _, which, shared = np.unique(found, return_inverse=True, return_counts=True)
    in_texts = frequencies[(found * MIX) >> np.uint32(16)] if frequencies is not None else np.zeros(len(found), np.uint8)
    order = np.lexsort((offsets, shared[which], in_texts, of))  # of each literal the rarest comes first
    return offsets[order[ends - counts]]


def fold_words(data: Any, size: int) -> Any:
    """uint32[n]: the bytes at each position as a number, letters folded as the kernel folds them."""
    padded = np.concatenate([data, np.zeros(GRAM, np.uint8)]).astype(np.uint32)
    folded = LOW_CASE & np.uint32((1 << 8 * size) - 1)
    words = np.full(len(data) + 1, folded, np.uint32)
    for index in range(size):
        words |= padded[index : index + len(data) + 1] << np.uint32(8 * index)
    return words


def _wide_keys(data: Any, at: Any) -> Any:
    """uint64[n]: eight bytes at positions, letters folded."""
    return data[at[:, np.newaxis] + np.arange(WIDE)].view(np.uint64).reshape(-1) | LOW_CASES
