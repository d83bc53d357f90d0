"""What a server remembers of its pipelines: their desired states and accepted versions, below its state folder."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from etl.api import EtlError
from etl.file_modes import replace_file
from etl.server.jobs_folder import JobFile, Language
from etl.server.names import PipelineName

Desired: TypeAlias = Literal["running", "stopped", "paused"]
"""The desired state of a pipeline."""

FOLDER = ".server"
"""The folder below the server's state; no pipeline is called like that."""

MAX_VERSIONS = 50
"""Versions of a pipeline that are kept."""

_VERSION = re.compile(r"(\d{6})\.(yaml|yml|sql)")


class DesiredStates:
    """The desired state of each pipeline, in a file; that of a pipeline without an entry is ``running``."""

    def __init__(self, state: Path) -> None:
        self._path = state / FOLDER / "desired.json"
        self._lock = threading.Lock()
        self._states = self._read()

    def get(self, name: PipelineName) -> Desired:
        """The desired state of a pipeline."""
        return self._states.get(str(name), "running")

    def set(self, name: PipelineName, desired: Desired | None) -> None:
        """Change it, or forget it. Raises OSError; then nothing has changed."""
        with self._lock:
            states = {key: value for key, value in self._states.items() if key != str(name)}
            if desired is not None:
                states[str(name)] = desired
            if states != self._states:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                replace_file(self._path, json.dumps(states, indent=1).encode())
                self._states = states

    def _read(self) -> Mapping[str, Desired]:
        try:
            found: Any = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise EtlError(f"{self._path} cannot be read: {error}; remove it to start all pipelines") from error
        if not isinstance(found, dict) or not all(value in get_args(Desired) for value in found.values()):
            raise EtlError(f"{self._path} does not hold the desired states of pipelines; remove it to start all pipelines")
        return found


@dataclass(frozen=True)
class Version:
    """An accepted version of a pipeline."""

    number: int
    path: Path
    time: float
    """When it was accepted, seconds since the epoch."""

    def file(self, target: Path) -> JobFile:
        """Its content, as a file beside ``target`` in its own language. Raises OSError."""
        return JobFile(target.with_suffix(self.path.suffix), self.path.read_bytes())

    @property
    def language(self) -> Language:
        """Its language."""
        return "sql" if self.path.suffix == ".sql" else "yaml"


class Versions:
    """The accepted versions of pipelines, each a file."""

    def __init__(self, state: Path) -> None:
        self._root = state / FOLDER / "versions"

    def list(self, name: PipelineName) -> list[Version]:
        """The versions of a pipeline, oldest first."""
        folder = self._folder(name)
        found = [(match, path) for path in folder.glob("*") if (match := _VERSION.fullmatch(path.name)) and path.is_file()]
        return sorted((Version(int(match[1]), path, path.stat().st_mtime) for match, path in found), key=lambda one: one.number)

    def add(self, name: PipelineName, file: JobFile) -> int:
        """Store a version, unless it is the last one; returns its number. Raises OSError."""
        known = self.list(name)
        if known and known[-1].file(file.path).digest == file.digest:
            return known[-1].number
        number = known[-1].number + 1 if known else 1
        folder = self._folder(name)
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(folder / f"{number:06}{file.path.suffix}", file.content)
        for old in known[: max(0, len(known) + 1 - MAX_VERSIONS)]:
            old.path.unlink(missing_ok=True)
        return number

    def undo(self, name: PipelineName, number: int) -> None:
        """Forget the version that was added last, which could not be deployed."""
        for version in self.list(name):
            if version.number == number:
                version.path.unlink(missing_ok=True)

    def find(self, name: PipelineName, number: int) -> Version:
        """A version. Raises EtlError if it is not kept."""
        known = {version.number: version for version in self.list(name)}
        if number not in known:
            numbers = f"{min(known)} to {max(known)}" if known else "none"
            raise EtlError(f"{name} has no version {number}; kept are {numbers}")
        return known[number]

    def _folder(self, name: PipelineName) -> Path:
        return self._root / name.namespace / name.name


def format_time(seconds: float) -> str:
    """A time in ISO 8601, UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
