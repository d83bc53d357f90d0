"""What a step remembers as one file, and back: a state file whose schema says from which state it is."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from etl.api import ComponentError, Operator, replace_file
from etl.state.compaction import merge_files, rows_of_part
from etl.state.key_hash import HASH, HASH2, key_hashes
from etl.state.manifest import Manifests, StageState, emit_progress_of, read_seed
from etl.state.reader import StepState
from etl.state.row_files import RowWriter, combine_rows
from etl.state.state_files import DamagedStateError, StateFile

SUFFIX = ".state"
"""Ending of the names of these files."""

_ORIGIN = b"sluice.state"

_ANY_NAME = ""
"""Users may rename these files."""


@dataclass(frozen=True)
class Origin:
    """The state that rows were exported from."""

    step: Mapping[str, Any]
    """What the step remembers (`StatefulStep.remembered`), and its type."""
    seed: int
    state: StageState
    """Without files."""


def export_rows(target: Path, state: StepState, operator: Operator, origin: Origin) -> int:
    """Write all rows that are needed to a file that appears when it is complete, only for its user; returns their number."""
    metadata = {_ORIGIN: json.dumps(asdict(origin))}

    def combine(rows: pa.Table) -> pa.Table:
        return combine_rows(operator, rows, origin.seed, state.watermark).replace_schema_metadata(metadata)

    before = os.umask(0o077)  # the seed is a secret
    try:
        entry = merge_files(state.files, target, combine, lambda pane: operator.is_over(pane, state.watermark), name=_ANY_NAME)
    finally:
        os.umask(before)
    return 0 if entry is None else entry.rows


class ExportedRows:
    """A file that `export_rows` has written. Raises ComponentError for another or a damaged one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _open(path)
        try:
            known = json.loads((self._file.schema.metadata or {})[_ORIGIN])
            state = StageState(known["state"]["watermark"], (), emit_progress_of(known["state"]))
            self.origin = Origin(known["step"], known["seed"], state)
        except (KeyError, ValueError) as error:
            raise _foreign(path) from error

    def add_to(self, manifests: Manifests, stage: StageState, operator: Operator, name: str) -> tuple[StageState, int, int]:
        """The state of a step that remembers nothing with these rows, their number, and how many its watermark has passed."""
        self._take_seed(manifests, operator)
        known = self.origin.state
        watermark = max(stage.watermark, known.watermark)
        writer = RowWriter(operator, manifests, name)
        rows = 0
        for part in self._file.parts:
            found = rows_of_part([self._file], part, lambda pane: operator.is_over(pane, watermark))
            rows += len(found)
            writer.add_rows(self._rehash(found.replace_schema_metadata(), operator, manifests.seed))
        emission = replace(known.emission, final=max(known.emission.final, stage.emission.final))
        return StageState(watermark, writer.close(), emission), rows, self._file.rows - rows

    def _take_seed(self, manifests: Manifests, operator: Operator) -> None:
        """Use the seed of the rows in a state that has none. Raises ComponentError where it has another and rows have no keys."""
        path = manifests.folder / "seed.json"
        seed = read_seed(path)
        if seed is None and not manifests.versions():
            manifests.folder.mkdir(parents=True, exist_ok=True)
            replace_file(path, json.dumps(self.origin.seed).encode())
        elif manifests.seed != self.origin.seed and operator.hashed and not self._has_keys(operator):
            raise ComponentError(
                f"{self._path} has hashes of keys that this state cannot find: each state has a secret seed of its hashes. "
                "Import the file into a state folder that no run has used, or import events with their keys"
            )

    def _has_keys(self, operator: Operator) -> bool:
        return set(operator.keys) <= set(self._file.schema.names)

    def _rehash(self, rows: pa.Table, operator: Operator, seed: int) -> pa.Table:
        """Rows with hashes where the operator sees these; other rows get theirs when they are written."""
        if operator.hashed and seed == self.origin.seed:
            return rows
        plain = rows.drop_columns([one for one in (HASH, HASH2) if one in rows.column_names])
        if not operator.hashed:
            return plain
        hashes = key_hashes(plain, operator.keys, seed)
        return plain.append_column(HASH, pa.array(hashes[0])).append_column(HASH2, pa.array(hashes[1]))


def _open(path: Path) -> StateFile:
    """An exported file, whatever its name. Raises ComponentError that says what to do."""
    try:
        return StateFile(path, _ANY_NAME)
    except DamagedStateError as error:
        raise _foreign(path) from error


def _foreign(path: Path) -> ComponentError:
    return ComponentError(f"{path} was not written by etl state export, or is damaged: export the state again")
