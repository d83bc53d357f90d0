"""Builds the result of a scan from the matches of its stages: views from automata, copies of texts from other engines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from etl.columns.texts import Texts, make_view_array, materialize_array, take_rows
from etl.scanner.engines import EngineResult
from etl.scanner.learning import MatchArrays
from etl.scanner.scanner import NO_PATTERN, Scan

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]


@dataclass
class ScanBuilder:
    """The matches in a column so far; each stage adds its own."""

    column: pa.Array
    texts: Texts
    names: tuple[str, ...]
    pattern: Array
    captured: list[tuple[Array | None, tuple[str, ...], MatchArrays]] = field(default_factory=list)
    """Matches of automata: rows (None: all), names of the captures, matches."""

    copies: list[tuple[Array, dict[str, pa.Array]]] = field(default_factory=list)
    """Matches of other engines: rows, captured texts by name."""

    timed_out: Array | None = None

    @classmethod
    def empty(cls, column: pa.Array, names: tuple[str, ...]) -> ScanBuilder:
        """No matches yet."""
        return cls(column, Texts.of(column), names, np.full(len(column), NO_PATTERN, np.int32))

    def unmatched_rows(self) -> Array:
        """The rows whose text no pattern has matched; rows of null are left out."""
        return np.flatnonzero((self.pattern < 0) & (self.texts.length >= 0))

    def texts_at(self, rows: Array) -> Texts:
        """The texts of these rows."""
        return self.texts if len(rows) == len(self.pattern) else self.texts.at(rows)

    def add_matches(self, rows: Array, names: tuple[str, ...], found: MatchArrays, first: int) -> None:
        """Add an automaton's matches in these rows; its patterns are numbered from ``first``."""
        hits = found.pattern >= 0
        if len(rows) == len(self.pattern):
            self.pattern = np.where(hits, found.pattern + first, self.pattern)
            self.captured.append((None, names, found))
        elif hits.any():
            self.pattern[rows[hits]] = found.pattern[hits] + first
            self.captured.append((rows, names, found))

    def add_copies(self, rows: Array, answer: EngineResult, pattern: int) -> None:
        """Add another engine's matches in these rows."""
        hits = answer.matched.to_numpy(zero_copy_only=False)
        self.pattern[rows[hits]] = pattern
        if hits.any():
            captures = {name: texts.filter(answer.matched) for name, texts in answer.captures.items()}
            self.copies.append((rows[hits], captures))
        if answer.timed_out is not None and answer.timed_out.true_count:
            self.timed_out = np.zeros(len(self.pattern), bool) if self.timed_out is None else self.timed_out
            self.timed_out[rows[answer.timed_out.to_numpy(zero_copy_only=False)]] = True

    def strings(self, rows: Array) -> pa.StringArray:
        """The texts of these rows as strings, which RE2 and ``regex`` read."""
        return materialize_array(take_rows(self.column, rows))

    def finish(self) -> Scan:
        """The result, with a column for each capture."""
        timed_out = self.timed_out
        if timed_out is not None:
            timed_out &= self.pattern < 0
        return Scan({name: self._column(name) for name in self.names}, self.pattern, timed_out)

    def _column(self, name: str) -> pa.Array:
        views, valid = self._views(name)
        column = make_view_array(views, None if valid.all() else valid, self.texts.buffer)
        copies = [(rows, found[name]) for rows, found in self.copies if name in found]
        return _overlay(column, copies) if copies else column

    def _views(self, name: str) -> tuple[Array, Array]:
        """The views of a capture (uint32[n, 4]), and which are valid (uint8[n])."""
        answers = [(rows, names.index(name), found) for rows, names, found in self.captured if name in names]
        if answers and answers[0][0] is None:
            _, at, found = answers.pop(0)
            views, valid = found.views[at], found.valid[at]
        else:
            views, valid = np.zeros((len(self.pattern), 4), np.uint32), np.zeros(len(self.pattern), np.uint8)
        for rows, at, found in answers:
            hits = np.flatnonzero(found.pattern >= 0)
            put = hits if rows is None else rows[hits]
            views[put], valid[put] = found.views[at][hits], found.valid[at][hits]
        return views, valid


def _overlay(column: pa.Array, copies: list[tuple[Array, pa.Array]]) -> pa.Array:
    """Replace some rows of a view column by copied texts."""
    at, size = np.arange(len(column)), len(column)
    for rows, texts in copies:
        at[rows] = np.arange(size, size + len(texts))
        size += len(texts)
    return take_rows(pa.concat_arrays([column, *(texts.cast(pa.string_view()) for _, texts in copies)]), at)
