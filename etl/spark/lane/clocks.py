"""The watermarks of the stages of a query in a micro-batch, and the time of reading of their results.

A step goes by an event time or by the time of reading. What a stage gives is read in the micro-batch that gives it, so that any
step may follow, and a micro-batch that runs again gives its results the same time. It is later than all times of micro-batches
before. Downstream of a stage, an event time is bounded by what that stage guarantees, or, where it guarantees nothing about the
field, by the latest one of its results less the lateness, as after a source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from etl.api import ALWAYS, NEVER, WatermarkAdvance
from etl.contract.state import Operator
from etl.plan.frames import StageInput
from etl.plan.segments import Watermark
from etl.receipts import NO_SEGMENT, Receipt
from etl.spark.lane.lane_stages import Stage
from etl.spark.query_context import SplitTask
from etl.state.manifest import Manifest

_SECOND = 1_000_000


def reading_time(found: float | None, known: Manifest) -> int:
    """The time of reading of a micro-batch whose events were found then (seconds), later than all before; microseconds."""
    return max(NEVER if found is None else round(found * 1e6), known.read_at + 1)


def tick_receipt(task: SplitTask, inputs: Sequence[StageInput]) -> Receipt:
    """The receipt of a task without events, which advances event time, or says which intervals are over."""
    if task.tick is None:
        return Receipt("", "tick", 0, NO_SEGMENT, idle=task.idle, quiet=task.quiet)
    times = {number: task.tick for number, one in enumerate(inputs) if not one.by_field}
    return Receipt("", "tick", 0, NO_SEGMENT, event_times=times, silence="ended" if task.ends else "idle")


@dataclass
class BatchClocks:
    """The clocks of the stages of a micro-batch. Stages are computed from upstream to downstream; each passes on what it
    guarantees."""

    stages: Sequence[Stage]
    inputs: Sequence[StageInput]
    known: Manifest
    """Of the micro-batch before."""
    read: Sequence[Receipt]
    """Of the tasks that have read events."""
    bounded: bool = False
    times: dict[str, int] = field(default_factory=dict)
    """The latest event time of each input."""
    read_at: int = NEVER
    """The latest time of reading, of results, too."""
    _bounds: dict[int, int] = field(default_factory=dict)
    _read: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.times = {one.name: self.known.event_times.get(one.name, NEVER) for one in self.inputs}
        for receipt in self.read:
            self._observe(receipt.event_times)
        self.read_at = self._reading = max(
            [reading_time(None, self.known), *(one.read_at for one in self.read if one.read_at is not None)]
        )
        self._idle = frozenset[str]().union(*(receipt.idle for receipt in self.read))
        self._quiet = frozenset[int]().union(*(receipt.quiet for receipt in self.read))
        self._silent = any(one.silence is not None for one in self.read)
        self._ended = any(one.silence == "ended" for one in self.read)

    @property
    def quiet(self) -> frozenset[int]:
        """The intervals for which the micro-batch was planned, without events."""
        return self._quiet

    def of(self, number: int) -> WatermarkAdvance:
        """The clock of a stage."""
        stage, before = self.stages[number], self.known.stage(number)
        now = ALWAYS if self.bounded else self._now(number, stage.watermark, before.watermark)
        own = frozenset(round(every.total_seconds() * _SECOND) for every in stage.step.intervals())
        return WatermarkAdvance(before.watermark, now, self._quiet & own, before.emission, self._ended or self.bounded)

    def record_stage(self, number: int, operator: Operator, now: int, given: Sequence[Receipt]) -> None:
        """Record that a stage has run to its clock, and that its tasks gave these receipts."""
        self._bounds[number] = operator.watermark_after(now)
        self._read[number] = self.results_read_at(number, now)
        self.read_at = max(self.read_at, self._read[number])
        for receipt in given:
            self._observe({number: time for number, time in receipt.event_times.items() if self.inputs[number].by_field})

    def results_read_at(self, number: int, now: int) -> int:
        """The time of reading of the results of a stage whose clock is ``now``."""
        return now if self.stages[number].watermark.arrival and not self.bounded else self._latest_reading(number)

    def _observe(self, event_times: Mapping[int, int]) -> None:
        for number, time in event_times.items():
            name = self.inputs[number].name
            self.times[name] = max(time, self.times[name])

    def _latest_reading(self, number: int) -> int:
        """The latest time of reading of what reaches a stage."""
        upstream = frozenset[int]().union(*(one.stages for one in self._inputs_of(number)))
        return max([self._reading, *(self._read[earlier] for earlier in upstream)])

    def _now(self, number: int, watermark: Watermark, before: int) -> int:
        delay = round((watermark.max_delay_seconds + 1) * _SECOND)
        if watermark.arrival:
            return max(before, self._latest_reading(number) + (delay if self._ended else 0))
        late = round(watermark.late_seconds * _SECOND)
        active, silent = list[int](), list[int]()
        for one in self._inputs_of(number):
            time = self.times[one.name] - late
            if one.by_field:
                if not (self._silent and self.times[one.name] == NEVER):
                    active.append(time + (delay + late if self._silent else 0))
                continue
            active += [self._bounds[stage] for stage in one.stages]
            if one.sources or not one.stages:
                (silent if one.sources and one.sources <= self._idle else active).append(time)
        return max(before, min(active) if active else max(silent, default=before))

    def _inputs_of(self, number: int) -> Sequence[StageInput]:
        return [one for one in self.inputs if one.stage == number]
