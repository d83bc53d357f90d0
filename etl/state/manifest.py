"""The state of a stateful query after each micro-batch: its watermarks, and the files that hold what its steps remember."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from etl.api import ComponentError, replace_file, write_advice
from etl.contract.state import NEVER, AfterRun, EmitProgress, PaneSpan
from etl.state.key_hash import new_seed

_REMEDY = "restore the state folder from a backup"

KEPT_VERSIONS = 3
"""Manifests that are kept: the last one, and those from which a micro-batch that runs again may start."""


VERSION = 2
"""Of the format of manifests."""


@dataclass(frozen=True)
class StateFileEntry:
    """A state file as a manifest names it."""

    name: str
    first: int
    """First pane."""
    last: int
    """Last pane."""
    rows: int
    bytes: int
    checksum: int
    """Of the file's tail, which has that of the index, which has those of all rows: no other file has it."""


@dataclass(frozen=True)
class StageState:
    """The state of one step."""

    watermark: int = NEVER
    files: tuple[StateFileEntry, ...] = ()
    emission: EmitProgress = field(default_factory=EmitProgress)


@dataclass(frozen=True)
class Manifest:
    """The state of a query after a micro-batch."""

    event_time: int = NEVER
    """Largest event time, microseconds since the epoch."""
    stages: tuple[StageState, ...] = ()
    parallelism: int | None = None
    """Maximum number of tasks of a stage in the next micro-batch; None before the first. A run with other cores divides
    the next micro-batch as before, so that results that sinks have already keep their identities."""

    event_times: Mapping[str, int] = field(default_factory=dict)
    """Input of a step (`etl.plan.frames.StageInput.name`) → its largest event time."""
    read_at: int = NEVER
    """Latest time of reading, of results as well, microseconds since the epoch."""
    change: str = field(default="", compare=False)
    """Identifies the change of the query's steps that made this manifest, so that it is not made twice."""

    def stage(self, number: int) -> StageState:
        """The state of a step; empty before its first micro-batch."""
        return self.stages[number] if number < len(self.stages) else StageState()


def span_of(files: tuple[StateFileEntry, ...]) -> PaneSpan | None:
    """The first and the last pane of all files."""
    return PaneSpan(min(file.first for file in files), max(file.last for file in files)) if files else None


def files_after_run(
    after_run: AfterRun,
    stored: tuple[StateFileEntry, ...],
    arrived: tuple[StateFileEntry, ...],
    written: tuple[StateFileEntry, ...],
) -> tuple[StateFileEntry, ...]:
    """The files of a step's state after its parts have run and written some."""
    match after_run:
        case "arrived":
            return (*stored, *arrived)
        case "appended":
            return (*stored, *written)
        case "added":
            return (*stored, *arrived, *written)
        case "rewritten":
            return written


