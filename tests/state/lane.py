"""Runs a stateful step over micro-batches as the state lane does, in this process and without Spark: also its operator lives
from one micro-batch to the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import (
    NEVER,
    OFFSET,
    DroppedEvents,
    EmitProgress,
    Operator,
    Rejects,
    Schema,
    StatefulStep,
    TracksEmitProgress,
    WatermarkAdvance,
)
from etl.spark.lane.operators import operator_of
from etl.spark.lane.part_tasks import split_failed
from etl.state.compaction import files_to_merge, merge_by_ranges
from etl.state.key_hash import PARTS
from etl.state.manifest import Manifests, StateFileEntry, span_of
from etl.state.part_rows import HashesOf, KeyRange, MappedStateFiles, hashes_of, parts_of
from etl.state.row_files import RowWriter, combine_rows
from etl.state.state_files import StateFile

Row = dict[str, Any]


@dataclass
class Lane:
    """A stateful step and its state. A row without an `OFFSET` only carries the event time."""

    step: StatefulStep
    incoming: Schema
    folder: Path
    clock: WatermarkAdvance = field(default_factory=WatermarkAdvance)
    event_time: int = NEVER
    kept: tuple[StateFileEntry, ...] = ()
    emission: EmitProgress = field(default_factory=EmitProgress)
    late: int = 0
    over_limit: int = 0
    rejects: list[Rejects] = field(default_factory=list)
    batches: int = 0
    merges: bool = False
    """Whether all state files are merged after each micro-batch."""
    at_once: bool = False
    """Whether all parts and keys run together and full tiers of files are merged, as in micro-batches of few rows."""

    @cached_property
    def manifests(self) -> Manifests:
        """Not durable: no law depends on what a disk has when the power fails."""
        return Manifests(self.folder, durable=False)

    def run(self, *splits: Sequence[Row], quiet: frozenset[int] = frozenset(), watermark: int | None = None) -> list[Row]:
        """The results of a micro-batch, whose splits are read by a task each; or without splits, for intervals that are over.
        ``watermark``: where it does not go by the latest event of all."""
        operator, number = operator_of(self.step, self.incoming), self.batches
        arrived: list[StateFileEntry] = []
        for order, rows in enumerate(splits):
            writer = RowWriter(operator, self.manifests, f"rows-{number}-{order}", self.clock.now, self.emission)
            events = pa.RecordBatch.from_pylist(list(rows), schema=self.incoming.append(pa.field(OFFSET, pa.int64())))
            latest = pc.max(events.column((self.step.event_time() or ("",))[0]).cast(pa.timestamp("us", "UTC"), safe=False)).value
            self.event_time = max(self.event_time, NEVER if latest is None else latest)
            self.rejects += writer.add(events.filter(events.column(OFFSET).is_valid()))
            arrived += writer.close()
            self.late += writer.late
        late = (self.step.event_time() or ("", None))[1]
        assert late is not None
        now = max(self.clock.now, self.event_time - round(late.total_seconds() * 1e6)) if watermark is None else watermark
        self.clock = WatermarkAdvance(self.clock.now, now, quiet, self.emission)
        final = operator.final_until(now) if isinstance(operator, TracksEmitProgress) else NEVER
        self.emission = self.emission.after(quiet, final)
        self.batches += 1
        results = self._run_parts(operator, tuple(arrived))
        if self.at_once and (full := files_to_merge(self.kept)):
            self.kept = (*self._merged(full), *(file for file in self.kept if file not in full))
        return results

    def _run_parts(self, operator: Operator, arrived: tuple[StateFileEntry, ...]) -> list[Row]:
        if not operator.is_due(self.clock, span_of(arrived), span_of(self.kept)):
            self.kept = self._alive(operator, (*self.kept, *arrived))
            return []
        remembered = RowWriter(operator, self.manifests, f"rows-{self.batches}-state")
        new, old = MappedStateFiles(self.folder, arrived), MappedStateFiles(self.folder, self.kept)
        results: list[Row] = []
        for parts, keys in self._divided(hashes_of(operator, self.manifests.seed)):
            for found in operator.run(self.clock, new.parts(*parts, keys=keys), old.parts(*parts, keys=keys)):
                if isinstance(found, (pa.Table, DroppedEvents)):
                    remembered.add_to_state(found)
                    continue
                good, rejects = split_failed(found) if isinstance(found, pa.RecordBatch) else (None, found)
                results += good.to_pylist() if good is not None else []
                self.rejects += [rejects] if rejects is not None else []
        written = remembered.close()
        self.over_limit += remembered.dropped
        added = {"arrived": arrived, "appended": written, "added": (*arrived, *written)}
        files = written if operator.after_run == "rewritten" else (*self.kept, *added[operator.after_run])
        self.kept = self._alive(operator, files)
        if self.merges and self.kept:
            self.kept = self._merged(self.kept)
        return results

    def _divided(self, hashes: HashesOf) -> Iterator[tuple[range, KeyRange | None]]:
        """Parts and keys that are run together: some parts by themselves, and in every other micro-batch some keys."""
        if self.at_once:
            yield range(PARTS), None
        elif self.batches % 2:
            yield from ((range(PARTS), KeyRange(number, 2, hashes)) for number in range(2))
        else:
            yield from ((parts, None) for parts in (range(PARTS // 2), range(PARTS // 2, PARTS)))

    def _merged(self, entries: tuple[StateFileEntry, ...]) -> tuple[StateFileEntry, ...]:
        operator, name = operator_of(self.step, self.incoming), f"rows-{self.batches}-merged"
        files = [StateFile(self.folder / file.name) for file in entries]
        combine = partial(combine_rows, operator, seed=self.manifests.seed, watermark=self.clock.now)
        hashes, own_parts = hashes_of(operator, self.manifests.seed), parts_of(operator, self.manifests.seed)
        is_over = lambda pane: operator.is_over(pane, self.clock.now)  # noqa: E731
        together = own_parts if self.at_once or self.batches % 4 > 1 else None
        return merge_by_ranges(files, self.folder / name, combine, is_over, hashes, durable=False, parts_of=together)

    def _alive(self, operator: Operator, files: tuple[StateFileEntry, ...]) -> tuple[StateFileEntry, ...]:
        return tuple(file for file in files if not operator.is_over(file.last, self.clock.now))
