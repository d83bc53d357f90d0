"""A cache of a column's texts, with the predicates that hold for each: a repeated text is not evaluated again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from etl.columns.texts import Texts
from etl.rules.engine.text_cache_kernel import number_texts

MAX_TEXTS, MAX_BYTES = 1 << 14, 2 << 20
"""Size of a column's cache, in each process; a full cache is cleared."""

MOSTLY_NEW = 0.7
"""Share of new texts in a batch from which on caching does not pay."""
MIN_VALUES = 256
"""Values of a batch from which on that share is significant."""
PAUSE, LONGEST_PAUSE = 16, 256
"""Batches without the cache after one for which it did not pay; twice as many after each further one."""


class Hits(NamedTuple):
    """The predicates of each text: text t has ``predicates[first[t]:first[t + 1]]``."""

    first: Any
    predicates: Any


class Codes(NamedTuple):
    """The numbers of a column's texts in the cache."""

    code: Any
    """int32[n]: the number of each value's text (negative: null)."""
    generation: int
    """How often the cache has been cleared, at least 1; numbers are valid within a generation."""
    room: int
    """An upper bound of numbers."""


TextEvaluator: TypeAlias = Callable[[pa.Array], Hits]
"""Texts → the predicates that hold for each."""


class TextCache:
    """The cache of one column."""

    def __init__(self, enabled: bool = True) -> None:
        self._enabled, self._pause, self._has_room = enabled, 0, False
        self._generation, self._next_pause = 0, PAUSE

    @property
    def is_paused(self) -> bool:
        """Whether the cache is not used for some batches because texts did not repeat."""
        return self._pause > 0

    def look_up(self, array: pa.Array, evaluate: TextEvaluator) -> tuple[Any, Hits] | None:
        """The number of each value's text (int32[n], negative: null), and the predicates of texts by number.

        New texts are evaluated. None: the cache is not used for this batch, and nothing was evaluated.
        """
        if self._pause:
            self._pause -= 1
        elif self._enabled and len(array):
            return self._look_up(array, evaluate)
        return None

    def codes(self, code: Any) -> Codes:
        """The numbers returned last, with the generation in which they are valid."""
        return Codes(code, self._generation, MAX_TEXTS)

    def _look_up(self, array: pa.Array, evaluate: TextEvaluator) -> tuple[Any, Hits] | None:
        """None if the batch does not fit into an empty cache."""
        texts, code = Texts.of(array), np.empty(len(array), np.int32)
        known = self._number(texts, code) if self._has_room else -1
        if known < 0:
            self._clear()
            known = self._number(texts, code)
        if known < 0:
            self._has_room = False
            self._start_pause()
            return None
        if len(array) >= MIN_VALUES and known - self._known > MOSTLY_NEW * len(array):
            self._start_pause()
        else:
            self._next_pause = PAUSE
        self._evaluate_new(known, evaluate)
        return code, Hits(self._first, self._predicates)

    def _start_pause(self) -> None:
        self._pause, self._next_pause = self._next_pause, min(2 * self._next_pause, LONGEST_PAUSE)

    def _number(self, texts: Texts, code: Any) -> int:
        return number_texts(
            texts.address, texts.length, np.uint64(self._arena.ctypes.data), MAX_BYTES, self._table, self._hashes, self._ends,
            self._known, code,
        )  # fmt: skip

    def _clear(self) -> None:
        self._arena, self._table = np.empty(MAX_BYTES, np.uint8), np.full(4 * MAX_TEXTS, -1, np.int32)
        self._hashes, self._ends = np.empty(MAX_TEXTS, np.uint64), np.zeros(MAX_TEXTS + 1, np.int32)
        self._known, self._has_room = 0, True
        self._generation += 1
        self._first, self._predicates = np.zeros(1, np.int64), np.empty(0, np.int32)

    def _evaluate_new(self, known: int, evaluate: TextEvaluator) -> None:
        """TextEvaluator the texts from number ``self._known`` on."""
        if known == self._known:
            return
        ends = self._ends[self._known : known + 1]
        data = pa.py_buffer(self._arena[ends[0] : ends[-1]].copy())
        new = pa.Array.from_buffers(pa.string(), known - self._known, [None, pa.py_buffer(ends - ends[0]), data])
        found = evaluate(new)
        self._first = np.concatenate([self._first, found.first[1:] + self._first[-1]])
        self._predicates = np.concatenate([self._predicates, found.predicates])
        self._known = known
