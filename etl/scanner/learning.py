"""An automaton that learns from the texts it sees, and remembers from run to run.

Automata of real patterns have more states than anybody will meet: COMBINEDAPACHELOG has 8,000, and 10,000 lines of a
real log need 120. So states are made from the first texts, frozen into tables, and texts that leave the known part are
looked at again and learned from. What it costs is bounded by states and by time; a text beyond that is left to others.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import pickle
import platform
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from etl.scanner.automaton import UNKNOWN, Automaton
from etl.scanner.folder import folder
from etl.scanner.kernel import scan
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
FIRST_SECONDS, SHARE = 0.5, 0.25
"""Time that may be spent on learning: at the beginning, and as a share of the time spent on scanning."""

KEEP_AFTER = 1_000
"""Texts after which what was learned is worth a file."""

GIVE_UP_AFTER, GIVE_UP_SHARE = 2_000, 0.5
"""After so many texts of which such a share was left to others, all are."""

Kept = TypeVar("Kept")


@dataclass(frozen=True)
class Spans:
    """Of n texts, which pattern matched (int32[n]: -1 none, -2 beyond the automaton), where captures begin and end
    (int32[captures, n], places in the text, -1 where one took no part)."""

    pattern: Array
    begins: Array
    ends: Array

    @classmethod
    def empty(cls, captures: int, texts: int) -> Spans:
        """Room for answers."""
        return cls(np.empty(texts, np.int32), np.empty((captures, texts), np.int32), np.empty((captures, texts), np.int32))

    @classmethod
    def unknown(cls, captures: int, texts: int) -> Spans:
        """Nothing found, all texts left to others."""
        nowhere = np.full((captures, texts), -1, np.int32)
        return cls(np.full(texts, UNKNOWN, np.int32), nowhere, nowhere)

    def put(self, rows: Array, other: Spans) -> None:
        """``other`` is the answer for these rows."""
        self.pattern[rows] = other.pattern
        self.begins[:, rows] = other.begins
        self.ends[:, rows] = other.ends


class Learner:
    """Runs patterns, tried in order, over texts."""

    def __init__(self, trees: Sequence[Node], where: Where) -> None:
        self.trees, self.where = tuple(trees), where
        self.names = tuple(dict.fromkeys(capture.field for tree in trees for capture in captures(tree)))
        self.given_up = False
        self._file = _file(repr((self.trees, where)))
        self._automaton: Automaton | None = None
        self._tables: Tables | None = _load(self._file.with_suffix(".tables"), Tables)
        self._frozen = 0  # states of the automaton in the tables; of tables from the disk it is not known
        self._learned = self._scanned = 0.0
        self._texts = self._left = 0
        self._kept = True

    def scan(self, address: Array, length: Array) -> Spans:
        """The texts at these addresses (see `etl.scanner.texts.Texts`)."""
        spans = Spans.empty(len(self.names), len(address))
        unknown = np.flatnonzero(length >= 0)
        if self.given_up:
            return Spans.unknown(len(self.names), len(address))
        if self._tables is not None or self._learn(address, length, _spread(unknown, FIRST_TEXTS)):
            self._run(address, length, spans)
            unknown = np.flatnonzero(spans.pattern == UNKNOWN)
            texts = FIRST_TEXTS
            while len(unknown) and self._learn(address, length, _spread(unknown, texts)):
                part = Spans.empty(len(self.names), len(unknown))
                self._run(address[unknown], length[unknown], part)
                spans.put(unknown, part)
                unknown = unknown[part.pattern == UNKNOWN]
                texts *= 3
        else:
            spans = Spans.unknown(len(self.names), len(address))
        self._weigh(len(address), len(unknown))
        if not self._kept and self._texts >= KEEP_AFTER:
            self._keep()
        return spans

    def _run(self, address: Array, length: Array, spans: Spans) -> None:
        began = time.perf_counter()
        it = self._tables
        assert it is not None
        scan(
            address, length, it.entries, it.classes, np.int64(it.shift), np.int64(it.start), it.kinds, it.runs, it.found,
            it.move_starts, it.move_to, it.move_from, it.finals, it.patterns, it.places, np.int64(it.registers),
            spans.begins, spans.ends, spans.pattern,
        )  # fmt: skip
        self._scanned += time.perf_counter() - began

    def _weigh(self, texts: int, left: int) -> None:
        self._texts += texts
        self._left += left
        self.given_up = self._texts > GIVE_UP_AFTER and self._left > self._texts * GIVE_UP_SHARE

    # ── Learning ──────────────────────────────────────────────────────────────────────────────────

    def _learn(self, address: Array, length: Array, rows: Array) -> bool:
        """Make the states that these texts need; False when none were made: the budget is spent or the texts are beyond."""
        began = time.perf_counter()
        until = began + FIRST_SECONDS + SHARE * self._scanned - self._learned
        try:
            known = self._known()
        except BeyondError:
            self.given_up = True
            return False

        def may_grow() -> bool:
            return known.expanded < MOST_STATES and time.perf_counter() < until

        for row in rows:
            if not may_grow():
                break
            known.train(ctypes.string_at(int(address[row]), min(int(length[row]), MOST_BYTES)), may_grow)
        grown = known.expanded > self._frozen and self._freeze(known)
        self._learned += time.perf_counter() - began
        return grown

    def _known(self) -> Automaton:
        if self._automaton is None and self._tables is not None:
            self._automaton = _load(self._file.with_suffix(".automaton"), Automaton)
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
        return True

    def _keep(self) -> None:
        _save(self._file.with_suffix(".automaton"), self._automaton)
        _save(self._file.with_suffix(".tables"), self._tables)
        self._kept = True


def _spread(rows: Array, most: int) -> Array:
    """At most so many of the rows, from all over the column."""
    return rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(int))] if len(rows) else rows


# ── On disk ───────────────────────────────────────────────────────────────────────────────────────


@cache
def _version() -> str:
    """What kept automata depend on beside their patterns: this package's code, numpy, Python, the machine."""
    files = sorted((path.name, path.stat().st_mtime_ns) for path in Path(__file__).parent.glob("*.py"))
    return repr((files, np.__version__, platform.python_version(), platform.machine()))


def _file(patterns: str) -> Path:
    name = hashlib.sha256(f"{_version()} {patterns}".encode()).hexdigest()[:32]
    return folder() / "scanners" / name


def _load(file: Path, kind: type[Kept]) -> Kept | None:
    """What was kept, or None: a file that is missing, cut or something else is no error."""
    try:
        kept = pickle.loads(file.read_bytes())
    except Exception:
        return None
    return kept if isinstance(kept, kind) else None


def _save(file: Path, kept: object) -> None:
    """Whole or not at all; a full disk costs the next run some time, no more."""
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as draft:
            draft.write(pickle.dumps(kept, pickle.HIGHEST_PROTOCOL))
        os.replace(draft.name, file)
