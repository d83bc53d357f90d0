"""An automaton that learns from the texts it sees, and remembers from run to run.

Automata of real patterns have more states than anybody will meet: COMBINEDAPACHELOG has 8,000, and 10,000 lines of a
real log need 120. So states are made from the first texts, frozen into tables, and texts that leave the known part are
looked at again and learned from. What it costs is bounded by states and by time; a text beyond that is left to others.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from etl.columns.cache_files import cache_file, load, save
from etl.columns.texts import Texts
from etl.scanner.automaton import UNKNOWN, Automaton
from etl.scanner.kernel import scan
from etl.scanner.machine.compiler import Compiler
from etl.scanner.program import BeyondError, Where, program
from etl.scanner.tables import Tables, TooLargeError, tables
from etl.scanner.tree import Node, captures

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

FIRST_TEXTS = 100
"""Texts of a column that are learned from before the first tables are made; later three times as many each time."""

MOST_BYTES = 64 << 10
"""Of a text, the bytes that are learned from."""

MOST_STATES = 2_000
FIRST_SECONDS, SHARE, OTHERS_SHARE = 0.5, 0.25, 0.5
"""CPU seconds that may be spent on learning: at the beginning, and as a share of those that scanning took, and of those that
others took for the texts that were left to them. Those cost some 100 times as much each."""

KEEP_AFTER = 1_000
"""Texts after which what was learned is worth a file."""

SETTLED_SECONDS = 0.3
"""CPU time spent with tables that did not change, after which they are worth compiling: as much again pays for it."""

GIVE_UP_AFTER, GIVE_UP_SHARE = 2_000, 0.5
"""After so many texts of which such a share was left to others, all are."""


@dataclass(frozen=True)
class Captured:
    """What became of n texts."""

    pattern: Array
    """int32[n]: the pattern that matched, -1 for none, -2 for a text beyond the automaton."""

    views: Array
    """uint32[captures, n, 4]: the captures as views."""

    valid: Array
    """uint8[captures, n]: 0 where a capture took no part or is empty."""

    @classmethod
    def room(cls, captures: int, texts: int) -> Captured:
        """Room for answers."""
        views, valid = np.empty((captures, texts, 4), np.uint32), np.empty((captures, texts), np.uint8)
        return cls(np.empty(texts, np.int32), views, valid)

    @classmethod
    def unknown(cls, captures: int, texts: int) -> Captured:
        """All texts left to others."""
        nothing = np.zeros((captures, texts, 4), np.uint32), np.zeros((captures, texts), np.uint8)
        return cls(np.full(texts, UNKNOWN, np.int32), *nothing)

    def forget(self, rows: Array) -> None:
        """Nothing is known of these texts but what was left to others."""
        self.pattern[rows] = np.minimum(self.pattern[rows], -1)
        self.valid[:, rows] = 0

    def put(self, rows: Array, other: Captured) -> None:
        """``other`` is the answer for these texts."""
        self.pattern[rows] = other.pattern
        self.views[:, rows] = other.views
        self.valid[:, rows] = other.valid


class Learner:
    """Runs patterns, tried in order, over texts: by machine code where there is some, by tables what that does not know."""

    def __init__(self, trees: Sequence[Node], where: Where) -> None:
        self.trees, self.where = tuple(trees), where
        self.names = tuple(dict.fromkeys(capture.field for tree in trees for capture in captures(tree)))
        self.given_up = False
        self._file = cache_file(repr((self.trees, where)), Path(__file__).parent)
        self._automaton: Automaton | None = None
        self._tables: Tables | None = load(self._file.with_suffix(".tables"), Tables)
        self._compiler = Compiler(self._file)
        self._frozen = 0  # states of the automaton in the tables; of tables from the disk it is not known
        self._learned = self._scanned = self._settled = self._others = 0.0
        self._texts = self._left = 0
        self._kept = True

    def scan(self, texts: Texts) -> Captured:
        """The texts of a column, which lie in one buffer."""
        if self.given_up:
            return Captured.unknown(len(self.names), len(texts.address))
        found = Captured.room(len(self.names), len(texts.address))
        unknown = np.flatnonzero(texts.length >= 0)
        if self._tables is not None or self._learn(texts, _spread(unknown, FIRST_TEXTS)):
            self._run(texts, found)
            unknown = np.flatnonzero(found.pattern == UNKNOWN)
            most = FIRST_TEXTS
            while len(unknown) and self._learn(texts, _spread(unknown, most)):
                again = Captured.room(len(self.names), len(unknown))
                self._run_tables(texts.at(unknown), again)
                found.put(unknown, again)
                unknown = unknown[again.pattern == UNKNOWN]
                most *= 3
        else:
            found = Captured.unknown(len(self.names), len(texts.address))
        self._weigh(len(texts.address), len(unknown))
        if not self._kept and self._texts >= KEEP_AFTER:
            self._keep()
        if self._kept and self._settled >= SETTLED_SECONDS:
            self._settled = 0.0
            self._compiler.ask()
        return found

    def charge(self, seconds: float) -> None:
        """Others took so much CPU time for the texts that were left to them: learning, which saves it, may take a share."""
        self._others += seconds

    def _run(self, texts: Texts, found: Captured) -> None:
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
            again = Captured.room(len(self.names), len(unknown))
            self._run_tables(texts.at(unknown), again)
            found.put(unknown, again)

    def _run_tables(self, texts: Texts, found: Captured) -> None:
        began = time.thread_time()
        it = self._tables
        assert it is not None
        scan(
            texts.address, texts.length, np.uint64(texts.base), it.entries, it.classes, np.int64(it.shift), np.int64(it.start),
            it.kinds, it.runs, it.found, it.move_starts, it.move_to, it.move_from, it.finals, it.patterns, it.places,
            np.empty(it.registers + 1, np.int32), found.pattern, np.uint64(found.views.ctypes.data), found.valid,
        )  # fmt: skip
        seconds = time.thread_time() - began
        self._scanned += seconds
        self._settled += seconds

    def _weigh(self, texts: int, left: int) -> None:
        self._texts += texts
        self._left += left
        self.given_up |= self._texts > GIVE_UP_AFTER and self._left > self._texts * GIVE_UP_SHARE

    # ── Learning ──────────────────────────────────────────────────────────────────────────────────

    def _learn(self, texts: Texts, rows: Array) -> bool:
        """Make the states that these texts need; False when none were made: the budget is spent or the texts are beyond."""
        try:
            known = self._known()
        except BeyondError:
            self.given_up = True
            return False
        began = time.thread_time()
        until = began + FIRST_SECONDS + SHARE * self._scanned + OTHERS_SHARE * self._others - self._learned

        def may_grow() -> bool:
            return known.expanded < MOST_STATES and time.thread_time() < until

        for row in rows:
            if not may_grow():
                break
            known.train(ctypes.string_at(int(texts.address[row]), min(int(texts.length[row]), MOST_BYTES)), may_grow)
        grown = known.expanded > self._frozen and self._freeze(known)
        self._learned += time.thread_time() - began
        return grown

    def _known(self) -> Automaton:
        if self._automaton is None and self._tables is not None:
            self._automaton = load(self._file.with_suffix(".automaton"), Automaton)
        if self._automaton is None:
            self._automaton = Automaton(program(self.trees, self.where))
        return self._automaton

    def _freeze(self, known: Automaton) -> bool:
        self._frozen = known.expanded
        try:
            self._tables = tables(known)
        except TooLargeError:
            return False
        self._kept = False
        self._settled = 0.0
        return True

    def _keep(self) -> None:
        save(self._file.with_suffix(".automaton"), self._automaton)
        save(self._file.with_suffix(".tables"), self._tables)
        self._kept = True


def _spread(rows: Array, most: int) -> Array:
    """At most so many of the rows, from all over the column."""
    return rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(int))] if len(rows) else rows
