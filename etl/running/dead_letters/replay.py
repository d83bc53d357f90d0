"""Replays dead letters: each runs once through the pipeline as it is now, from the step or sink on that rejected it.

A replay takes its letters when its folder ``dead/replays/NUMBER`` appears in the state folder; from then on they are settled.
Then it is a run like any other, with a checkpoint in that folder and the sinks' state of the pipeline: after a kill, the next
replay finishes it first, and nothing is delivered twice where the sinks deliver exactly once.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import EtlError
from etl.config.model import Pipeline
from etl.file_modes import sync_names
from etl.running.dead_letters.entry_points import EntryPoint, NoEntryError, entry_point
from etl.running.dead_letters.letter_files import LetterFile
from etl.running.dead_letters.replayed_events import LetterWriter
from etl.running.dead_letters.settled_letters import SettledLetters, lines_by_file, to_record
from etl.running.planning import RunRequest, planned_run
from etl.running.service import RunService
from etl.running.shared_session import SharedSession
from etl.spark.run import PipelineRun
from etl.spark.state.folder import StateFolder
from etl.spark.state.json_files import read_json, write_json

_SOURCE = re.compile(r"replay-(\d{4,9})-\d{1,9}")
"""The name of the source of a replay's part. Clients send such names: nothing else becomes a part of a path."""


@dataclass(frozen=True)
class ReplayFolder(StateFolder):
    """The state folder of a replay: its own checkpoints, and the sinks, tables and lock of the pipeline's folder."""

    whole: StateFolder

    def sink(self, sink: str) -> Path:
        """The folder of a sink committer's state."""
        return self.whole.sink(sink)

    @property
    def spools(self) -> Path:
        """The parent folder of the sinks' spools."""
        return self.whole.spools

    @property
    def dead_letters(self) -> Path:
        """The default file of dead letters."""
        return self.whole.dead_letters

    @property
    def tables(self) -> Path:
        """The parent folder of look-up tables."""
        return self.whole.tables

    @property
    def lock(self) -> Path:
        """The file that is locked while a run of the pipeline is alive."""
        return self.whole.lock


@dataclass(frozen=True)
class ReplayPart:
    """The letters of one step or sink in a replay, as a run of their own."""

    name: str
    """The name of its source, such as ``replay-0003-1``."""
    folder: Path
    entry: EntryPoint
    letters: int

    @property
    def has_ended(self) -> bool:
        """Whether all of its letters are through."""
        return (self.folder / f"{self.name}.ended").exists()

    def pipeline(self, whole: Pipeline) -> Pipeline:
        """The part of the pipeline that the letters run through."""
        return self.entry.pipeline(whole, self.name, str(self.folder / f"{self.name}.arrow"))

    def state(self, whole: StateFolder) -> ReplayFolder:
        """Where its checkpoints are."""
        return ReplayFolder(self.folder / self.name, whole)


