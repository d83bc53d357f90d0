"""The tables in which literals are looked up: plain arrays, so that a file can hold them and processes share them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from etl.rules.search.edge_kernel import ALL, HEAD, MIXED, TAIL, edge_keys
from etl.rules.search.gram_choice import LiteralGrams, fold_words
from etl.rules.search.literal_arrays import LiteralArrays, LiteralBytes, freeze
from etl.rules.search.literal_kernel import MIX
from etl.rules.search.literals import ANYWHERE, AT_END, AT_START, WHOLE

FEW_PAIRS = 64
"""Number of different first two bytes of literals of three, up to which these find them: a look-up less at each position."""

SIEVE_BITS = 16, 20
"""Minimum and maximum number of bits of the sieve, as exponents of two. 2**18 bits fit the first-level cache, but with the 18,000
different grams of 100,000 regular expressions a fifth of the positions that pass have no gram; 2**20 bits are 128 KB of the
second level, which is 5 to 10 % faster there. 2**21 is not faster."""

_BYTE_PAIRS = 1 << 16


class Sieves(NamedTuple):
    """Small tables that say at which positions of a text a literal may be."""

    four: Any
    """uint32, as bits: by the upper bits of four mixed bytes."""
    three: Any
    """uint8: by the upper bits of three mixed bytes; empty: ``two`` has the first two bytes of literals of three."""
    two: Any
    """uint8: by two bytes; empty: there are no literals of two or three bytes."""


class GramIndex(NamedTuple):
    """Literals in the order of the hash of their key bytes: those of slot s are ``directory[s]`` to ``directory[s + 1]``."""

    directory: Any
    """uint32[power of two and one], by the upper bits of the hash."""
    checks: Any
    """uint32[n]: further bits of the hash."""
    literals: Any
    """uint32[n]."""
    offsets: Any
    """uint32[n]: where in the literal the key bytes are."""


class ByteLiterals(NamedTuple):
    """Literals of one byte."""

    literals: Any
    """uint32[n]."""
    bytes: Any
    """uint8[n]."""
    others: Any
    """uint8[n]: the byte in the other case if case does not count."""


class EdgeIndex(NamedTuple):
    """Literals at an edge of texts, by the hash of their size and the bytes at their ends; otherwise as `GramIndex`."""

    sizes: Any
    """int64: sizes that occur, in order."""
    directory: Any
    checks: Any
    literals: Any


class EdgePairs(NamedTuple):
    """Which texts may have a literal at an edge."""

    kinds: Any
    """uint8[65536]: the kinds of literals that begin or end with each two bytes, letters folded."""


class LiteralTables(NamedTuple):
    """All tables of a set of literals."""

    bytes: LiteralBytes
    sieves: Sieves
    eight: GramIndex
    """Literals by key bytes, of which there are 8, 4, 3 or 2."""
    four: GramIndex
    three: GramIndex
    two: GramIndex
    singles: ByteLiterals
    pairs: EdgePairs
    heads: EdgeIndex
    """Literals at the start of texts, at their end, or equal to them."""
    tails: EdgeIndex
    wholes: EdgeIndex

    def sections(self) -> Iterator[tuple[str, Any]]:
        """Each array with a name, for a file."""
        for name, type_ in _PARTS.items():
            for field in type_._fields:
                yield f"{name}.{field}", getattr(getattr(self, name), field)

    @classmethod
    def read(cls, section: Callable[[str], Any]) -> LiteralTables:
        """The tables of arrays with these names."""
        return cls(*(type_(*(section(f"{name}.{field}") for field in type_._fields)) for name, type_ in _PARTS.items()))

    def for_kernel(self) -> tuple[Any, ...]:
        """The arguments of `literal_kernel.find`: sieves, indexes, singles, edges, heads, tails, wholes, and literals."""
        four, three, two = self.sieves
        sieves = (four, _shift(32, 32 * len(four)), three, _shift(32, len(three)), two, len(two) > 0, len(three) > 0)
        grams = (self.eight, self.four, self.three, self.two)
        indexes = tuple((*index, _shift(64, len(index.directory) - 1)) for index in grams)
        heads, tails, wholes = ((*edge, _shift(64, len(edge.directory) - 1)) for edge in (self.heads, self.tails, self.wholes))
        return sieves, indexes, tuple(self.singles), self.pairs.kinds, heads, tails, wholes, self.bytes.addresses

    def with_grams(self, grams: Sequence[LiteralGrams], singles: ByteLiterals) -> LiteralTables:
        """These tables with other literals anywhere in a text."""
        eight, four, three, two = map(_build_index, grams)
        return self._replace(sieves=_build_sieves(grams), eight=eight, four=four, three=three, two=two, singles=singles)


_PARTS: dict[str, Any] = {
    "bytes": LiteralBytes, "sieves": Sieves, **dict.fromkeys(("eight", "four", "three", "two"), GramIndex),
    "singles": ByteLiterals,
    "pairs": EdgePairs, **dict.fromkeys(("heads", "tails", "wholes"), EdgeIndex),
}  # fmt: skip


def build_tables(literals: LiteralArrays, data: LiteralBytes, grams: Sequence[LiteralGrams]) -> LiteralTables:
    """The tables of literals, found by these grams."""
    edges = (_build_edges(data, literals.kinds == kind) for kind in (AT_START, AT_END, WHOLE))
    eight, four, three, two = map(_build_index, grams)
    singles, pairs = _build_singles(literals, data), _build_pairs(literals, data)
    return LiteralTables(data, _build_sieves(grams), eight, four, three, two, singles, pairs, *edges)


# ── Literals that may be anywhere ─────────────────────────────────────────────────────────────────


def _build_sieves(grams: Sequence[LiteralGrams]) -> Sieves:
    long = np.unique(np.concatenate([grams[0].words, grams[1].words]))
    bits = min(max((32 * len(long)).bit_length(), SIEVE_BITS[0]), SIEVE_BITS[1])
    four, three, two = np.zeros(1 << bits, np.uint8), np.empty(0, np.uint8), np.empty(0, np.uint8)
    four[(long * MIX) >> np.uint32(32 - bits)] = 1
    threes, twos = grams[2].words, grams[3].words
    if len(threes) + len(twos):
        two = np.zeros(_BYTE_PAIRS, np.uint8)
        two[twos] = 1
        pairs = np.unique(threes & np.uint32(0xFFFF))
        if len(pairs) <= FEW_PAIRS:
            two[pairs] = 1
        else:
            bits = max(8, min(14, (32 * len(threes)).bit_length()))
            three = np.zeros(1 << bits, np.uint8)
            three[(threes * MIX) >> np.uint32(32 - bits)] = 1
    return Sieves(*map(freeze, (np.packbits(four, bitorder="little").view(np.uint32), three, two)))


def _build_index(grams: LiteralGrams) -> GramIndex:
    directory, checks, order = _sort_by_hash(grams.keys * MIXED)
    return GramIndex(*map(freeze, (directory, checks, grams.literals[order], grams.offsets[order])))


def _sort_by_hash(hashes: Any) -> tuple[Any, Any, Any]:
    """The directory and the checks of hashes (uint64[n]), and their order."""
    bits = max(1, len(hashes).bit_length())  # twice or half as many slots are not faster
    order = np.argsort(hashes, kind="stable")
    slots = (hashes >> np.uint64(64 - bits)).astype(np.int64)
    directory = np.concatenate([[0], np.cumsum(np.bincount(slots, minlength=1 << bits))]).astype(np.uint32)
    return directory, (hashes[order] >> np.uint64(16)).astype(np.uint32), order


def _shift(width: int, size: int) -> Any:
    """By how many bits a hash of this size is shifted to be an index of a table of this size, a power of two or 0."""
    return (np.uint32 if width == 32 else np.uint64)(width + 1 - max(size, 2).bit_length())


def _build_singles(literals: LiteralArrays, known: LiteralBytes) -> ByteLiterals:
    chosen = np.flatnonzero((literals.kinds == ANYWHERE) & (literals.sizes == 1))
    first = known.firsts[chosen]
    bytes_ = known.data[first]
    return ByteLiterals(*map(freeze, (chosen.astype(np.uint32), bytes_, bytes_ ^ known.with_cases().cases[first])))


# ── Literals at the edges of texts ────────────────────────────────────────────────────────────────


def _build_pairs(literals: LiteralArrays, known: LiteralBytes) -> EdgePairs:
    kinds = np.zeros(_BYTE_PAIRS, np.uint8)
    starts, sizes = known.firsts.astype(np.int64), literals.sizes
    two, one = fold_words(literals.data, 2), fold_words(literals.data, 1)
    for kind, bit in ((AT_START, HEAD), (AT_END, TAIL), (WHOLE, ALL)):
        mine = literals.kinds == kind
        long, single = np.flatnonzero(mine & (sizes > 1)), np.flatnonzero(mine & (sizes == 1))
        kinds[two[starts[long] + (sizes[long] - 2 if kind == AT_END else 0)]] |= bit
        for byte in np.unique(one[starts[single]]).tolist() if kind != WHOLE else ():
            kinds[slice(byte, None, 256) if kind == AT_START else slice(byte << 8, (byte + 1) << 8)] |= bit
        if kind != WHOLE and (mine & (sizes == 0)).any():
            kinds |= bit
    return EdgePairs(freeze(kinds))


def _build_edges(known: LiteralBytes, chosen: Any) -> EdgeIndex:
    numbers = np.flatnonzero(chosen)
    size, found = known.sizes[numbers].astype(np.int64), np.empty(len(numbers), np.uint64)
    edge_keys(np.uint64(known.data.ctypes.data) + known.firsts[numbers].astype(np.uint64), size, found)
    directory, checks, order = _sort_by_hash(found)
    return EdgeIndex(*map(freeze, (np.unique(size), directory, checks, numbers[order].astype(np.uint32))))
