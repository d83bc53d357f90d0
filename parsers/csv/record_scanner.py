"""Texts → the captures of their values: one scan for a usual record, several for very many columns or too few values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.texts import materialize_array, take_rows
from etl.scanner.scanner import Scanner
from parsers.common.view_values import empty_where, null_where, replace_rows
from parsers.csv.record_pattern import REST, Dialect, anything, delimiters, record

if TYPE_CHECKING:
    import numpy as np

    Bools = np.ndarray[Any, Any]

MAX_SCANNER_COLUMNS = 100
"""Columns that one automaton reads; beyond about 150 it would have more states than the scanner makes."""

MAX_CACHED = 256
"""Scanners that a process caches."""


class RecordScanner:
    """Scans a dialect's records and captures the columns that ``is_captured`` marks."""

    def __init__(self, dialect: Dialect, is_captured: Sequence[bool], *, rest: bool, short: bool) -> None:
        self._dialect, self._columns = dialect, len(is_captured)
        self._whole = _ScannerChain(dialect, is_captured, anything() if rest else None)
        self._short = _ScannerChain(dialect, is_captured, delimiters(dialect)) if short and len(is_captured) > 1 else None

    def scan(self, texts: pa.Array) -> tuple[Mapping[str, pa.Array], pa.BooleanArray | None]:
        """Captures, and where a text is not a record (None: nowhere)."""
        captures, good = self._whole.scan(texts)
        if self._short is not None and not good.all():
            rows = (~good).nonzero()[0]
            more, full = self._short.scan(self._filled_up(materialize_array(take_rows(texts, rows)).cast(pa.string())))
            few = (full & self._had_few(more.pop(REST))).nonzero()[0]
            good[rows[few]] = True
            chosen = {name: take_rows(column, few) for name, column in more.items()}
            captures = {name: replace_rows(column, rows[few], chosen.get(name)) for name, column in captures.items()}
        return captures, None if good.all() else pa.array(~good)

    def _filled_up(self, texts: pa.StringArray) -> pa.StringArray:
        """Append empty values to texts, so that each has enough."""
        lines = pc.replace_substring_regex(texts, r"\r?\n?\z", "")
        return pc.binary_join_element_wise(lines, self._dialect.delimiter * (self._columns - 1), "")

    def _had_few(self, rest: pa.Array) -> Bools:
        """Whether what follows the last column is less than what was put there."""
        few: Bools = pc.fill_null(pc.utf8_length(materialize_array(rest)), 0).to_numpy() < self._columns - 1
        return few


@lru_cache(maxsize=MAX_CACHED)
def record_scanner(dialect: Dialect, is_captured: tuple[bool, ...], *, rest: bool, short: bool) -> RecordScanner:
    """The same for the same options: a worker opens a step in every micro-batch, and many columns make large patterns."""
    return RecordScanner(dialect, is_captured, rest=rest, short=short)


class _ScannerChain:
    """Scanners, each of which reads some columns and leaves what follows to the next."""

    def __init__(self, dialect: Dialect, is_captured: Sequence[bool], rest: Any) -> None:
        starts = range(0, len(is_captured), MAX_SCANNER_COLUMNS)
        self._scanners = []
        for first in starts:
            some = is_captured[first : first + MAX_SCANNER_COLUMNS]
            last = first == starts[-1]
            tree = record(dialect, some, first, rest if last else anything(), ends=last)
            self._scanners.append(Scanner([tree]))

    def scan(self, texts: pa.Array) -> tuple[dict[str, pa.Array], Bools]:
        """Captures, null where the text is not a record; and where it is one."""
        captures: dict[str, pa.Array] = {}
        for scanner in self._scanners:
            found = scanner.scan(texts)
            good: Bools = found.pattern >= 0
            captures |= found.captures
            texts = empty_where(captures[REST], good) if REST in captures else texts
        if len(self._scanners) > 1 and not good.all():
            captures = {name: null_where(column, ~good) for name, column in captures.items()}
        return captures, good
