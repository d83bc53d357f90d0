"""Runs a stateful step over a stream that is cut into micro-batches and splits at random, with restarts between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

from hypothesis import strategies as st
from state.lane import Lane, Row

from etl.api import NEVER, OFFSET, Schema, StatefulStep, WatermarkAdvance
from etl.spark.lane import operators
from etl.state import state_files
from etl.state.manifest import Manifest, StageState


@dataclass(frozen=True)
class Cut:
    """One micro-batch, and what happens before it."""

    rows: int
    splits: int = 1
    restarts: bool = False
    """Whether the process begins again with what the manifest says."""
    at_once: bool = False
    """Whether one task runs all parts together, and not each part by itself."""
    merges: bool = False
    """Whether all files of state are merged after it."""


CUTS = st.lists(
    st.builds(Cut, st.integers(1, 25), st.integers(1, 3), st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=8
)
"""Micro-batches, which are repeated until the stream ends."""


def after_restart(lane: Lane) -> Lane:
    """A lane that knows nothing but what is on disk, and the end of the stream so far."""
    number = lane.batches - 1
    lane.manifests.write(number, Manifest(lane.event_time, (StageState(lane.clock.now, lane.kept, lane.emission),)))
    operators._load_operator.cache_clear()
    operators._by_identity.clear()
    state_files._opened.clear()
    fresh = Lane(lane.step, lane.incoming, lane.folder, late=lane.late, over_limit=lane.over_limit)
    known = fresh.manifests.read(number)
    fresh.clock = WatermarkAdvance(NEVER, known.stage(0).watermark)
    fresh.event_time, fresh.kept, fresh.emission = known.event_time, known.stage(0).files, known.stage(0).emission
    fresh.batches = lane.batches
    return fresh


def batches_of(rows: Sequence[Row], cuts: Sequence[Cut]) -> Iterator[tuple[Cut, Sequence[Row]]]:
    """The rows of each micro-batch."""
    first = 0
    for cut in cycle(cuts):
        if first >= len(rows):
            return
        yield cut, rows[first : first + cut.rows]
        first += cut.rows


def run_in_cuts(
    step: StatefulStep, incoming: Schema, folder: Path, rows: Sequence[Row], cuts: Sequence[Cut], last: Row
) -> tuple[list[Row], Lane]:
    """The results of a stream with offsets in its order, and of a ``last`` row that moves the watermark past all of it."""
    lane, found = Lane(step, incoming, folder), list[Row]()
    for cut, batch in batches_of(rows, cuts):
        lane = after_restart(lane) if cut.restarts and lane.batches else lane
        lane.at_once, lane.merges = cut.at_once, cut.merges
        size = -(-len(batch) // cut.splits)
        found += lane.run(*(batch[first : first + size] for first in range(0, len(batch), size)))
    return found + lane.run([last]), lane


def on_time(
    rows: Sequence[Row], cuts: Sequence[Cut], time: Callable[[Row], float], late: float, end: Callable[[float], float] = float
) -> list[Row]:
    """The rows that are not late: ``end`` of their time is not before the watermark of the micro-batches in front."""
    found, latest = list[Row](), float("-inf")
    for _, batch in batches_of(rows, cuts):
        found += [row for row in batch if end(time(row)) >= latest - late]
        latest = max([latest, *(time(row) for row in batch)])
    return found


def numbered(rows: Sequence[Row]) -> list[Row]:
    """The rows with their offsets."""
    return [{**row, OFFSET: number} for number, row in enumerate(rows)]
