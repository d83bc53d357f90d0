"""All literals that predicates look for in one field, as one database that is scanned once per batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any, NamedTuple

import numpy as np

from etl.rules.needle_kernel import (
    ANYWHERE,
    AT_END,
    AT_START,
    FOLD,
    LOW_CASE,
    MIX,
    THREE_BYTES,
    WHOLE,
    edge_keys,
    find,
    gram_counts,
)
from etl.rules.predicates import TextKind
from etl.scanner.texts import Texts

MOST_FORMS = 64
"""Forms of a literal that the cases of its letters beyond ASCII make; with more it is left to a regular expression."""

SAMPLE = 512
"""Texts of the first batch in which the rarest part of each literal is looked up."""

_KINDS: dict[TextKind, int] = {"contains": ANYWHERE, "startswith": AT_START, "endswith": AT_END, "equals": WHOLE}
_GRAM, _ROOM, _CASE = 4, 1 << 16, 0x20


class Needle(NamedTuple):
    """A literal: which predicate it decides, and where it must stand."""

    predicate: int
    text: bytes
    kind: int
    cased: bool


def needles(predicate: int, text: str, kind: TextKind, cased: bool) -> Iterator[Needle]:
    """A text as literals: one, or one for each form that letters beyond ASCII give it."""
    for form in _forms(text, cased):
        data = form.encode("utf-8", "surrogatepass")
        yield Needle(predicate, data if cased else data.translate(FOLD.tobytes()), _KINDS[kind], cased)


def is_literal(text: str, cased: bool) -> bool:
    """Whether it has few enough forms."""
    return cased or text.isascii() or len(list(islice(_forms(text, cased), MOST_FORMS + 1))) <= MOST_FORMS


def forms_of(char: str) -> list[str]:
    """A character and what it equals without regard to case: among letters of ASCII, and among all others."""
    cases = dict.fromkeys((char, char.lower(), char.upper()))
    return [one for one in cases if len(one) == 1 and one.isascii() == char.isascii()]


def _forms(text: str, cased: bool) -> Iterator[str]:
    if cased or text.isascii():
        return iter([text])
    return ("".join(form) for form in product(*([char] if char.isascii() else forms_of(char) for char in text)))


class _Index(NamedTuple):
    """Buckets of literals by a number of their bytes: those of bucket b are ``entries[firsts[b]:firsts[b + 1]]``."""

    bitmap: Any
    firsts: Any
    entries: Any
    places: Any


@dataclass
class Database:
    """The literals of one field; made ready by the first texts that come."""

    literals: Sequence[Needle]

    def __post_init__(self) -> None:
        self.predicate = np.array([one.predicate for one in self.literals], np.int64)
        sizes = [len(one.text) for one in self.literals]
        first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)[:-1]
        self._data = np.frombuffer(b"".join(one.text for one in self.literals) or b"\0", np.uint8)
        kinds = np.array([one.kind for one in self.literals], np.int64)
        self._needles = (first, np.array(sizes, np.int64), np.array([one.cased for one in self.literals], bool), kinds)
        edges = (_edges(self._needles, self._data, kinds == kind) for kind in (AT_START, AT_END, WHOLE))
        self._heads, self._tails, self._wholes = edges
        self._triples, self._shift = _triples(self.literals)
        self._pairs = _pairs(self.literals)
        self._grams: tuple[Any, Any] | None = None
        self._found = np.empty((2, _ROOM), np.int32)

    def find(self, texts: Texts) -> Iterator[tuple[Any, int]]:
        """Pairs of literal and text (int32[2, …], how many count), some of them twice."""
        if self._grams is None:
            self._grams = _grams(self.literals, _frequencies(texts))
        grams, shift = self._grams
        first, count, shifts = 0, len(texts.address), (shift, self._shift)
        while first < count:
            pairs, behind = find(
                texts.address, texts.length, first, grams, shifts, self._triples, self._pairs, self._heads, self._tails,
                self._wholes, self._needles, self._data, self._found,
            )  # fmt: skip
            yield self._found, pairs
            if behind == first:  # one text has more than there is room for
                self._found = np.empty((2, 2 * self._found.shape[1]), np.int32)
            first = behind


def _frequencies(texts: Texts) -> Any:
    counts = np.zeros(_ROOM, np.int64)
    step = max(1, len(texts.address) // SAMPLE)
    gram_counts(np.ascontiguousarray(texts.address[::step]), np.ascontiguousarray(texts.length[::step]), counts)
    return counts


def _grams(literals: Sequence[Needle], frequencies: Any) -> tuple[Any, Any]:
    """Literals of four bytes and more by the rarest four of them."""
    chosen = [
        (n, *_rarest(one.text, frequencies)) for n, one in enumerate(literals) if one.kind == ANYWHERE and len(one.text) >= _GRAM
    ]
    return _hashed(chosen)


def _hashed(chosen: Sequence[tuple[int, int, int]]) -> tuple[_Index, Any]:
    """Literals by the upper bits of a mixed number, and how many bits are left out."""
    bits = max(10, min(20, (16 * len(chosen) + 1).bit_length()))
    shift = np.uint32(32 - bits)
    return _index([(mixed >> int(shift), n, place) for n, mixed, place in chosen], 1 << bits), shift


def _rarest(text: bytes, frequencies: Any) -> tuple[int, int]:
    """The mixed number of the rarest four bytes, and where they stand."""
    data = np.frombuffer(text, np.uint8).astype(np.uint32)
    words = data[:-3] | data[1:-2] << 8 | data[2:-1] << 16 | data[3:] << 24
    mixed = ((words | LOW_CASE).astype(np.uint64) * np.uint64(MIX)) & np.uint64(0xFFFFFFFF)
    place = int(np.argmin(frequencies[(mixed >> np.uint64(16)).astype(np.int64)]))
    return int(mixed[place]), place


def _triples(literals: Sequence[Needle]) -> tuple[_Index, Any]:
    """Literals of three bytes by these."""
    chosen = []
    for n, one in enumerate(literals):
        if one.kind == ANYWHERE and len(one.text) == _GRAM - 1:
            word = (int.from_bytes(one.text, "little") | int(LOW_CASE)) & int(THREE_BYTES)
            chosen.append((n, word * int(MIX) & 0xFFFFFFFF, 0))
    return _hashed(chosen)


def _pairs(literals: Sequence[Needle]) -> _Index:
    """Literals of one and two bytes by these; behind a single one anything may stand."""
    slots = []
    for n, one in enumerate(literals):
        if one.kind == ANYWHERE and 0 < len(one.text) < _GRAM - 1:
            seconds = [one.text[1]] if len(one.text) > 1 else range(256)
            slots += [(one.text[0] | _CASE | (second | _CASE) << 8, n, 0) for second in seconds]
    return _index(list(dict.fromkeys(slots)), _ROOM)


def _index(slots: Iterable[tuple[int, int, int]], room: int) -> _Index:
    ordered = sorted(slots)
    if not ordered:
        return _Index(np.zeros(room // 8, np.uint8), np.zeros(2, np.int32), np.empty(0, np.int32), np.empty(0, np.int32))
    slot, entries, places = (np.array(column, np.int64) for column in zip(*ordered, strict=True))
    used = np.zeros(room, np.uint8)
    used[slot] = 1
    firsts = np.concatenate([[0], np.cumsum(np.bincount(slot, minlength=room))])
    return _Index(
        np.packbits(used, bitorder="little"), firsts.astype(np.int32), entries.astype(np.int32), places.astype(np.int32)
    )


def _edges(needles: tuple[Any, ...], data: Any, chosen: Any) -> tuple[Any, ...]:
    """Literals by their keys: sizes that occur, keys (0: none), and the entries of each key."""
    numbers = np.flatnonzero(chosen)
    first, size = needles[0][numbers], needles[1][numbers]
    found = np.empty(len(numbers), np.uint64)
    edge_keys(first, size, np.uint64(data.ctypes.data), found)
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
