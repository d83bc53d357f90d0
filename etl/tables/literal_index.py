"""The index of the literals of a table's patterns, stored as arrays of its file; all are searched for in one scan a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from etl.columns.texts import Texts
from etl.tables.literal_kernel import FOLDED, choose, scan
from etl.tables.section_file import SectionFile

WIDTHS = (8, 4, 2, 1)
"""Sizes of grams in bytes; a literal uses the largest that it is long enough for."""

_NAMES = ("bitmap", "directory", "checks", "places", "firsts", "sizes", "traits", "patterns")
_FILTER_BITS, _MOST_BITS = 4, 24
_ROOM = 1 << 16
_UPPER = bytes(range(65, 91))
_FOLD = bytes.maketrans(_UPPER, _UPPER.lower())


class Literal(NamedTuple):
    """A text to search for, and the number of its pattern."""

    pattern: int
    text: str
    traits: int


def packed(literals: Sequence[Literal]) -> dict[str, Any]:
    """The arrays for the file; no literal may be empty."""
    texts = [_bytes(one) for one in literals]
    sizes = np.array([len(text) for text in texts], np.int64)
    firsts = np.append(0, np.cumsum(sizes))[:-1].astype(np.int64)
    traits, patterns = (np.array([one[at] for one in literals], type_) for at, type_ in ((2, np.uint8), (0, np.uint32)))
    data = np.frombuffer(b"".join(texts) or b"\0", np.uint8)
    arrays: dict[str, Any] = {"literals": data}
    above = np.inf
    for width in WIDTHS:
        chosen = np.flatnonzero((sizes >= width) & (sizes < above))
        above = width
        if len(chosen):
            arrays |= _index(width, data, firsts[chosen], sizes[chosen], traits[chosen], patterns[chosen])
    return arrays


def _bytes(literal: Literal) -> bytes:
    data = literal.text.encode("utf-8", "surrogatepass")
    return data.translate(_FOLD) if literal.traits & FOLDED else data


def _index(width: int, data: Any, firsts: Any, sizes: Any, traits: Any, patterns: Any) -> dict[str, Any]:
    """The arrays of the literals of one width, sorted by hash."""
    places, hashes = np.empty(len(firsts), np.int64), np.empty(len(firsts), np.uint64)
    choose(np.uint64(data.ctypes.data), firsts, sizes, np.int64(width), np.zeros(1 << 20, np.uint32), places, hashes)
    order = np.argsort(hashes, kind="stable")
    hashes = hashes[order]
    bits = len(firsts).bit_length()
    slots = (hashes >> np.uint64(64 - bits)).astype(np.int64)
    directory = np.append(0, np.cumsum(np.bincount(slots, minlength=1 << bits)))
    used = np.zeros(1 << min(bits + _FILTER_BITS, _MOST_BITS), np.uint8)
    used[hashes >> np.uint64(65 - len(used).bit_length())] = 1
    arrays = (
        np.packbits(used, bitorder="little"),
        directory.astype(np.uint32),
        (hashes >> np.uint64(16)).astype(np.uint32),
        *(_narrow(one[order]) for one in (places, firsts, sizes)),
        traits[order],
        patterns[order],
    )
    return {f"{name}.{width}": array for name, array in zip(_NAMES, arrays, strict=True)}


def _narrow(numbers: Any) -> Any:
    """As uint32: a file of patterns never reaches 4 GiB."""
    return numbers.astype(np.uint32)


class LiteralIndex:
    """The literals of a mapped table."""

    def __init__(self, sections: SectionFile) -> None:
        data = sections.address("literals")
        self._indexes = [(width, _mapped(sections, width, data)) for width in WIDTHS if f"bitmap.{width}" in sections]

    def find(self, texts: Texts, best: Any, find_all: bool) -> Iterator[Any]:
        """Yield pairs of pattern and text (int32[2, m], overwritten by the next), as described in `scan`."""
        for width, index in self._indexes:
            count = len(index[8][1])
            found, seen = np.empty((2, max(_ROOM, count)), np.int32), np.full(count, -1, np.int32)
            first = 0
            while first < len(texts.address):
                pairs, first = scan(texts.address, texts.length, first, np.int64(width), index, seen, best, find_all, found)
                yield found[:, :pairs]
                if first < len(texts.address):
                    seen.fill(-1)  # the text at which the buffer was full is scanned again


def _mapped(sections: SectionFile, width: int, data: Any) -> tuple[Any, ...]:
    bitmap, directory, checks, places, firsts, sizes, traits, patterns = (sections.numbers(f"{name}.{width}") for name in _NAMES)
    wide = np.uint64(64 - (8 * len(bitmap)).bit_length() + 1)
    shift = np.uint64(64 - (len(directory) - 1).bit_length() + 1)
    return bitmap, wide, directory, shift, places, firsts, sizes, traits, (checks, patterns), data
