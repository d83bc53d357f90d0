"""The task that merges state files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from etl.api import Schema, StatefulStep
from etl.receipts import NO_SEGMENT, Receipt
from etl.spark.lane.operators import operator_of
from etl.spark.query_context import store_error
from etl.state.compaction import merge_by_ranges
from etl.state.manifest import Manifests, StateFileEntry
from etl.state.part_rows import hashes_of, parts_of
from etl.state.process_memory import trim_heap
from etl.state.row_files import combine_rows, open_entry

LARGE_MERGE_BYTES = 64 << 20
"""Bytes of files whose merge leaves much freed memory."""


@dataclass(frozen=True, kw_only=True)
class MergeTask:
    """Merges state files in a task; gives a receipt that names the new one."""

    step: StatefulStep
    incoming: Schema
    state: Manifests
    files: tuple[StateFileEntry, ...]
    name: str
    watermark: int
    staging: Path
    """The folder in which the driver finds errors."""

    def __call__(self, numbers: Iterable[int]) -> Iterator[bytes]:
        for number in numbers:
            try:
                yield Receipt("", "merged", number, NO_SEGMENT, state=self._merge()).encode()
                if sum(file.bytes for file in self.files) > LARGE_MERGE_BYTES:
                    trim_heap()
            except Exception as error:
                store_error(self.staging, error)
                raise

    def _merge(self) -> tuple[StateFileEntry, ...]:
        operator = operator_of(self.step, self.incoming)
        files = [open_entry(self.state.folder, file) for file in self.files]
        path = self.state.folder / self.name
        combine = partial(combine_rows, operator, seed=self.state.seed, watermark=self.watermark)
        is_over = lambda pane: operator.is_over(pane, self.watermark)  # noqa: E731
        seed = self.state.seed
        return merge_by_ranges(
            files, path, combine, is_over, hashes_of(operator, seed), self.state.durable, parts_of(operator, seed)
        )
