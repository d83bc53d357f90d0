"""Merging small state files into larger ones, so that the number of files is bounded whatever the number of micro-batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from etl.api import Schema, StatefulStep
from etl.receipts import Receipt
from etl.spark.splits import NO_SEGMENT
from etl.state.key_hash import PARTS
from etl.state.manifest import Manifests, StateFileEntry
from etl.state.row_files import RowFolder, RowWriter

MOST_FILES = 32
"""State files of a step before small ones are merged."""

MERGED_FILES = 24
"""Files that are merged at once: the smallest. So a row is written again as often as the logarithm of the state's size."""


def files_to_merge(files: Sequence[StateFileEntry]) -> tuple[StateFileEntry, ...]:
    """The files that are to be merged into one; none while there are few."""
    if len(files) <= MOST_FILES:
        return ()
    return tuple(sorted(files, key=lambda file: (file.rows, file.name))[:MERGED_FILES])


@dataclass(frozen=True, kw_only=True)
class MergeTask:
    """Merges state files in a task; gives a receipt that names the new files."""

    step: StatefulStep
    incoming: Schema
    state: Manifests
    files: tuple[StateFileEntry, ...]
    name: str

    def __call__(self, numbers: Iterable[int]) -> Iterator[bytes]:
        for number in numbers:
            operator = self.step.operator(self.incoming)
            writer, folder = RowWriter(operator, self.state, self.name), RowFolder(self.state.folder, self.files)
            for part in range(PARTS):
                tables = folder.parts(part).tables()
                if tables:
                    writer.add_rows(operator.combine(pa.concat_tables(tables, promote_options="default")))
            yield Receipt("", "merged", number, NO_SEGMENT, rows=writer.close()).encode()
