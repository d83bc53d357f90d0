"""All literals of one field, as a database that is scanned once a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from etl.columns.texts import Texts
from etl.rules.search.edge_kernel import ALL, HEAD, TAIL, edge_keys
from etl.rules.search.literal_kernel import LOW_CASE, MIX, POSITIONS, find, gram_counts
from etl.rules.search.literals import ANYWHERE, AT_END, AT_START, WHOLE, Literal

FEW_PAIRS = 64
"""Number of different first two bytes of literals of three, up to which these find them: a look-up less at each position."""

SAMPLE = 512
"""Texts of the first batch by which the rarest part of each literal is chosen."""

_GRAM, _ROOM, _CASE = 4, 1 << 16, 0x20
_Gram: TypeAlias = tuple[int, int, int]
"""Up to four bytes of a literal as a number, the literal, and where in it they are."""
_NO_BITS = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, 0), np.uint64), np.empty(0, np.int64))
"""Rows, owners, bits and hits of a scan for pairs."""


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

    def __init__(self, literals: Sequence[Literal]) -> None:
        sizes = np.array([len(one.data) for one in literals], np.int64)
        first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint64)[:-1]
        self._data = np.frombuffer(b"".join(one.data for one in literals) + b"\0", np.uint8)
        self._cases = np.frombuffer(b"".join(map(_cases, literals)) + b"\0", np.uint8)
        self.arrays = first, sizes, first + np.uint64(self._data.ctypes.data), first + np.uint64(self._cases.ctypes.data)
        """Of each literal its start and size, and the addresses of its bytes and of the case bits that do not count."""


@dataclass
class LiteralDatabase:
    """The literals of one field. The tables are built when the first texts are scanned, by the frequencies in them."""

    literals: Sequence[Literal]

    def __post_init__(self) -> None:
        self.owners = np.array([one.owner for one in self.literals], np.int64)
        self._bytes = LiteralBytes(self.literals)
        self.arrays = self._bytes.arrays
        kinds = np.array([one.kind for one in self.literals], np.int64)
        edges = (_build_edges(self.arrays, kinds == kind) for kind in (AT_START, AT_END, WHOLE))
        self._edges = (_edge_pairs(self.literals), *edges)
        self._singles = _singles(self.literals)
        self._chosen: list[list[_Gram]] | None = None
        self._anywhere: tuple[_Sieves, tuple[_Index, ...]] | None = None
        self._found, self._places = np.empty((2, _ROOM), np.int32), np.empty(int(POSITIONS), np.uint64)
        self._last_text = np.empty(len(self.literals), np.int32)

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
        assert self._chosen is not None
        other = copy(self)
        other._chosen = [[gram for gram in grams if not left_out[gram[1]]] for grams in self._chosen]
        other._anywhere = None
        other._singles = tuple(part[~left_out[self._singles[0]]] for part in self._singles)
        return other

    def _scan(self, texts: Texts, first: int, sink: tuple[Any, ...]) -> tuple[int, int]:
        if self._chosen is None:
            self._chosen = _choose_grams(self.literals, _frequencies(texts))
        if self._anywhere is None:
            self._anywhere = _build_sieves(*self._chosen), tuple(map(_build_index, self._chosen))
        self._last_text.fill(-1)
        sieves, indexes = self._anywhere
        return find(
            texts.address, texts.length, first, sieves, indexes, self._singles, *self._edges, self.arrays, self._last_text,
            self._places, sink,
        )  # fmt: skip


def _cases(literal: Literal) -> bytes:
    """The case bit of each letter if case does not count, else 0."""
    return bytes(len(literal.data)) if literal.cased else bytes(_CASE if 97 <= byte <= 122 else 0 for byte in literal.data)


def _frequencies(texts: Texts) -> Any:
    counts = np.zeros(_ROOM, np.int64)
    step = max(1, len(texts.address) // SAMPLE)
    gram_counts(np.ascontiguousarray(texts.address[::step]), np.ascontiguousarray(texts.length[::step]), counts)
    return counts


def _choose_grams(literals: Sequence[Literal], frequencies: Any) -> list[list[_Gram]]:
    """The key bytes of each literal that may be anywhere: its rarest four, or all if it has two or three."""
    chosen: list[list[_Gram]] = [[], [], []]
    for n, one in enumerate(literals):
        if one.kind == ANYWHERE and len(one.data) > 1:
            size = min(len(one.data), _GRAM)
            word, place = _rarest(one.data, frequencies) if size == _GRAM else (_as_number(one.data), 0)
            chosen[_GRAM - size].append((word, n, place))
    return chosen


def _build_sieves(four: Sequence[_Gram], three: Sequence[_Gram], two: Sequence[_Gram]) -> _Sieves:
    bits, three_bits = max(16, min(18, (32 * len(four)).bit_length())), max(8, min(14, (32 * len(three)).bit_length()))
    shift, three_shift = np.uint32(32 - bits), np.uint32(32 - three_bits)
    sieve_four, sieve_three, sieve_two = (
        np.zeros(1 << bits, np.uint8),
        np.zeros(1 << three_bits, np.uint8),
        np.zeros(_ROOM, np.uint8),
    )
    sieve_four[_mixed(four) >> shift] = 1
    sieve_three[_mixed(three) >> three_shift] = 1
    sieve_two[[word for word, _, _ in two]] = 1
    pairs = {word & 0xFFFF for word, _, _ in three}
    if len(pairs) <= FEW_PAIRS:
        sieve_two[list(pairs)] = 1
    words = np.packbits(sieve_four, bitorder="little").view(np.uint32)
    return _Sieves(words, shift, sieve_three, three_shift, sieve_two, bool(three or two), len(pairs) > FEW_PAIRS)


def _singles(literals: Sequence[Literal]) -> tuple[Any, Any, Any]:
    """Literals of one byte: their numbers, the byte, and the byte in the other case if case does not count."""
    chosen = [n for n, one in enumerate(literals) if one.kind == ANYWHERE and len(one.data) == 1]
    texts, cases = (b"".join(part(literals[n]) for n in chosen) for part in (lambda one: one.data, _cases))
    bytes_ = np.frombuffer(texts, np.uint8)
    return np.array(chosen, np.int32), bytes_, bytes_ ^ np.frombuffer(cases, np.uint8)


def _edge_pairs(literals: Sequence[Literal]) -> Any:
    """The kinds of literals that begin or end with each two bytes (uint8[65536]), letters folded."""
    kinds = np.zeros(_ROOM, np.uint8)
    for one in literals:
        if one.kind != ANYWHERE:
            bit = {AT_START: HEAD, AT_END: TAIL, WHOLE: ALL}[one.kind]
            first = one.data[-2:] if one.kind == AT_END else one.data[:2]
            if len(first) == 2:
                kinds[_as_number(first)] |= bit
            elif one.kind == AT_START and first:
                kinds[_as_number(first) :: 256] |= bit
            elif one.kind == AT_END and first:
                kinds[_as_number(first) << 8 : (_as_number(first) + 1) << 8] |= bit
            elif one.kind != WHOLE:
                kinds |= bit
    return kinds


def _mixed(chosen: Sequence[_Gram]) -> Any:
    return np.array([word for word, _, _ in chosen], np.uint32) * MIX


def _rarest(text: bytes, frequencies: Any) -> tuple[int, int]:
    """The rarest four bytes as a number, and where they are."""
    data = np.frombuffer(text, np.uint8).astype(np.uint32)
    words = (data[:-3] | data[1:-2] << 8 | data[2:-1] << 16 | data[3:] << 24) | LOW_CASE
    place = int(np.argmin(frequencies[(words * MIX) >> np.uint32(16)]))
    return int(words[place]), place


def _as_number(text: bytes) -> int:
    """One to three bytes as a number, letters folded as the kernel folds them."""
    return int.from_bytes(text, "little") | int(LOW_CASE) & (1 << 8 * len(text)) - 1


def _build_index(chosen: Sequence[_Gram]) -> _Index:
    by_word: dict[int, list[tuple[int, int]]] = {}
    for word, literal, place in chosen:
        by_word.setdefault(word, []).append((literal, place))
    room = 1 << max(2, (3 * len(by_word)).bit_length())
    keys, buckets = np.zeros(room, np.uint32), np.full(room, -1, np.int32)
    for bucket, word in enumerate(by_word):
        slot = (word * int(MIX) & 0xFFFFFFFF) >> 9 & room - 1
        while buckets[slot] >= 0:
            slot = slot + 1 & room - 1
        keys[slot], buckets[slot] = word, bucket
    firsts = np.concatenate([[0], np.cumsum([len(one) for one in by_word.values()])]).astype(np.int32)
    pairs = np.array([pair for one in by_word.values() for pair in one], np.int32).reshape(-1, 2)
    return _Index(keys, buckets, firsts, pairs[:, 0].copy(), pairs[:, 1].copy())


def _build_edges(arrays: tuple[Any, ...], chosen: Any) -> tuple[Any, ...]:
    """The hash table of literals at an edge: sizes that occur, keys (0: free), and the literals of each key."""
    numbers = np.flatnonzero(chosen)
    data, size = arrays[2][numbers], arrays[1][numbers]
    found = np.empty(len(numbers), np.uint64)
    edge_keys(data, size, found)
    by_key: dict[int, list[int]] = {}
    for key, number in zip(found.tolist(), numbers.tolist(), strict=True):
        by_key.setdefault(key, []).append(number)
    room = 1 << max(2, (2 * len(by_key)).bit_length())
    keys = np.zeros(room, np.uint64)
    lists: list[list[int]] = [[] for _ in range(room)]
    for key, members in by_key.items():
        slot = key >> 20 & room - 1
        while keys[slot]:
            slot = (slot + 1) & (room - 1)
        keys[slot], lists[slot] = key, members
    firsts = np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int32)
    return np.unique(size), keys, firsts, np.array([number for one in lists for number in one], np.int32)
