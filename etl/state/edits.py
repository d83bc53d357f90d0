"""Changes of a step's state while no run is alive: without some keys, or with events of a time before the first run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

from etl.api import PANE, DroppedEvents, Operator, WatermarkAdvance
from etl.state.key_hash import HASH, HASH2, PARTS, key_hashes, part_of
from etl.state.manifest import Manifest, Manifests, StageState, StateFileEntry, files_after_run, span_of
from etl.state.part_rows import MappedStateFiles
from etl.state.row_files import RowWriter, open_entry
from etl.state.state_file_writer import StateFileWriter
from etl.state.state_files import StateFile


def with_stage(manifest: Manifest, number: int, stage: StageState) -> Manifest:
    """The same with another state of a step."""
    states = [manifest.stage(at) for at in range(max(number + 1, len(manifest.stages)))]
    states[number] = stage
    return replace(manifest, stages=tuple(states))


def rows_of(files: Iterable[StateFileEntry]) -> int:
    """The number of rows in files."""
    return sum(file.rows for file in files)


def without_key(manifests: Manifests, stage: StageState, operator: Operator, key: pa.Table) -> tuple[StateFileEntry, ...]:
    """The files of a step without the rows of a key, which is a table of one row: files that have such rows are rewritten."""
    requested = key_hashes(key, operator.keys, manifests.seed)
    part = int(part_of(requested)[0])
    return tuple(left for entry in stage.files for left in _rewrite(manifests, entry, operator, part, requested))


def _rewrite(
    manifests: Manifests, entry: StateFileEntry, operator: Operator, part: int, requested: Any
) -> Iterator[StateFileEntry]:
    file = open_entry(manifests.folder, entry)
    if part not in file.parts:
        yield entry
        return
    others = _other_rows(file, operator, part, requested, manifests.seed)
    if others.num_rows == file.part(part).num_rows:
        yield entry
    else:
        yield from _write_without(manifests.folder, entry.name, file, part, others)


def _other_rows(file: StateFile, operator: Operator, part: int, requested: Any, seed: int) -> pa.RecordBatch:
    rows = file.part(part)
    stored = HASH2 in rows.schema.names
    halves = [rows.column(half).to_numpy() for half in (HASH, HASH2)] if stored else key_hashes(rows, operator.keys, seed)
    first, second = halves
    return rows.filter(pa.array((first != requested[0, 0]) | (second != requested[1, 0])))


def _write_without(folder: Path, name: str, file: StateFile, part: int, others: pa.RecordBatch) -> Iterator[StateFileEntry]:
    batches = [(number, others if number == part else file.part(number)) for number in file.parts]
    batches = [(number, rows) for number, rows in batches if rows.num_rows]
    if not batches:
        return
    path = folder / f"{unused_name(folder, f'{name}-dropped')}-0"
    with StateFileWriter(path, file.schema, durable=True) as writer:
        for number, rows in batches:
            writer.add(number, pa.Table.from_batches([rows]), rows.column(PANE).to_numpy())
    yield writer.entry


def with_events(
    manifests: Manifests, stage: StageState, operator: Operator, name: str, events: Iterable[pa.RecordBatch]
) -> tuple[tuple[StateFileEntry, ...], int]:
    """The files of a step as if it had got these events too, whose results nobody gets; and how many events are too late."""
    writer = RowWriter(operator, manifests, name, stage.watermark, stage.emission)
    for batch in events:
        writer.add_accepted(batch)
    arrived, clock = writer.close(), WatermarkAdvance(stage.watermark, stage.watermark)
    files = (*stage.files, *arrived)
    if operator.is_due(clock, span_of(arrived), span_of(stage.files)):
        files = _after_run(manifests, operator, f"{name}-state", clock, arrived, stage.files)
    return files, writer.late


def _after_run(
    manifests: Manifests,
    operator: Operator,
    name: str,
    clock: WatermarkAdvance,
    arrived: tuple[StateFileEntry, ...],
    stored: tuple[StateFileEntry, ...],
) -> tuple[StateFileEntry, ...]:
    new, old = MappedStateFiles(manifests.folder, arrived), MappedStateFiles(manifests.folder, stored)
    remembered = RowWriter(operator, manifests, name)
    for part in range(PARTS):
        for found in operator.run(clock, new.parts(part), old.parts(part)):
            if isinstance(found, (pa.Table, DroppedEvents)):
                remembered.add_to_state(found)
    return files_after_run(operator.after_run, stored, arrived, remembered.close())


def unused_name(folder: Path, name: str) -> str:
    """A beginning of names that no state file has."""
    names = (f"{name}{number}" for number in count())
    return next(one for one in names if not any(folder.glob(f"{one}-*")))
