"""What was found in the texts of a column, remembered: a text that comes again, in any batch, is not looked at again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from etl.columns.texts import Texts
from etl.rules.engine.text_memory_kernel import number

MOST_TEXTS, MOST_BYTES = 1 << 14, 2 << 20
"""What is remembered of a column, in each process; when it is full, all is forgotten."""

MOSTLY_NEW = 0.7
"""A batch with more new texts than this part of its values was not worth remembering,"""
TELLING = 256
"""unless it had fewer values, which tell little,"""
PAUSE, LONGEST_PAUSE = 16, 256
"""and after so many batches without memory it is tried again; each time in vain, twice as many follow."""


class Hits(NamedTuple):
    """Of text t the predicates ``predicates[first[t]:first[t + 1]]``."""

    first: Any
    predicates: Any


class Codes(NamedTuple):
    """What a column's values are known by where they are remembered."""

    code: Any
    """int32[n]: of each value the number of its text (negative: null)."""
    generation: int
    """How often the memory was emptied, from 1 on."""
    room: int
    """All numbers are below."""


Look: TypeAlias = Callable[[pa.Array], Hits]
"""Texts → the predicates that hold for each."""


class Seen:
    """The memory of one column."""

    def __init__(self, enabled: bool = True) -> None:
        self._enabled, self._pause, self._room = enabled, 0, False
        self._generation, self._next_pause = 0, PAUSE

    @property
    def is_paused(self) -> bool:
        """Whether texts are not remembered for a while, for they did not repeat."""
        return self._pause > 0

    def remembered(self, array: pa.Array, look: Look) -> tuple[Any, Hits] | None:
        """The number of each value's text (int32, negative: null), and what holds for the texts by number.

        None: the texts of this batch are not remembered, and nothing was looked at.
        """
        if self._pause:
            self._pause -= 1
        elif self._enabled and len(array):
            return self._found(array, look)
        return None

    def codes(self, code: Any) -> Codes:
        """How long the numbers that were given last are valid."""
        return Codes(code, self._generation, MOST_TEXTS)

    def _found(self, array: pa.Array, look: Look) -> tuple[Any, Hits] | None:
        """None when one batch is more than is remembered."""
        texts, code = Texts.of(array), np.empty(len(array), np.int32)
        known = self._numbered(texts, code) if self._room else -1
        if known < 0:
            self._forget()
            known = self._numbered(texts, code)
        if known < 0:
            self._room = False
            self._rest()
            return None
        if len(array) >= TELLING and known - self._known > MOSTLY_NEW * len(array):
            self._rest()
        else:
            self._next_pause = PAUSE
        self._learn(known, look)
        return code, Hits(self._first, self._predicates)

    def _rest(self) -> None:
        self._pause, self._next_pause = self._next_pause, min(2 * self._next_pause, LONGEST_PAUSE)

    def _numbered(self, texts: Texts, code: Any) -> int:
        return number(
            texts.address, texts.length, np.uint64(self._arena.ctypes.data), MOST_BYTES, self._table, self._hashes, self._ends,
            self._known, code,
        )  # fmt: skip

    def _forget(self) -> None:
        self._arena, self._table = np.empty(MOST_BYTES, np.uint8), np.full(4 * MOST_TEXTS, -1, np.int32)
        self._hashes, self._ends = np.empty(MOST_TEXTS, np.uint64), np.zeros(MOST_TEXTS + 1, np.int32)
        self._known, self._room = 0, True
        self._generation += 1
        self._first, self._predicates = np.zeros(1, np.int64), np.empty(0, np.int32)

    def _learn(self, known: int, look: Look) -> None:
        """Look at the texts that are new."""
        if known == self._known:
            return
        ends = self._ends[self._known : known + 1]
        data = pa.py_buffer(self._arena[ends[0] : ends[-1]].copy())
        new = pa.Array.from_buffers(pa.string(), known - self._known, [None, pa.py_buffer(ends - ends[0]), data])
        found = look(new)
        self._first = np.concatenate([self._first, found.first[1:] + self._first[-1]])
        self._predicates = np.concatenate([self._predicates, found.predicates])
        self._known = known
