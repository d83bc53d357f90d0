"""Runs a lazily determinised automaton over texts, trains it on them, and stores it for later runs.

Automata of real patterns have more states than real texts need: COMBINEDAPACHELOG has 8,000, and 10,000 lines of a real log
need 120. So the first texts determine which states are built; tables are made of these, and a text that leaves the known
states trains the automaton and is scanned again. States and training time are bounded; texts beyond go to other engines.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from etl.columns.disk_cache import cache_file, load, save
from etl.columns.texts import Texts
from etl.scanner.automata.automaton import UNKNOWN, Automaton
from etl.scanner.automata.transition_tables import TooLargeError, TransitionTables, build_tables
from etl.scanner.codegen.background_compiler import BackgroundCompiler
from etl.scanner.kernel import scan
from etl.scanner.program import MatchStart, UnsupportedPatternError, compile_program
from etl.scanner.tree import Node, captures

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

FIRST_TEXTS = 100
"""Texts of a column used for training before the first tables are made; each later round uses three times as many."""

MAX_BYTES = 64 << 10
"""Bytes of a text used for training."""

MAX_STATES = 2_000
"""States with computed transitions."""

FIRST_SECONDS, SHARE, OTHERS_SHARE = 0.5, 0.25, 0.5
"""Budget for training: CPU seconds at the beginning, a share of the CPU time spent on scanning, and a share of the CPU time that
other engines spent. A text costs other engines about 100 times as much."""

SAVE_AFTER, SAVE_SECONDS = 1_000, 0.02
"""When the automaton is stored on disk: at each change after this many texts; before, when the training since the last time took
this many CPU seconds and half of all. So the next of several short runs need not train it again."""

STABLE_SECONDS = 0.3
"""CPU time spent on unchanged tables after which they are compiled; the same time again pays for the compilation."""

GIVE_UP_AFTER, GIVE_UP_SHARE = 2_000, 0.5
"""When, after this many texts, more than this share went to other engines, all later texts do."""


@dataclass(frozen=True)
class MatchArrays:
    """The matches in n texts, as the kernel writes them."""

    pattern: Array
    """int32[n]: the pattern that matched, -1 for none, -2 (`UNKNOWN`) for a text beyond the known states."""

    views: Array
    """uint32[captures, n, 4]: the captures as views."""

    valid: Array
    """uint8[captures, n]: 0 where a capture took no part or is empty."""

    @classmethod
    def allocate(cls, captures: int, texts: int) -> MatchArrays:
        """Uninitialised arrays."""
        views, valid = np.empty((captures, texts, 4), np.uint32), np.empty((captures, texts), np.uint8)
        return cls(np.empty(texts, np.int32), views, valid)

    @classmethod
    def unknown(cls, captures: int, texts: int) -> MatchArrays:
        """No text is decided."""
        nothing = np.zeros((captures, texts, 4), np.uint32), np.zeros((captures, texts), np.uint8)
        return cls(np.full(texts, UNKNOWN, np.int32), *nothing)

    def clear(self, rows: Array) -> None:
        """Remove the matches of these texts; those that are unknown stay so."""
        self.pattern[rows] = np.minimum(self.pattern[rows], -1)
        self.valid[:, rows] = 0

    def put(self, rows: Array, other: MatchArrays) -> None:
        """Copy the matches of these texts from ``other``."""
        self.pattern[rows] = other.pattern
        self.views[:, rows] = other.views
        self.valid[:, rows] = other.valid


class Learner:
    """Runs patterns, tried in order, over texts: by machine code if it is compiled, by tables for states that it lacks."""

    def __init__(self, trees: Sequence[Node], where: MatchStart) -> None:
        self.trees, self.where = tuple(trees), where
        self.names = tuple(dict.fromkeys(capture.field for tree in trees for capture in captures(tree)))
        self.given_up = False
        self._file = cache_file(repr((self.trees, where)), Path(__file__).parent)
        self._automaton: Automaton | None = None
        self._tables: TransitionTables | None = load(self._file.with_suffix(".tables"), TransitionTables)
        self._compiler = BackgroundCompiler(self._file)
        self._frozen = 0  # number of states in the tables; 0 for tables from the disk
        self._learned = self._unsaved = self._scanned = self._stable = self._others = 0.0
        self._texts = self._left = 0
        self._saved = True

    def scan(self, texts: Texts) -> MatchArrays:
        """Scan the texts of a column, which are in one buffer."""
        if self.given_up:
            return MatchArrays.unknown(len(self.names), len(texts.address))
        found = MatchArrays.allocate(len(self.names), len(texts.address))
        unknown = np.flatnonzero(texts.length >= 0)
        if self._tables is not None or self._learn(texts, _spread(unknown, FIRST_TEXTS)):
            self._run(texts, found)
            unknown = np.flatnonzero(found.pattern == UNKNOWN)
            max_texts = FIRST_TEXTS
            while len(unknown) and self._learn(texts, _spread(unknown, max_texts)):
                again = MatchArrays.allocate(len(self.names), len(unknown))
                self._run_tables(texts.at(unknown), again)
                found.put(unknown, again)
                unknown = unknown[again.pattern == UNKNOWN]
                max_texts *= 3
        else:
            found = MatchArrays.unknown(len(self.names), len(texts.address))
        self._update_given_up(len(texts.address), len(unknown))
        if not self._saved and (self._texts >= SAVE_AFTER or self._unsaved >= max(SAVE_SECONDS, self._learned / 2)):
            self._save()
        if self._saved and self._stable >= STABLE_SECONDS:
            self._stable = 0.0
            self._compiler.request()
        return found

    def charge(self, seconds: float) -> None:
        """Add CPU time that other engines spent on texts beyond this automaton: a share of it may be spent on training."""
        self._others += seconds

    def _run(self, texts: Texts, found: MatchArrays) -> None:
        code = self._compiler.code
        if code is None:
            self._run_tables(texts, found)
            return
        began = time.thread_time()
        code.scan(texts, found)
        self._scanned += time.thread_time() - began
        assert self._tables is not None
        unknown = np.flatnonzero(found.pattern == UNKNOWN)
        if len(unknown) and code.tables != self._tables.fingerprint:
            again = MatchArrays.allocate(len(self.names), len(unknown))
            self._run_tables(texts.at(unknown), again)
            found.put(unknown, again)

    def _run_tables(self, texts: Texts, found: MatchArrays) -> None:
        began = time.thread_time()
        it = self._tables
        assert it is not None
        scan(
            texts.address, texts.length, np.uint64(texts.base), it.entries, it.classes, np.int64(it.shift), np.int64(it.start),
            it.kinds, it.runs, it.found, it.move_starts, it.move_to, it.move_from, it.finals, it.patterns, it.capture_registers,
            np.empty(it.registers + 1, np.int32), found.pattern, np.uint64(found.views.ctypes.data), found.valid,
        )  # fmt: skip
        seconds = time.thread_time() - began
        self._scanned += seconds
        self._stable += seconds

    def _update_given_up(self, texts: int, left: int) -> None:
        self._texts += texts
        self._left += left
        self.given_up |= self._texts > GIVE_UP_AFTER and self._left > self._texts * GIVE_UP_SHARE

    # ── Training ──────────────────────────────────────────────────────────────────────────────────

    def _learn(self, texts: Texts, rows: Array) -> bool:
        """Make the states that these texts need; False if none were made: the budget is spent or a limit is reached."""
        try:
            known = self._load_automaton()
        except UnsupportedPatternError:
            self.given_up = True
            return False
        began = time.thread_time()
        until = began + FIRST_SECONDS + SHARE * self._scanned + OTHERS_SHARE * self._others - self._learned

        def may_grow() -> bool:
            return known.expanded < MAX_STATES and time.thread_time() < until

        for row in rows:
            if not may_grow():
                break
            known.train(ctypes.string_at(int(texts.address[row]), min(int(texts.length[row]), MAX_BYTES)), may_grow)
        grown = known.expanded > self._frozen and self._freeze(known)
        seconds = time.thread_time() - began
        self._learned += seconds
        self._unsaved += seconds
        return grown

    def _load_automaton(self) -> Automaton:
        if self._automaton is None and self._tables is not None:
            self._automaton = load(self._file.with_suffix(".automaton"), Automaton)
        if self._automaton is None:
            self._automaton = Automaton(compile_program(self.trees, self.where))
        return self._automaton

    def _freeze(self, known: Automaton) -> bool:
        self._frozen = known.expanded
        try:
            self._tables = build_tables(known)
        except TooLargeError:
            return False
        self._saved = False
        self._stable = 0.0
        return True

    def _save(self) -> None:
        save(self._file.with_suffix(".automaton"), self._automaton)
        save(self._file.with_suffix(".tables"), self._tables)
        self._saved, self._unsaved = True, 0.0


def _spread(rows: Array, max_rows: int) -> Array:
    """At most ``max_rows`` of the rows, evenly distributed over the column."""
    return rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), max_rows)).astype(int))] if len(rows) else rows
