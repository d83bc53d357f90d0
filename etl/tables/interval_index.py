"""The interval index: finds the row whose network or range contains a value; of several, the one that starts last.

Networks are nested or disjoint, so this is the longest prefix. Of equal intervals the first row counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.ip_kernel import parse_addresses, parse_networks
from etl.columns.texts import Texts
from etl.tables.interval_kernel import cover, find_pairs, find_values
from etl.tables.section_file import SectionFile

_SLOTS = 1 << 16
_MAPPED = np.uint64(0xFFFF) << np.uint64(32)


@dataclass
class NetworkCollector:
    """Collects the networks of a table while it is read."""

    missing: int = 0
    """Rows without a valid network, which are left out."""
    _bounds: list[Any] = field(default_factory=list)

    def add(self, columns: Sequence[pa.Array]) -> Any | None:
        """Add the networks (one text column) of further rows. Returns which rows have one (bool[n]), None for all."""
        keys = columns[0]
        texts = Texts.of(keys)
        bounds, valid = np.zeros((4, len(keys)), np.uint64), np.empty(len(keys), np.bool_)
        parse_networks(texts.address, texts.length, bounds, valid)
        whole = bool(valid.all())
        self._bounds.append(bounds if whole else bounds[:, valid])
        self.missing += len(keys) - int(valid.sum())
        return None if whole else valid

    def sections(self, several: bool) -> tuple[dict[str, Any], Any, int]:
        """The arrays of the file; which rows it holds (int64[m]: all); and 0, for each counts by itself."""
        bounds = np.concatenate(self._bounds, axis=1) if self._bounds else np.zeros((4, 0), np.uint64)
        self._bounds.clear()
        count = bounds.shape[1]
        highs, lows = np.concatenate([bounds[0], bounds[2]]), np.concatenate([bounds[1], bounds[3]])
        order = np.lexsort((lows, highs))
        highs, lows = highs[order], lows[order]
        new = np.append(True, (highs[1:] != highs[:-1]) | (lows[1:] != lows[:-1])) if count else np.empty(0, np.bool_)
        ranks = np.empty(2 * count, np.int64)
        ranks[order] = np.cumsum(new) - 1
        highs, lows = highs[new], lows[new]
        return (
            _map(highs, lows) | {"highs": highs, "lows": lows, "at": _cover_slots(ranks[:count], ranks[count:])},
            np.arange(count),
            0,
        )


class NetworkIndex:
    """Finds the networks of a mapped table that contain addresses."""

    def __init__(self, sections: SectionFile) -> None:
        self._ends = sections.numbers("highs"), sections.numbers("lows")
        self._directory, self._at = sections.numbers("directory"), sections.numbers("at")
        self._begin = int(sections.numbers("begin")[0])

    def find(self, columns: Sequence[pa.Array]) -> Any:
        """int64[n]: the row for each address (one text column), -1 if no network contains it."""
        keys = columns[0]
        texts = Texts.of(keys)
        high, low, valid = (np.empty(len(keys), type_) for type_ in (np.uint64, np.uint64, np.bool_))
        parse_addresses(texts.address, texts.length, high, low, valid)
        rows = np.empty(len(keys), np.int64)
        find_pairs(high, low, valid, *self._ends, self._begin, self._directory, self._at, rows)
        return rows


@dataclass
class RangeCollector:
    """Collects the ranges of a table while it is read; both ends belong to a range."""

    missing: int = 0
    """Rows without an end, or with the first value above the last, which are left out."""
    _bounds: list[tuple[Any, Any]] = field(default_factory=list)

    def add(self, columns: Sequence[pa.Array]) -> Any | None:
        """Add the first and last values (numbers or times) of more rows. Returns which have a range (bool[n]), None for all."""
        first, last = columns
        valid = pc.fill_null(pc.less_equal(first, last), False).to_numpy(zero_copy_only=False)
        chosen = pa.array(valid)
        self._bounds.append((comparable(first.filter(chosen)), comparable(last.filter(chosen))))
        self.missing += len(first) - int(valid.sum())
        return None if valid.all() else valid

    def sections(self, several: bool) -> tuple[dict[str, Any], Any, int]:
        """The arrays of the file; which rows it holds (int64[m]: all); and 0, for each counts by itself."""
        firsts, lasts = (
            (np.concatenate(parts) for parts in zip(*self._bounds, strict=True)) if self._bounds else (np.empty(0),) * 2
        )
        self._bounds.clear()
        ends, ranks = np.unique(np.concatenate([firsts, lasts]), return_inverse=True)
        return {"ends": ends, "at": _cover_slots(ranks[: len(firsts)], ranks[len(firsts) :])}, np.arange(len(firsts)), 0


class RangeIndex:
    """Finds the ranges of a mapped table that contain values."""

    def __init__(self, sections: SectionFile) -> None:
        self._ends, self._at = sections.numbers("ends"), sections.numbers("at")

    def find(self, columns: Sequence[pa.Array]) -> Any:
        """int64[n]: the row for each value, -1 if no range contains it."""
        keys = columns[0]
        values = comparable(keys).astype(self._ends.dtype)
        rows = np.empty(len(keys), np.int64)
        find_values(values, pc.is_valid(keys).to_numpy(zero_copy_only=False), self._ends, self._at, rows)
        return rows


def comparable(values: pa.Array) -> Any:
    """Numbers and times as int64 or float64; nulls are 0."""
    plain = values.cast(pa.float64() if pa.types.is_floating(values.type) else pa.int64())
    return pc.fill_null(plain, 0).to_numpy()


def _cover_slots(firsts: Any, lasts: Any) -> Any:
    """uint32[slots]: the row for each end and each gap after it; the arguments are ranks of the intervals' ends."""
    rows = np.arange(len(firsts))
    order = np.lexsort((-rows, -lasts, firsts))
    size = 2 * (int(lasts.max()) + 1) if len(lasts) else 0
    at = np.empty(size, np.uint32)
    cover(2 * firsts[order], 2 * lasts[order], rows[order], np.empty(len(rows), np.int64), at)
    return at


def _map(highs: Any, lows: Any) -> dict[str, Any]:
    """The index of the first end that is an IPv4 address, and a directory of these ends by their upper 16 bits."""
    begin, end = (int(np.searchsorted(highs, 0, side)) for side in ("left", "right"))
    zero = lows[begin:end]
    first, last = (int(np.searchsorted(zero, bound)) for bound in (_MAPPED, np.uint64(0x10000) << np.uint64(32)))
    uppers = (zero[first:last] >> np.uint64(16)).astype(np.int64) & 0xFFFF
    directory = np.concatenate([[0], np.cumsum(np.bincount(uppers, minlength=_SLOTS))]).astype(np.uint32)
    return {"begin": np.array([begin + first], np.int64), "directory": directory}
