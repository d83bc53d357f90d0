"""Reads the state of a query while its run goes on, or when it is stopped. Writes and locks nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from etl.api import ComponentError, Operator, PaneSpan
from etl.state.manifest import Manifest, Manifests
from etl.state.part_rows import PartsOfFiles
from etl.state.row_files import open_entry
from etl.state.state_files import StateFile

MAX_ATTEMPTS = 20
"""Versions that are tried when a run removes files before they are mapped. Three versions keep their files, so one is enough if
three micro-batches take longer than to map some files."""

ROWS_AT_ONCE = 1 << 18
"""Maximum number of rows of several parts that are read together; a part by itself costs some milliseconds of Python."""


@dataclass(frozen=True)
class StepState:
    """The state of a step, mapped: it stays readable when its files are removed."""

    watermark: int
    files: tuple[StateFile, ...]
    bytes: int
    """Size of all files."""

    @property
    def rows(self) -> int:
        """Rows of all files."""
        return sum(file.rows for file in self.files)

    @property
    def parts(self) -> list[int]:
        """The parts that have rows."""
        return sorted(set(chain.from_iterable(file.parts for file in self.files)))

    def portions(self) -> Iterator[PartsOfFiles]:
        """All rows: at once if they are few, else those of one part after the other."""
        for parts in [self.parts] if self.rows <= ROWS_AT_ONCE else [[part] for part in self.parts]:
            yield PartsOfFiles(self.files, parts)

    def open_panes(self, operator: Operator) -> PaneSpan | None:
        """The first and the last pane that is not over."""
        panes = [file.panes(part) for file in self.files for part in file.parts]
        alive = [p for p in np.unique(np.concatenate(panes)).tolist() if not operator.is_over(p, self.watermark)] if panes else []
        return PaneSpan(alive[0], alive[-1]) if alive else None


@dataclass(frozen=True)
class QueryState:
    """The state of a query after its last micro-batch."""

    batch: int
    event_time: int
    steps: Sequence[StepState]


def read_query_state(folder: Path) -> QueryState | None:
    """The last version of a query's state, None if there is none. Raises ComponentError if it is damaged."""
    manifests = Manifests(folder)
    batch, attempts = manifests.last(), 1
    while batch is not None:
        try:
            return _map(folder, batch, manifests.read(batch))
        except ComponentError:
            last = manifests.last()
            if last == batch or attempts == MAX_ATTEMPTS:
                raise
            batch, attempts = last, attempts + 1
    return None


def _map(folder: Path, batch: int, manifest: Manifest) -> QueryState:
    steps = []
    for stage in manifest.stages:
        files = tuple(open_entry(folder, file) for file in stage.files)
        steps.append(StepState(stage.watermark, files, sum(file.bytes for file in stage.files)))
    return QueryState(batch, manifest.event_time, steps)
