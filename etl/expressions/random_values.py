"""Random values of events that are the same when a micro-batch runs again: hashes of what identifies the event and the call.

A task sets its `TaskScope` while a segment processes a batch. A value is then a hash of the query, the source, the partition, the
event's offset (and its number among the events made of that one), the step, the expression within the step, and the call within
the expression. Invariant: a split that is read again gives the same values, whatever the sizes of its batches.

Outside of a task there is no scope, and values are random: so they are in conditions of joins and windows, which see rows of
several splits.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import local
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from etl.events import OFFSET, RepeatCounter

if TYPE_CHECKING:
    import numpy as np

    Words = np.ndarray[Any, np.dtype[np.uint64]]

_INCREMENT, _MIX_1, _MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""The constants of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014)."""

_current = local()


@dataclass
class TaskScope:
    """What the task that evaluates expressions is: the identity of its input, and the time of reading."""

    identity: str
    """The same when the input is read again, and of no other input of any pipeline."""
    read_at: float | None = None
    """Seconds since the epoch; the same when the micro-batch runs again. None: now."""
    _step: str = ""
    _evaluated: int = 0
    _repeats: dict[tuple[str, int], RepeatCounter] = field(default_factory=dict)

    def enter_step(self, step: str) -> None:
        """The expressions evaluated next are those of this step, from the first on, over one batch."""
        self._step, self._evaluated = step, 0

    def next_source(self, batch: pa.RecordBatch) -> RandomSource:
        """The source of the step's next expression over a batch."""
        import numpy as np

        self._evaluated += 1
        counter = self._repeats.setdefault((self._step, self._evaluated), RepeatCounter())
        offsets = batch.column(OFFSET)
        numbers = counter.numbers(offsets)
        repeats = np.zeros(len(offsets), np.uint64) if numbers is None else numbers.astype(np.uint64)
        own = f"{self.identity}\0{self._step}\0{self._evaluated}"
        return RandomSource(self.identity, own, offsets.to_numpy().astype(np.uint64), repeats, now=_time_of(self))


@contextmanager
def task_scope(scope: TaskScope) -> Iterator[None]:
    """Evaluate expressions in this scope, in this thread."""
    before = current_scope()
    _current.scope = scope
    try:
        yield
    finally:
        _current.scope = before


def current_scope() -> TaskScope | None:
    """The scope of the running task."""
    return getattr(_current, "scope", None)


@dataclass(frozen=True)
class RandomSource:
    """The source of random values of one expression over the rows of a batch."""

    input_identity: str
    identity: str
    """Of the expression within the input."""
    offsets: Words
    repeats: Words
    call: int = 0
    """Number of the call within the expression."""
    now: float = field(default_factory=time.time)
    """The time of all calls of the expression, seconds since the epoch: they ask once, so that ``now() = now()`` holds."""

    def rows(self, first: int, last: int) -> RandomSource:
        """The source for some of the rows."""
        return replace(self, offsets=self.offsets[first:last], repeats=self.repeats[first:last])

    def of_call(self, number: int) -> RandomSource:
        """The source for one call of the expression."""
        return replace(self, call=number)

    def words(self, part: int = 0, seed: int | None = None) -> Words:
        """64 random bits for each row; other ones for each ``part``. Calls with the same seed have the same ones."""
        own = f"{self.identity}\0{self.call}" if seed is None else f"{self.input_identity}\0seed\0{seed}"
        digest = hashlib.blake2b(f"{own}\0{part}".encode(), digest_size=16).digest()
        first, second = int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")
        return _mix(_mix(self.offsets, first) ^ self.repeats, second)


def random_source_of(batch: pa.RecordBatch) -> RandomSource:
    """The source of random values of an expression over a batch, of the running task if there is one."""
    scope = current_scope()
    if scope is None or OFFSET not in batch.schema.names:
        return unrepeatable_source(batch.num_rows)
    return scope.next_source(batch)


def _time_of(scope: TaskScope | None) -> float:
    return time.time() if scope is None or scope.read_at is None else scope.read_at


def unrepeatable_source(length: int) -> RandomSource:
    """A source without an event behind it: other values each time."""
    import numpy as np

    numbers, repeats = np.arange(length, dtype=np.uint64), np.zeros(length, np.uint64)
    return RandomSource("", os.urandom(16).hex(), numbers, repeats, now=_time_of(current_scope()))


def _mix(values: Words, key: int) -> Words:
    """SplitMix64 of values with a key: a permutation of 64-bit numbers."""
    import numpy as np

    with np.errstate(over="ignore"):
        mixed = values + np.uint64(key) + np.uint64(_INCREMENT)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(_MIX_1)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(_MIX_2)
        return mixed ^ (mixed >> np.uint64(31))
