"""Rates of a pipeline over the last minutes, from samples of its totals once a second."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from etl.spark.reports.totals import Totals

HISTORY = 600
"""Samples that are kept, one a second."""

RATE_SECONDS = 5.0
"""Seconds over which the current rates are computed."""


@dataclass(frozen=True)
class Sample:
    """The sums of a pipeline at a moment."""

    time: float
    read: int
    delivered: int
    dead: int
    bytes: int
    lag_seconds: float


class Rates:
    """The samples of one pipeline. A new run counts from zero: its first sample begins a new series. So does the first one after
    the clock was set back."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=HISTORY)
        self._lock = threading.Lock()

    def add(self, totals: Totals) -> None:
        """Take a sample."""
        sample = Sample(
            time.time(),
            sum(counts.incoming for counts in list(totals.read.values())),
            sum(sink.accepted for sink in list(totals.sinks.values())),
            totals.dead,
            totals.bytes,
            totals.lag_seconds,
        )
        with self._lock:
            if self._samples and (sample.read < self._samples[-1].read or sample.time < self._samples[-1].time):
                self._samples.clear()
            self._samples.append(sample)

    def current(self) -> dict[str, float]:
        """Events and bytes a second over the last seconds; zeros without samples."""
        since = time.time() - RATE_SECONDS - 1
        with self._lock:
            recent = list(takewhile(lambda one: one.time >= since, reversed(self._samples)))
        first, last = (recent[-1], recent[0]) if recent else (None, None)
        seconds = last.time - first.time if first and last else 0.0
        return {
            f"{name}_per_second": round((getattr(last, name) - getattr(first, name)) / seconds, 1) if seconds > 0 else 0.0
            for name in ("read", "delivered", "dead", "bytes")
        }

    def history(self) -> dict[str, list[Any]]:
        """The samples as columns: seconds since the epoch, sums, lag."""
        with self._lock:
            samples = list(self._samples)
        return {name: [getattr(one, name) for one in samples] for name in Sample.__dataclass_fields__}
