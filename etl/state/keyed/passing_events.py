"""What `dedupe` and `throttle` have in common: an event passes in the micro-batch in which it arrives, or never."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from etl.api import AfterRun, PaneSpan, PartRows, Schema, WatermarkAdvance
from etl.state.keyed.decisions import TIME
from etl.state.keyed.event_rows import as_events, numbers, whole


@dataclass(frozen=True)
class PassingEvents(ABC):
    """An operator that decides about events by state rows of their keys, which are appended and never changed."""

    fields: Schema
    group_by: tuple[str, ...]
    time: str

    hashed: ClassVar[bool] = True
    indexed: ClassVar[bool] = True
    after_run: ClassVar[AfterRun] = "appended"

    @property
    def keys(self) -> tuple[str, ...]:
        """The fields that make a key."""
        return self.group_by

    @abstractmethod
    def decide(self, rows: pa.Table, times: Any, stored: PartRows) -> Any:
        """bool[rows]: which of these events pass."""

    @abstractmethod
    def state_rows(self, passed: pa.Table) -> pa.Table:
        """The state rows of events that pass."""

    def is_due(self, clock: WatermarkAdvance, arrived: PaneSpan | None, stored: PaneSpan | None) -> bool:
        """Whether there are events."""
        return arrived is not None

    def reads_all(self, clock: WatermarkAdvance, arrived: PaneSpan | None, stored: PaneSpan | None) -> bool:
        """Keys are looked up."""
        return False

    def run(self, clock: WatermarkAdvance, arrived: PartRows, stored: PartRows) -> Iterator[pa.RecordBatch | pa.Table]:
        """The events that pass, in the order of their times, and their state rows."""
        tables = arrived.tables()
        if not tables:
            return
        rows = whole(tables)
        times = numbers(rows, TIME)
        passing = np.flatnonzero(self.decide(rows, times, stored))
        if len(passing):
            passed = rows.take(pa.array(passing[np.argsort(times[passing], kind="stable")]))
            yield as_events(passed, self.fields)
            yield self.state_rows(passed)
