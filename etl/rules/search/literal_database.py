"""Many literals as a database that is scanned once a batch: those of the rules on one field, or those of a table's patterns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from etl.columns.texts import Texts
from etl.rules.search.edge_kernel import ALL, HEAD, TAIL, edge_keys, put_keys
from etl.rules.search.literal_kernel import LOW_CASE, MIX, POSITIONS, find, gram_counts, put_words
from etl.rules.search.literals import ANYWHERE, AT_END, AT_START, WHOLE, Literal

FEW_PAIRS = 64
"""Number of different first two bytes of literals of three, up to which these find them: a look-up less at each position."""

SAMPLE = 512
"""Texts of the first batch by which the rarest part of each literal is chosen."""

_FIRST_ROOM = 1 << 16
"""Pairs that the buffer of a search holds at first."""

_GRAM, _BYTE_PAIRS, _CASE = 4, 1 << 16, 0x20
_NO_BITS = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, 0), np.uint64), np.empty(0, np.int64))
"""Rows, owners, bits and hits of a scan for pairs."""


class LiteralArrays(NamedTuple):
    """Literals as arrays, each with one value for a literal; see `Literal`."""

    data: Any
    """uint8: the bytes of all literals, end to end."""
    sizes: Any
    """int64."""
    kinds: Any
    """uint8."""
    cased: Any
    """bool."""
    owners: Any
    """int64."""


def pack(literals: Sequence[Literal]) -> LiteralArrays:
    """Literals → arrays."""
    return LiteralArrays(
        np.frombuffer(b"".join(one.data for one in literals), np.uint8),
        np.array([len(one.data) for one in literals], np.int64),
        np.array([one.kind for one in literals], np.uint8),
        np.array([one.cased for one in literals], np.bool_),
        np.array([one.owner for one in literals], np.int64),
    )


class _Grams(NamedTuple):
    """The key bytes of literals that may be anywhere: up to four bytes as a number, the literal, and where in it they are."""

    words: Any
    """uint32."""
    literals: Any
    """int32."""
    places: Any
    """int32."""

    def only(self, chosen: Any) -> _Grams:
        """Some of them (bool[n])."""
        return _Grams(self.words[chosen], self.literals[chosen], self.places[chosen])


class _Index(NamedTuple):
    """A hash table of literals by some of their bytes: bucket b has the literals ``entries[firsts[b]:firsts[b + 1]]``."""

    keys: Any
    """uint32[power of two], open addressing."""
    buckets: Any
    """int32: the bucket of each key; -1: free."""
    firsts: Any
    entries: Any
    places: Any
    """Where in the literal these bytes are."""


class _Sieves(NamedTuple):
    """Small tables that say at which positions a literal may be."""

    four: Any
    """Bits, by the upper bits of four mixed bytes."""
    shift: Any
    three: Any
    """Bytes, by the upper bits of three mixed bytes."""
    three_shift: Any
    two: Any
    """Bytes, by two bytes."""
    any_short: bool
    """Whether there are literals of two or three bytes."""
    any_three: bool
    """Whether ``three`` is used; if not, ``two`` holds the first two bytes of literals of three."""


class LiteralBytes:
    """The bytes of literals, as kernels read them."""

    def __init__(self, literals: LiteralArrays) -> None:
        sizes = literals.sizes
        first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint64)[:-1]
        small = (literals.data >= 97) & (literals.data <= 122) & ~np.repeat(literals.cased, sizes)
        self.data = np.append(literals.data, np.uint8(0))
        self.cases = np.append(small * np.uint8(_CASE), np.uint8(0))
        """The case bit of each letter if case does not count, else 0."""
        self.arrays = first, sizes, first + np.uint64(self.data.ctypes.data), first + np.uint64(self.cases.ctypes.data)
        """The start and size of each literal, and the addresses of its bytes and of its case bits."""


class LiteralDatabase:
    """The tables by which literals are found. They are built when the first texts are scanned, by the frequencies in them."""

    def __init__(self, literals: LiteralArrays) -> None:
        self._literals, self.owners = literals, literals.owners
        self._bytes = LiteralBytes(literals)
        self.arrays = self._bytes.arrays
        edges = (_build_edges(self.arrays, literals.kinds == kind) for kind in (AT_START, AT_END, WHOLE))
        self._edges = (_edge_pairs(literals, self._bytes), *edges)
        self._singles = _singles(literals, self._bytes)
        self._grams: tuple[_Grams, ...] | None = None
        self._anywhere: tuple[_Sieves, tuple[_Index, ...]] | None = None
        self._found, self._places = np.empty((2, _FIRST_ROOM), np.int32), np.empty(int(POSITIONS), np.uint64)
        self._last_text = np.empty(len(literals.sizes), np.int32)

    def find(self, texts: Texts) -> Iterator[tuple[Any, int]]:
        """Yield pairs of literal and text (int32[2, …], overwritten by the next) and how many there are."""
        first, count = 0, len(texts.address)
        while first < count:
            pairs, behind = self._scan(texts, first, (self._found, *_NO_BITS))
            yield self._found, pairs
            if behind == first:  # one text contains more literals than the buffer holds
                self._found = np.empty((2, 2 * self._found.shape[1]), np.int32)
            first = behind

    def mark(self, texts: Texts, rows: Any, bits: Any, hits: Any) -> None:
        """Set the bits of the literals' owners in each text's row (int64[n]), and count them."""
        if len(rows):
            self._scan(texts, 0, (self._found, rows, self.owners, bits, hits))

    def without(self, left_out: Any) -> LiteralDatabase:
        """The database without some literals that may be anywhere (bool[literals]). Texts must have been scanned before."""
        assert self._grams is not None
        other = copy(self)
        other._grams = tuple(grams.only(~left_out[grams.literals]) for grams in self._grams)
        other._anywhere = None
        other._singles = tuple(part[~left_out[self._singles[0]]] for part in self._singles)
        return other

    def _scan(self, texts: Texts, first: int, sink: tuple[Any, ...]) -> tuple[int, int]:
        if self._grams is None:
            self._grams = _choose_grams(self._literals, self.arrays[0].astype(np.int64), _frequencies(texts))
        if self._anywhere is None:
            self._anywhere = _build_sieves(*self._grams), tuple(map(_build_index, self._grams))
        self._last_text.fill(-1)
        sieves, indexes = self._anywhere
        return find(
            texts.address, texts.length, first, sieves, indexes, self._singles, *self._edges, self.arrays, self._last_text,
            self._places, sink,
        )  # fmt: skip


# ── Literals that may be anywhere ─────────────────────────────────────────────────────────────────


def _frequencies(texts: Texts) -> Any:
    counts = np.zeros(_BYTE_PAIRS, np.int64)
    step = max(1, len(texts.address) // SAMPLE)
    gram_counts(np.ascontiguousarray(texts.address[::step]), np.ascontiguousarray(texts.length[::step]), counts)
    return counts


def _choose_grams(literals: LiteralArrays, first: Any, frequencies: Any) -> tuple[_Grams, _Grams, _Grams]:
    """The rarest four bytes of each literal; all bytes of those of three and two."""
    anywhere = literals.kinds == ANYWHERE
    long = np.flatnonzero(anywhere & (literals.sizes >= _GRAM))
    words = _words(literals.data, _GRAM)
    # every position of every literal, but the last three, at which no gram begins
    counts = literals.sizes[long] - (_GRAM - 1)
    ends = np.cumsum(counts)
    of = np.repeat(np.arange(len(long)), counts)
    places = np.arange(len(of)) - np.repeat(ends - counts, counts)
    found = words[first[long][of] + places]
    order = np.lexsort((places, frequencies[(found * MIX) >> np.uint32(16)], of))  # of each literal the rarest comes first
    chosen = order[ends - counts]
    grams = [_Grams(found[chosen], long.astype(np.int32), places[chosen].astype(np.int32))]
    for size in (3, 2):
        some = np.flatnonzero(anywhere & (literals.sizes == size))
        grams.append(_Grams(_words(literals.data, size)[first[some]], some.astype(np.int32), np.zeros(len(some), np.int32)))
    return grams[0], grams[1], grams[2]


def _words(data: Any, size: int) -> Any:
    """uint32[n]: the bytes at each position as a number, letters folded as the kernel folds them."""
    padded = np.concatenate([data, np.zeros(_GRAM, np.uint8)]).astype(np.uint32)
    folded = LOW_CASE & np.uint32((1 << 8 * size) - 1)
    words = np.full(len(data) + 1, folded, np.uint32)
    for place in range(size):
        words |= padded[place : place + len(data) + 1] << np.uint32(8 * place)
    return words


def _build_sieves(four: _Grams, three: _Grams, two: _Grams) -> _Sieves:
    counts = len(four.words), len(three.words)
    bits, three_bits = max(16, min(18, (32 * counts[0]).bit_length())), max(8, min(14, (32 * counts[1]).bit_length()))
    shift, three_shift = np.uint32(32 - bits), np.uint32(32 - three_bits)
    sieve_four, sieve_three, sieve_two = (np.zeros(size, np.uint8) for size in (1 << bits, 1 << three_bits, _BYTE_PAIRS))
    sieve_four[(four.words * MIX) >> shift] = 1
    sieve_three[(three.words * MIX) >> three_shift] = 1
    sieve_two[two.words] = 1
    pairs = np.unique(three.words & np.uint32(0xFFFF))
    if len(pairs) <= FEW_PAIRS:
        sieve_two[pairs] = 1
    words = np.packbits(sieve_four, bitorder="little").view(np.uint32)
    any_short = len(three.words) + len(two.words) > 0
    return _Sieves(words, shift, sieve_three, three_shift, sieve_two, any_short, len(pairs) > FEW_PAIRS)


def _build_index(grams: _Grams) -> _Index:
    words, bucket = np.unique(grams.words, return_inverse=True)
    room = 1 << max(2, (3 * len(words)).bit_length())
    keys, buckets = np.zeros(room, np.uint32), np.full(room, -1, np.int32)
    put_words(words, keys, buckets)
    order = np.argsort(bucket, kind="stable")
    firsts = np.concatenate([[0], np.cumsum(np.bincount(bucket, minlength=len(words)))]).astype(np.int32)
    return _Index(keys, buckets, firsts, grams.literals[order], grams.places[order])


def _singles(literals: LiteralArrays, known: LiteralBytes) -> tuple[Any, Any, Any]:
    """Literals of one byte: their numbers, the byte, and the byte in the other case if case does not count."""
    chosen = np.flatnonzero((literals.kinds == ANYWHERE) & (literals.sizes == 1))
    first = known.arrays[0][chosen].astype(np.int64)
    return chosen.astype(np.int32), known.data[first], known.data[first] ^ known.cases[first]


# ── Literals at the edges of texts ────────────────────────────────────────────────────────────────


def _edge_pairs(literals: LiteralArrays, known: LiteralBytes) -> Any:
    """The kinds of literals that begin or end with each two bytes (uint8[65536]), letters folded."""
    kinds = np.zeros(_BYTE_PAIRS, np.uint8)
    starts, sizes = known.arrays[0].astype(np.int64), literals.sizes
    two, one = _words(literals.data, 2), _words(literals.data, 1)
    for kind, bit in ((AT_START, HEAD), (AT_END, TAIL), (WHOLE, ALL)):
        mine = literals.kinds == kind
        long, single = np.flatnonzero(mine & (sizes > 1)), np.flatnonzero(mine & (sizes == 1))
        kinds[two[starts[long] + (sizes[long] - 2 if kind == AT_END else 0)]] |= bit
        for byte in np.unique(one[starts[single]]).tolist() if kind != WHOLE else ():
            kinds[slice(byte, None, 256) if kind == AT_START else slice(byte << 8, (byte + 1) << 8)] |= bit
        if kind != WHOLE and (mine & (sizes == 0)).any():
            kinds |= bit
    return kinds


def _build_edges(arrays: tuple[Any, ...], chosen: Any) -> tuple[Any, ...]:
    """The hash table of literals at an edge: sizes that occur, keys (0: free), and the literals of each slot."""
    numbers = np.flatnonzero(chosen)
    data, size = arrays[2][numbers], arrays[1][numbers]
    found = np.empty(len(numbers), np.uint64)
    edge_keys(data, size, found)
    distinct, which = np.unique(found, return_inverse=True)
    room = 1 << max(2, (2 * len(distinct)).bit_length())
    keys, slots = np.zeros(room, np.uint64), np.empty(len(distinct), np.int64)
    put_keys(distinct, keys, slots)
    of = slots[which] if len(numbers) else np.empty(0, np.int64)
    firsts = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=room))]).astype(np.int32)
    return np.unique(size), keys, firsts, numbers[np.argsort(of, kind="stable")].astype(np.int32)