class Manifests:
    """The manifests of a query, a file each, and the folder of its state files."""

    def __init__(self, folder: Path, durable: bool = True) -> None:
        """``durable``: wait until the disk has what is written."""
        self.folder = folder
        self.durable = durable

    @cached_property
    def seed(self) -> int:
        """The seed of this state's hashes, chosen at its first use: by the driver, before tasks run."""
        known = read_seed(self._seed_path)
        if known is None:
            if next(self.folder.glob("manifest-*.json"), None):
                raise _without_seed(self._seed_path)
            known = new_seed()
            self._replace(self._seed_path, json.dumps(known).encode())
        return known

    def last(self) -> int | None:
        """The number of the last micro-batch that has a manifest."""
        return max(self.versions(), default=None)

    def read(self, batch: int) -> Manifest:
        """The state after a micro-batch, with which the next one starts; for -1 that of a new query, empty or imported.

        Raises ComponentError for a manifest that is missing, damaged, or of another micro-batch, query or seed: with it results
        would be wrong.
        """
        path = self._path(batch)
        if batch < 0 and not path.exists():
            return Manifest()
        try:
            found = path.stat()
            identity = tuple(self._identity(batch, read_seed(self._seed_path)).items())
            return _read(path, (found.st_ino, found.st_mtime_ns, found.st_size), identity)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ComponentError(
                f"state manifest {path} cannot be read ({error}): {_REMEDY}; or remove "
                f"{self.folder.parent}, and the query starts over at its sources' start"
            ) from error

    def write(self, batch: int, manifest: Manifest) -> None:
        """Make this the state after a micro-batch, and remove the files that no kept manifest names."""
        self._replace(self._path(batch), _encode(manifest, self._identity(batch, self.seed)))
        self._path(batch - KEPT_VERSIONS).unlink(missing_ok=True)
        numbers = [batch - back for back in range(KEPT_VERSIONS) if self._path(batch - back).exists()]
        named = {file.name for number in numbers for stage in self.read(number).stages for file in stage.files}
        for path in self.folder.glob("rows-*"):
            if path.name not in named:
                path.unlink(missing_ok=True)

    def change(self, batch: int, manifest: Manifest) -> None:
        """Make this the state with which the next micro-batch starts, while no run is alive."""
        for number in self.versions():
            if number > batch:  # of a micro-batch that was not committed, and runs again
                self._path(number).unlink()
        self.write(batch, manifest)

    def remove_before(self, batch: int) -> None:
        """Remove the manifests of earlier micro-batches."""
        for number in self.versions():
            if number < batch:
                self._path(number).unlink()

    def written(self, batch: int) -> int:
        """When a manifest was written, microseconds since the epoch. Raises ComponentError if it is gone."""
        try:
            return self._path(batch).stat().st_mtime_ns // 1000
        except OSError as error:
            raise ComponentError(f"state manifest {self._path(batch)} cannot be read: {error}") from error

    def versions(self) -> list[int]:
        """The numbers of the micro-batches that have a manifest, in order."""
        return sorted(map(_number, self.folder.glob("manifest-*.json")))

    def _replace(self, path: Path, content: bytes) -> None:
        """Raises ComponentError, for example for a full disk; the file is the one before."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            replace_file(path, content, sync=self.durable)
        except OSError as error:
            raise ComponentError(
                f"state file {path} cannot be written: {error}; {write_advice(error)}, and start again"
            ) from error

    def _path(self, batch: int) -> Path:
        return self.folder / f"manifest-{batch:012d}.json"

    @property
    def _seed_path(self) -> Path:
        return self.folder / "seed.json"

    def _identity(self, batch: int, seed: int | None) -> dict[str, Any]:
        """What a manifest belongs to, by which one that was swapped is recognised."""
        if seed is None:
            raise _without_seed(self._seed_path)
        digest = hashlib.blake2b(seed.to_bytes(8, "little"), digest_size=8, person=b"sluice-manifest").hexdigest()
        return {"query": self.folder.parent.name, "micro-batch": batch, "seed": digest}


def _without_seed(path: Path) -> ComponentError:
    return ComponentError(f"state file {path} is missing, without which groups are not found again: {_REMEDY}")


def _number(path: Path) -> int:
    return int(path.stem.removeprefix("manifest-"))


def read_seed(path: Path) -> int | None:
    """The seed in a file, None if there is no file. Raises ComponentError for a damaged one."""
    try:
        return int(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise ComponentError(f"state file {path} cannot be read ({error}): {_REMEDY}") from error


def _unlike(name: str, found: Any, known: Any) -> str:
    """How a manifest shows that it belongs elsewhere."""
    if name == "seed":
        return "the seed.json beside it is that of another state"
    return f"it is that of {name} {found!r}, in the place of that of {name} {known!r}"


def emit_progress_of(stage: Mapping[str, Any]) -> EmitProgress:
    """Read the progress of a step's results from JSON."""
    known = {"quiet": 0, "last": {}, "final": NEVER, **stage.get("emission", {})}
    return EmitProgress(known["quiet"], {int(every): number for every, number in known["last"].items()}, known["final"])


def _encode(manifest: Manifest, identity: Mapping[str, Any]) -> bytes:
    state = json.loads(json.dumps(_as_dict(manifest)))  # the checksum is that of what is read: keys are texts
    return json.dumps({"version": VERSION, "checksum": _checksum(identity, state), "of": identity, "state": state}).encode()


def _as_dict(manifest: Manifest) -> dict[str, Any]:
    """Its fields and those of its parts; `asdict` copies each value, which takes a millisecond for forty files."""
    stages = [
        {**vars(stage), "files": [vars(file) for file in stage.files], "emission": vars(stage.emission)}
        for stage in manifest.stages
    ]
    return {**vars(manifest), "stages": stages}


def _checksum(identity: Mapping[str, Any], state: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps([identity, state], sort_keys=True).encode())


@lru_cache(maxsize=32)
def _read(path: Path, version: tuple[int, int, int], identity: tuple[tuple[str, Any], ...]) -> Manifest:
    """The manifest of a file of this inode, time of change and size: three micro-batches read it."""
    return _parse(json.loads(path.read_bytes()), dict(identity))


def _parse(content: Mapping[str, Any], identity: Mapping[str, Any]) -> Manifest:
    """The manifest of this micro-batch, query and seed. Raises ValueError, KeyError or TypeError for another version or changed
    content."""
    if content["version"] != VERSION:
        raise ValueError(f"its version is {content['version']!r}, and this release reads version {VERSION}")
    value, found = content["state"], content["of"]
    if content["checksum"] != _checksum(found, value):
        raise ValueError("its checksum does not match")
    for name, known in identity.items():
        if found[name] != known:
            raise ValueError(_unlike(name, found[name], known))
    stages = [
        StageState(stage["watermark"], tuple(StateFileEntry(**file) for file in stage["files"]), emit_progress_of(stage))
        for stage in value["stages"]
    ]
    times = value.get("event_times", {})
    return Manifest(
        value["event_time"], tuple(stages), value["parallelism"], times, value.get("read_at", NEVER), value.get("change", "")
    )
