"""Runs and servers on this machine, found by their state folders: what they report there, without a server."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from etl.api import EtlError
from etl.cli.server.connection import Connection
from etl.spark.state.folder import state_path

SERVER_FOLDER = ".server"
"""The folder of a server's own records, as `etl.server.records.FOLDER`."""

_SAMPLE = re.compile(r"(?P<name>\w+)\{(?P<labels>.*)\} (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

_Series = tuple[str, dict[str, str], float]


@dataclass(frozen=True)
class LocalRun:
    """A run that holds the lock of its state folder."""

    name: str
    root: Path
    pid: int

    def samples(self) -> Iterator[_Series]:
        """The numbers of its file of metrics: name, labels, value."""
        with suppress(OSError):
            for line in (self.root / "metrics.prom").read_text("utf-8", "replace").splitlines():
                if found := _SAMPLE.fullmatch(line):
                    yield found["name"], dict(_LABEL.findall(found["labels"])), float(found["value"])

    def total(self, name: str, **labels: str) -> float:
        """The sum of a metric over its labels."""
        return sum(
            value for one, given, value in self.samples() if one == name and all(given.get(k) == v for k, v in labels.items())
        )

    def greatest(self, name: str) -> float | None:
        """The greatest value of a metric over its labels; None where there is none."""
        return max((value for one, _, value in self.samples() if one == name), default=None)

    @property
    def messages(self) -> Path:
        """The log of its messages."""
        return self.root / "logs" / "messages.jsonl"

    def is_alive(self) -> bool:
        """Whether it still holds the lock."""
        return _holder(self.root / "lock") == self.pid

    def stop(self) -> None:
        """Ask its process to stop after the micro-batch; all pipelines of that command stop."""
        try:
            os.kill(self.pid, signal.SIGTERM)
        except ProcessLookupError:
            raise EtlError(f"{self.name} has ended") from None
        except PermissionError:
            raise EtlError(f"{self.name} is a run of another user, process {self.pid}: only that user can stop it") from None


def states(chosen: str | None) -> Path:
    """The parent of the state folders: ``--state``, ``$ETL_STATE`` or ``~/.local/state/sluice``."""
    return state_path(chosen or os.environ.get("ETL_STATE") or os.path.expanduser("~/.local/state/sluice")).absolute()


def local_runs(root: Path) -> list[LocalRun]:
    """The runs with a state folder in or below this one, without those of servers."""
    found = [_run(folder, root) for folder in (root, *_folders(root))]
    return sorted((run for run in found if run is not None), key=lambda run: run.name)


def local_servers(root: Path) -> list[Connection]:
    """The servers whose state folder is this one, or in it."""
    return [one for folder in (root, *_folders(root)) if (one := _server(folder / SERVER_FOLDER)) is not None]


def _folders(root: Path) -> list[Path]:
    """The folders below; none if this one is not there. Raises EtlError if it cannot be read."""
    try:
        return sorted(Path(entry.path) for entry in os.scandir(root) if entry.is_dir() and not entry.name.startswith("."))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise EtlError(
            f"cannot read {root}, where runs have their state folders: {error.strerror}; name another folder with --state "
            "or $ETL_STATE"
        ) from error


def _run(folder: Path, root: Path) -> LocalRun | None:
    pid = _holder(folder / "lock")
    return None if pid is None else LocalRun(folder.name, folder, pid)


def _server(folder: Path) -> Connection | None:
    if _holder(folder / "lock") is None:
        return None
    with suppress(OSError, ValueError, KeyError, EtlError):
        return Connection.of(json.loads((folder / "server.json").read_bytes())["url"])
    return None


def _holder(lock: Path) -> int | None:
    """The process that holds a lock; None if nobody does."""
    try:
        with lock.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                found = re.match(rb"(\d+) since ", file.read(100))
                return int(found[1]) if found else None
    except OSError:
        return None
    return None