@dataclass
class TakenLetters:
    """What a new replay takes, and what it leaves."""

    letters: int = 0
    refused: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Step or sink → why its letters stay, and how many they are."""


def take_letters(
    pipeline: Pipeline, state: StateFolder, files: Sequence[LetterFile], chosen: Callable[[pa.RecordBatch], pa.RecordBatch]
) -> TakenLetters:
    """Begin a replay with the open letters of files that ``chosen`` keeps. Needs the lock of the state folder.

    Memory: a batch of letters, and 30 bytes for each letter.
    """
    dead = state.root / "dead"
    settled, taken = SettledLetters.load(dead), TakenLetters()
    number = 1 + max((int(one.name) for one in (dead / "replays").glob("[0-9]*") if one.name.isdigit()), default=0)
    draft = dead / "replays" / f"{number:04d}.new"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    writers: dict[str, LetterWriter] = {}
    chosen_lines: list[pa.RecordBatch] = []
    for batch in (chosen(batch) for file in files for batch in settled.open(file)):
        for at in batch.column("at").unique().to_pylist():
            of_origin = batch.filter(pc.equal(batch.column("at"), at))
            if at not in writers and at not in taken.refused:
                _begin(pipeline, at, draft / f"replay-{number:04d}-{len(writers) + 1}.arrow", writers, taken)
            if at in taken.refused:
                reason, events = taken.refused[at]
                taken.refused[at] = reason, events + of_origin.num_rows
                continue
            writers[at].write(of_origin)
            chosen_lines.append(of_origin.select(["file", "line"]))
    portions = [{"name": writer.path.stem, "at": at, "letters": writer.rows} for at, writer in writers.items()]
    for writer in writers.values():
        writer.close()
    if not portions:
        shutil.rmtree(draft)
        return taken
    write_json(draft / "taken.json", to_record(files, lines_by_file(chosen_lines)))
    write_json(draft / "portions.json", portions)
    sync_names(draft)
    os.rename(draft, draft.with_suffix(""))
    sync_names(draft.parent)
    taken.letters = sum(writer.rows for writer in writers.values())
    return taken


@contextmanager
def only_replay(state: StateFolder) -> Iterator[None]:
    """Lock the replays of a state folder while the body runs. Between two portions no run has the lock of the folder, and two
    replays that were begun at the same time have the same open portions. Raises EtlError if another process has the lock."""
    with open(state.root / "dead" / "replays" / "lock", "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EtlError(
                "another replay of this pipeline is going on: wait for its end, and replay again for the rest"
            ) from None
        yield


def _begin(pipeline: Pipeline, at: str, path: Path, writers: dict[str, LetterWriter], taken: TakenLetters) -> None:
    """Begin the file of the letters of a step or sink, or note why they stay."""
    try:
        entry_point(pipeline, at)
    except NoEntryError as error:
        taken.refused[at] = str(error), 0
    else:
        writers[at] = LetterWriter(path)


def open_portions(pipeline: Pipeline, state: StateFolder) -> Iterator[ReplayPart]:
    """The portions of replays that have not ended, the oldest first. Raises NoEntryError if the pipeline cannot take one now."""
    for folder, portion in _open_portions(state):
        yield ReplayPart(portion["name"], folder, _entry_of(pipeline, portion, folder), portion["letters"])


def count_open_letters(state: StateFolder) -> int:
    """How many letters are in replays that have not ended, as after a kill: they are neither open nor delivered."""
    return sum(portion["letters"] for _, portion in _open_portions(state))


def _open_portions(state: StateFolder) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The folders and portions of replays that have not ended, the oldest first. A folder without a list of portions has none."""
    for folder in sorted((state.root / "dead" / "replays").glob("[0-9][0-9][0-9][0-9]*")):
        if folder.suffix:
            continue  # a draft
        for portion in read_json(folder / "portions.json") or ():
            if not (folder / f"{portion['name']}.ended").exists():
                yield folder, portion


def _entry_of(pipeline: Pipeline, portion: Mapping[str, Any], folder: Path) -> EntryPoint:
    """Where the letters of an open portion enter. Raises NoEntryError that says what can be done."""
    try:
        return entry_point(pipeline, portion["at"])
    except NoEntryError as error:
        raise NoEntryError(
            f"{portion['letters']:,} letters of {portion['at']} are in a replay that has not ended: {error}; give the pipeline "
            f"this step again, or give the letters up: touch {folder / portion['name']}.ended"
        ) from error


def end_portion(portion: ReplayPart) -> None:
    """Record that all of its letters are through; its checkpoints are not needed any more."""
    (portion.folder / f"{portion.name}.ended").touch()
    shutil.rmtree(portion.folder / portion.name, ignore_errors=True)


def remove_copies(state: StateFolder) -> None:
    """Remove the letters that ended replays hold. Their folders stay, so that no further replay has the name of one of them."""
    for folder in (state.root / "dead" / "replays").glob("[0-9]*"):
        for ended in folder.glob("*.ended"):
            ended.with_suffix(".arrow").unlink(missing_ok=True)


def history(state: StateFolder, source: str, offset: int | None) -> list[dict[str, Any]]:
    """The earlier rejections of a letter that was replayed, the first at the beginning; empty for one that was not, and for a
    ``source`` that no replay has."""
    found: list[dict[str, Any]] = []
    while (name := _SOURCE.fullmatch(source)) and offset is not None:
        path = state.root / "dead" / "replays" / name[1] / f"{source}.arrow"
        if not path.is_file():
            break
        before = _letter(path, offset)
        if before is None:
            break
        found.insert(0, before)
        source, offset = before["source"] or "", before["offset"]
    return found


def _letter(path: Path, number: int) -> dict[str, Any] | None:
    with pa.ipc.open_file(str(path)) as file:
        for at in range(file.num_record_batches):
            batch = file.get_batch(at)
            if number < batch.num_rows:
                return dict(batch.slice(number, 1).to_pylist()[0])
            number -= batch.num_rows
    return None


def service_of(portion: ReplayPart, whole: Pipeline, state: StateFolder, session: SharedSession) -> RunService:
    """The run of a portion. Raises EtlError if it cannot be planned."""

    def plan(pipeline: Pipeline, request: RunRequest, master: str, several: bool) -> PipelineRun:
        return replace(planned_run(pipeline, request, master, several, portion.state(state)), is_part=True)

    request = RunRequest(once=True, master=session.master)
    return RunService([portion.pipeline(whole)], request, shared=session, plan=plan)
